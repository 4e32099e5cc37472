package journal_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/memory"
	"github.com/tarry-mq/tarry/store/timeline"
)

// line is a timeline that can be made whole.
type line interface {
	scheduler.Timeline
	scheduler.Mending
	scheduler.Recoverable
}

// crashes is a world in which whoever writes the journal dies at any moment: one
// timeline, which may come back empty, one journal, and everything that was told
// on its way between the two.
type crashes struct {
	*rapid.T
	ctx   context.Context
	tl    line
	lose  func() // the timeline's server comes back empty
	store journal.Store
	clock *scheduler.Clock
	now   scheduler.Milli
	term  uint64
	claim uint64
	mu    sync.Mutex // of what wrote writes

	told     []scheduler.Entry                    // entries in the outbox that nobody has deleted
	changes  map[scheduler.UID][]scheduler.Change // that were made and not lost, by version
	durable  map[scheduler.Recorded]bool          // that the journal has
	answered map[scheduler.UID]bool               // pushes that were answered in sync: committed
	canceled map[scheduler.UID]bool               // cancels that were answered so
	minted   []*scheduler.Message
	claimed  []*scheduler.Message
}

func (c *crashes) must(step string, err error) {
	if err != nil {
		c.Fatalf("%s: %v", step, err)
	}
}

// wrote hears of an entry, as the writer does.
func (c *crashes) wrote(e scheduler.Entry) {
	c.mu.Lock() // a restore goes to all buckets at once
	defer c.mu.Unlock()
	c.told = append(c.told, e)
	for _, change := range e.Changes {
		c.changes[change.UID] = append(c.changes[change.UID], change)
	}
}

func (c *crashes) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"push": c.push, "push more": c.push, "cancel": c.cancel, "claim": c.claimSome, "finish": c.finish, "return": c.giveBack,
		"commit": c.commit, "commit more": c.commit, "commit twice": c.commitTwice, "new leader": c.newLeader, "drain": c.drain, "lose": c.loseAll,
	}
}

const crashBuckets = 2

func (c *crashes) push(t *rapid.T) {
	c.T = t
	var batch []*scheduler.Message
	bucket := rapid.IntRange(0, crashBuckets-1).Draw(t, "bucket")
	for range rapid.IntRange(1, 4).Draw(t, "messages") {
		due := time.Duration(rapid.IntRange(-20, 100).Draw(t, "due")) * time.Millisecond
		m := schedulertest.Message(len(c.minted), schedulertest.In(bucket), schedulertest.DueIn(c.now.Time().Sub(schedulertest.Start.Time())+due))
		c.minted, batch = append(c.minted, m), append(batch, m)
	}
	_, _, err := c.tl.Add(c.ctx, bucket, batch, c.now)
	c.must("add", err)
	if rapid.Bool().Draw(t, "answered") { // the instance waits for its commit
		c.commitEntry(len(c.told)-1, true)
		for _, m := range batch {
			c.answered[m.UID] = true
		}
	}
}

func (c *crashes) cancel(t *rapid.T) {
	c.T = t
	if len(c.minted) == 0 {
		t.Skip("nothing to cancel")
	}
	m := rapid.SampledFrom(c.minted).Draw(t, "message")
	before := len(c.told)
	r, err := c.tl.Cancel(c.ctx, m.UID, c.now)
	c.must("cancel", err)
	if len(c.told) > before && rapid.Bool().Draw(t, "answered") {
		c.commitEntry(len(c.told)-1, true)
		if c.durable[scheduler.Recorded{UID: m.UID, Version: 1}] && r.Code == scheduler.CancelDone {
			c.canceled[m.UID] = true
		}
	}
}

func (c *crashes) claimSome(t *rapid.T) {
	c.T = t
	c.claim++
	got, err := c.tl.Claim(c.ctx, rapid.IntRange(0, crashBuckets-1).Draw(t, "bucket"),
		scheduler.Claim{Term: c.term, Number: c.claim, Now: c.now, Limit: rapid.IntRange(1, 5).Draw(t, "limit"), Bytes: 1 << 20})
	c.must("claim", err)
	for _, m := range got.Messages {
		if c.canceled[m.UID] {
			c.Fatalf("%s was canceled for certain and is claimed", m.UID)
		}
	}
	c.claimed = append(c.claimed, got.Messages...)
}

// take removes one of what is claimed.
func (c *crashes) take(t *rapid.T) *scheduler.Message {
	if len(c.claimed) == 0 {
		t.Skip("nothing is claimed")
	}
	i := rapid.IntRange(0, len(c.claimed)-1).Draw(t, "claimed")
	m := c.claimed[i]
	c.claimed = slices.Delete(c.claimed, i, i+1)
	return m
}

func (c *crashes) finish(t *rapid.T) {
	c.T = t
	m := c.take(t)
	end := scheduler.End{Message: m, State: scheduler.StateDelivered, Stream: "S", Sequence: c.claim, Uncertain: m.Mark.Uncertain}
	c.must("finish", c.tl.Finish(c.ctx, m.UID.Bucket(crashBuckets), c.term, []scheduler.End{end}, c.now))
}

func (c *crashes) giveBack(t *rapid.T) {
	c.T = t
	m := c.take(t)
	mark := m.Mark
	mark.Changes++
	mark.Uncertain = true
	c.must("return", c.tl.Return(c.ctx, m.UID.Bucket(crashBuckets), c.term, []scheduler.Back{{UID: m.UID, Claim: m.Claim, Score: m.Score(), Mark: mark, Message: m, Reason: "unknown"}}, c.now))
}

// commitEntry is what a writer does with an entry; it may die before it deletes.
func (c *crashes) commitEntry(i int, remove bool) {
	e := c.told[i]
	fences := map[int]uint64{}
	if e.Number > 0 {
		fences[e.Bucket] = e.Number
	}
	err := c.store.Write(c.ctx, fences, e.Changes)
	if errors.Is(err, scheduler.ErrFenced) {
		return // it was written before the certification that stands: the drainer's
	}
	c.must("write", err)
	for _, change := range e.Changes {
		c.durable[scheduler.Recorded{UID: change.UID, Version: change.Version}] = true
	}
	if remove {
		c.must("written", c.tl.Written(c.ctx, e.Bucket, []scheduler.Entry{e}))
		c.told = slices.Delete(c.told, i, i+1)
	}
}

func (c *crashes) commit(t *rapid.T) {
	c.T = t
	if len(c.told) == 0 {
		t.Skip("nothing to commit")
	}
	c.commitEntry(rapid.IntRange(0, len(c.told)-1).Draw(t, "entry"), rapid.Bool().Draw(t, "delete"))
}

func (c *crashes) commitTwice(t *rapid.T) {
	c.T = t
	if len(c.told) == 0 {
		t.Skip("nothing to commit")
	}
	i := rapid.IntRange(0, len(c.told)-1).Draw(t, "entry")
	c.commitEntry(i, false)
	c.commitEntry(i, true)
}

// newLeader is a crash of the leader: what it had claimed nobody remembers.
func (c *crashes) newLeader(t *rapid.T) {
	c.T = t
	c.term++
	c.claimed = nil
	c.recover()
	for b := range crashBuckets {
		for {
			n, err := c.tl.Sweep(c.ctx, b, c.term, 2, c.now)
			c.must("sweep", err)
			if n < 2 {
				break
			}
		}
	}
}

func (c *crashes) drain(t *rapid.T) {
	c.T = t
	c.drainAll()
}

func (c *crashes) drainAll() {
	for b := range crashBuckets {
		_, refused, err := journal.Drain(c.ctx, c.store, c.tl, b, 0, time.Minute)
		c.must("drain", err)
		if refused > 0 {
			c.Fatalf("the journal refused %d entries", refused)
		}
	}
	c.committed()
}

// committed notes that everything told is in the journal.
func (c *crashes) committed() {
	for _, e := range c.told {
		for _, change := range e.Changes {
			c.durable[scheduler.Recorded{UID: change.UID, Version: change.Version}] = true
		}
	}
	c.told = nil
}

// loseAll is a store that comes back empty: what the journal does not have is
// lost, what was answered is not.
func (c *crashes) loseAll(t *rapid.T) {
	c.T = t
	c.lose()
	c.told, c.claimed = nil, nil
	for uid, list := range c.changes {
		c.changes[uid] = slices.DeleteFunc(list, func(ch scheduler.Change) bool { return !c.durable[scheduler.Recorded{UID: uid, Version: ch.Version}] })
	}
	c.term++
	c.recover()
}

// recover is a leader's; it is stopped in the middle now and then, and begun
// again by the next.
func (c *crashes) recover() {
	r := journal.NewRecovery(journal.RecoveryConfig{Store: c.store, Timeline: c.tl, Mode: journal.Sync, Window: time.Hour, Clock: c.clock, Timeout: time.Minute, Log: zerolog.Nop()})
	before := len(c.told)
	result, err := r.Run(c.ctx, c.term)
	c.must("recover", err)
	if result.Buckets > 0 {
		fresh := c.told[before:]
		c.told = c.told[:before]
		c.committed() // the outbox was drained before the comparison
		c.told = append(c.told, fresh...)
	}
}

// check holds timeline and journal to what was told and not lost.
func (c *crashes) check() {
	c.drainAll()
	for _, m := range c.minted {
		list := c.changes[m.UID]
		slices.SortFunc(list, func(a, b scheduler.Change) int { return int(a.Version) - int(b.Version) })
		history, err := c.store.History(c.ctx, m.UID)
		c.must("history", err)
		if len(history) != len(list) {
			c.Fatalf("%s has %d changes in the journal, %d were made: %+v, %+v", m.UID, len(history), len(list), history, list)
		}
		for i := range list {
			if history[i].Version != list[i].Version || history[i].State != list[i].State || history[i].Reason != list[i].Reason || history[i].Term != list[i].Term {
				c.Fatalf("%s: change %d is %+v in the journal, was %+v", m.UID, i, history[i], list[i])
			}
			if i > 0 && list[i].Term != 0 && list[i-1].Term > list[i].Term {
				c.Fatalf("%s: the term falls from %d to %d", m.UID, list[i-1].Term, list[i].Term)
			}
		}
		found, err := c.tl.Find(c.ctx, scheduler.Ref{UID: m.UID})
		c.must("find", err)
		state := scheduler.StateNone
		if len(found) > 0 {
			state = found[0].State
		}
		if c.answered[m.UID] && state == scheduler.StateNone {
			if last := list[len(list)-1].State; !last.Ended() {
				c.Fatalf("%s was answered, is %s in the journal, and is gone", m.UID, last)
			}
		}
		if c.canceled[m.UID] && state != scheduler.StateNone && state != scheduler.StateCanceled {
			c.Fatalf("%s was canceled for certain and is %s", m.UID, state)
		}
		if len(list) > 0 && len(found) > 0 {
			if last := list[len(list)-1]; found[0].Version != last.Version {
				c.Fatalf("%s has version %d in the timeline, %d in the journal", m.UID, found[0].Version, last.Version)
			}
		}
	}
}

func exerciseCrashes(t *testing.T, openLine func(t *testing.T, r *scheduler.Recording) (line, func() line), openStore func(t *testing.T) journal.Store) {
	rapid.Check(t, func(rt *rapid.T) {
		c := &crashes{T: rt, ctx: t.Context(), store: openStore(t), now: schedulertest.Start, term: 1, changes: map[scheduler.UID][]scheduler.Change{},
			durable: map[scheduler.Recorded]bool{}, answered: map[scheduler.UID]bool{}, canceled: map[scheduler.UID]bool{}}
		c.clock = scheduler.NewClock(scheduler.Local{Wall: func() time.Time { return c.now.Time() }, Mono: func() time.Duration { return time.Duration(c.now) * time.Millisecond }})
		recording := &scheduler.Recording{Instance: "crash", Address: func() string { return "here:1" }, Limit: 1 << 30, Wrote: c.wrote}
		tl, again := openLine(t, recording)
		c.tl = tl
		c.lose = func() { c.tl = again() }
		c.recover()
		actions := c.actions()
		for name, act := range actions {
			actions[name] = func(rt *rapid.T) { c.now += 7; act(rt) }
		}
		rt.Repeat(actions)
		c.T = rt
		c.check()
	})
}

func memoryLine(t *testing.T, r *scheduler.Recording) (line, func() line) {
	open := func() line {
		tl, err := memory.New(memory.Config{Buckets: crashBuckets, Record: r})
		if err != nil {
			t.Fatal(err)
		}
		return tl
	}
	return open(), open
}

func redisLine(t *testing.T, r *scheduler.Recording) (line, func() line) {
	rdb := timeline.Dial(timeline.DialConfig{Addrs: []string{lab.SharedRedis(t).Addr}, CallTimeout: 10 * time.Second})
	t.Cleanup(func() { _ = rdb.Close() })
	ns := "c" + strings.ToLower(rand.Text())
	tl, err := timeline.New(timeline.Config{Client: rdb, Namespace: ns, Buckets: crashBuckets, EndedKeep: time.Hour, TombstoneKeep: time.Hour, TombstoneLimit: 10, Record: r})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tl.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return tl, func() line {
		for b := range crashBuckets {
			keys, err := rdb.Keys(t.Context(), fmt.Sprintf("{%s:%d}:*", ns, b)).Result()
			if err != nil {
				t.Fatal(err)
			}
			if len(keys) > 0 {
				if err := rdb.Del(t.Context(), keys...).Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
		return tl
	}
}

func memoryStore(t *testing.T) journal.Store {
	s, err := memory.NewJournal(memory.JournalConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sqliteStore(t *testing.T) journal.Store {
	s, err := journal.Open(t.Context(), journal.Config{DSN: "sqlite:" + filepath.Join(t.TempDir(), "j.db"), Namespace: "crash", Migrate: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestCrashes_InMemory(t *testing.T) {
	t.Parallel()
	exerciseCrashes(t, memoryLine, memoryStore)
}

func TestCrashes_OnRedisAndSQLite(t *testing.T) {
	t.Parallel()
	exerciseCrashes(t, redisLine, sqliteStore)
}
