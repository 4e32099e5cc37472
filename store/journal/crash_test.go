package journal_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/memory"
	"github.com/tarry-mq/tarry/store/timeline"
)

// line is a timeline that can be made whole.
type line interface {
	scheduler.Timeline
	record.Mending
	record.Recoverable
}

// server is where a line is kept.
type server struct {
	line
	// empty returns the line of a server that comes back empty.
	empty func() line
	// snapshot returns what brings the server back as it is now. It is nil where a server that ends keeps nothing.
	snapshot func() (rollBack func())
}

// crashes is a world in which whoever writes the journal dies at any moment: one timeline, which may come back empty or
// as it was, one journal, and every entry on its way between the two.
type crashes struct {
	*rapid.T
	ctx   context.Context
	on    server
	tl    line
	store journal.Store
	clock *scheduler.Clock
	now   message.Milli
	term  uint64
	claim uint64
	mu    sync.Mutex // of what wrote writes

	older *older

	outbox   []record.Entry                  // entries that nobody has deleted
	late     []record.Entry                  // entries that a store has lost, and that who wrote them still holds
	changes  map[message.UID][]record.Change // that were made and not lost, by version
	durable  map[scheduler.Recorded]bool     // that the journal has
	answered map[message.UID]bool            // pushes that were answered in sync: committed
	canceled map[message.UID]bool            // cancels that were answered so
	minted   []*message.Message
	claimed  []*message.Message
}

// older is the store as it was.
type older struct {
	rollBack func()
	outbox   []record.Entry
}

func (c *crashes) must(step string, err error) {
	if err != nil {
		c.Fatalf("%s: %v", step, err)
	}
}

// wrote hears of an entry, as the writer does.
func (c *crashes) wrote(e record.Entry) {
	c.mu.Lock() // a restore goes to all buckets at once
	defer c.mu.Unlock()
	c.outbox = append(c.outbox, e)
	for _, change := range e.Changes {
		c.changes[change.UID] = append(c.changes[change.UID], change)
	}
}

func (c *crashes) actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){
		"push": c.push, "push more": c.push, "push a name": c.pushNamed,
		"cancel": c.cancel, "amend": c.amend, "amend more": c.amend,
		"claim": c.claimSome, "claim a lane": c.claimLane, "finish": c.finish,
		"return": c.giveBack, "return as it was": c.giveBackAsItWas, "park": c.park,
		"commit": c.commit, "commit more": c.commit, "commit twice": c.commitTwice, "commit late": c.commitLate,
		"new leader": c.newLeader, "drain": c.drain, "lose": c.loseAll,
	}
	if c.on.snapshot != nil {
		actions["snapshot"], actions["snapshot again"] = c.snapshot, c.snapshot
		actions["roll back"], actions["roll back again"] = c.rollBack, c.rollBack
	}
	return actions
}

const crashBuckets message.Bucket = 2

func (c *crashes) bucket(t *rapid.T) message.Bucket {
	return message.Bucket(rapid.IntRange(0, int(crashBuckets)-1).Draw(t, "bucket"))
}

func (c *crashes) push(t *rapid.T) {
	c.T = t
	var batch []*message.Message
	bucket := c.bucket(t)
	for range rapid.IntRange(1, 4).Draw(t, "messages") {
		batch = append(batch, c.mint(t, schedulertest.In(bucket)))
	}
	c.add(t, bucket, batch)
}

// pushNamed adds one message that merges with what waits under its name.
func (c *crashes) pushNamed(t *rapid.T) {
	c.T = t
	id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
	ways := []message.Merge{message.MergeReject, message.MergeKeep, message.MergeReplace,
		message.MergeDebounce}
	how := rapid.SampledFrom(ways).Draw(t, "merge")
	m := c.mint(t, schedulertest.Named(id), schedulertest.Merging(how), schedulertest.Direct())
	c.add(t, m.UID.Bucket(crashBuckets), []*message.Message{m})
}

// dueSoon is a time around now.
func (c *crashes) dueSoon(t *rapid.T) message.Milli {
	return c.now.Add(time.Duration(rapid.IntRange(-20, 100).Draw(t, "due")) * time.Millisecond)
}

func (c *crashes) mint(t *rapid.T, with ...schedulertest.With) *message.Message {
	due := c.dueSoon(t).Time().Sub(schedulertest.Start.Time())
	m := schedulertest.Message(len(c.minted), append(with, schedulertest.DueIn(due))...)
	c.minted = append(c.minted, m)
	return m
}

func (c *crashes) add(t *rapid.T, bucket message.Bucket, batch []*message.Message) {
	before := len(c.outbox)
	results, _, err := c.tl.Add(c.ctx, bucket, batch, c.now)
	c.must("add", err)
	if !c.awaited(t, before) {
		return
	}
	for i, m := range batch {
		c.answered[m.UID] = results[i].Code == scheduler.Added
	}
}

// awaited reports whether an instance has made a change, waited for its commit and answered.
func (c *crashes) awaited(t *rapid.T, before int) bool {
	if len(c.outbox) == before || !rapid.Bool().Draw(t, "answered") {
		return false
	}
	c.commitEntry(len(c.outbox)-1, true)
	return true
}

func (c *crashes) cancel(t *rapid.T) {
	c.T = t
	if len(c.minted) == 0 {
		t.Skip("nothing to cancel")
	}
	m := rapid.SampledFrom(c.minted).Draw(t, "message")
	before := len(c.outbox)
	r, err := c.tl.Cancel(c.ctx, scheduler.Ref{UID: m.UID}, c.now)
	c.must("cancel", err)
	if c.awaited(t, before) && c.durable[scheduler.Recorded{UID: m.UID, Version: 1}] && r.Code == scheduler.CancelDone {
		c.canceled[m.UID] = true
	}
}

// amend reschedules what waits, or gives it another body too.
func (c *crashes) amend(t *rapid.T) {
	c.T = t
	if len(c.minted) == 0 {
		t.Skip("nothing to amend")
	}
	found, err := c.tl.Find(c.ctx, scheduler.Ref{UID: rapid.SampledFrom(c.minted).Draw(t, "message").UID})
	c.must("find", err)
	if len(found) == 0 || found[0].State != message.StateWaiting {
		t.Skip("it does not wait")
	}
	i := found[0]
	a := scheduler.Amend{UID: i.UID, Version: i.Version, Due: c.dueSoon(t), Priority: i.Priority, Reason: "rescheduled"}
	if rapid.Bool().Draw(t, "content too") {
		edited := i.Message
		edited.Mark, edited.Due, edited.Body = message.Mark{}, a.Due, fmt.Appendf(nil, "edited at %d", c.now)
		a.Message, a.Reason = &edited, "edited"
	}
	before := len(c.outbox)
	_, err = c.tl.Amend(c.ctx, a, c.now)
	c.must("amend", err)
	c.awaited(t, before)
}

func (c *crashes) claimSome(t *rapid.T) {
	c.T = t
	c.take(t, "")
}

const crashLane = "ORDERS"

func (c *crashes) claimLane(t *rapid.T) {
	c.T = t
	c.take(t, crashLane)
}

func (c *crashes) take(t *rapid.T, lane message.Lane) {
	c.claim++
	bucket, limit := c.bucket(t), rapid.IntRange(1, 5).Draw(t, "limit")
	got, err := c.tl.Claim(
		c.ctx,
		bucket,
		scheduler.Claim{
			Term:   c.term,
			Number: c.claim,
			Now:    c.now,
			Limit:  limit,
			Bytes:  1 << 20,
			Lane:   lane,
		},
	)
	c.must("claim", err)
	for _, m := range got.Messages {
		if c.canceled[m.UID] {
			c.Fatalf("%s was canceled for certain and is claimed", m.UID)
		}
	}
	c.claimed = append(c.claimed, got.Messages...)
}

// oneClaimed removes one of what is claimed.
func (c *crashes) oneClaimed(t *rapid.T) *message.Message {
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
	m := c.oneClaimed(t)
	end := scheduler.End{Message: m, State: message.StateDelivered, Stream: "S", Sequence: c.claim,
		Uncertain: m.Mark.Uncertain}
	err := c.tl.Finish(c.ctx, m.UID.Bucket(crashBuckets), c.term, []scheduler.End{end}, c.now)
	c.must("finish", err)
}

func (c *crashes) giveBack(t *rapid.T) {
	c.T = t
	m := c.oneClaimed(t)
	mark := m.Mark
	mark.Changes++
	mark.Uncertain = true
	c.goBack(scheduler.Back{UID: m.UID, Claim: m.Claim, Score: m.Score(), Mark: mark, Message: m, Reason: "unknown"})
}

// giveBackAsItWas is the return of what was claimed and never tried: no change.
func (c *crashes) giveBackAsItWas(t *rapid.T) {
	c.T = t
	m := c.oneClaimed(t)
	c.goBack(scheduler.Back{UID: m.UID, Claim: m.Claim, Keep: true})
}

// park is the return to a lane, of what was refused or of what met a parked lane.
func (c *crashes) park(t *rapid.T) {
	c.T = t
	m := c.oneClaimed(t)
	b := scheduler.Back{UID: m.UID, Claim: m.Claim, Score: m.Score(), Mark: m.Mark}
	b.Mark.Lane = crashLane
	if rapid.Bool().Draw(t, "refused") {
		b.Mark.Changes++
		b.Mark.Refusals++
		b.Message, b.Reason = m, "refused"
	}
	c.goBack(b)
}

func (c *crashes) goBack(b scheduler.Back) {
	err := c.tl.Return(c.ctx, b.UID.Bucket(crashBuckets), c.term, []scheduler.Back{b}, c.now)
	c.must("return", err)
}

// commitEntry is what a writer does with an entry; it may die before it deletes.
func (c *crashes) commitEntry(i int, remove bool) {
	e := c.outbox[i]
	fences := map[message.Bucket]uint64{}
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
		c.must("written", c.tl.Written(c.ctx, e.Bucket, []record.Entry{e}))
		c.outbox = slices.Delete(c.outbox, i, i+1)
	}
}

func (c *crashes) commit(t *rapid.T) {
	c.T = t
	if len(c.outbox) == 0 {
		t.Skip("nothing to commit")
	}
	c.commitEntry(rapid.IntRange(0, len(c.outbox)-1).Draw(t, "entry"), rapid.Bool().Draw(t, "delete"))
}

func (c *crashes) commitTwice(t *rapid.T) {
	c.T = t
	if len(c.outbox) == 0 {
		t.Skip("nothing to commit")
	}
	i := rapid.IntRange(0, len(c.outbox)-1).Draw(t, "entry")
	c.commitEntry(i, false)
	c.commitEntry(i, true)
}

// commitLate is the commit of what its writer has told a store that lost it since, over a connection to the one before:
// it counts no more.
func (c *crashes) commitLate(t *rapid.T) {
	c.T = t
	if len(c.late) == 0 {
		t.Skip("nothing is late")
	}
	e := rapid.SampledFrom(c.late).Draw(t, "entry")
	err := c.store.Write(c.ctx, map[message.Bucket]uint64{e.Bucket: e.Number}, e.Changes)
	if !errors.Is(err, scheduler.ErrFenced) {
		c.Fatalf("a commit of what the store has lost: %v", err)
	}
}

// newLeader is a crash of the leader: what it had claimed nobody remembers.
func (c *crashes) newLeader(t *rapid.T) {
	c.T = t
	c.term++
	c.claimed = nil
	c.recover()
	for b := range crashBuckets {
		for {
			n, err := c.tl.Sweep(c.ctx, b, c.term, 0, 2, c.now)
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
		_, refused, err := drain(c.ctx, c.store, c.tl, b, 0, time.Minute, zerolog.Nop())
		c.must("drain", err)
		if refused > 0 {
			c.Fatalf("the journal refused %d entries", refused)
		}
	}
	c.committed()
}

// committed notes that every entry is in the journal.
func (c *crashes) committed() {
	for _, e := range c.outbox {
		for _, change := range e.Changes {
			c.durable[scheduler.Recorded{UID: change.UID, Version: change.Version}] = true
		}
	}
	c.outbox = nil
}

// loseAll is a store that comes back empty: what the journal does not have is lost, what was answered is not.
func (c *crashes) loseAll(t *rapid.T) {
	c.T = t
	c.tl = c.on.empty()
	c.older = nil
	c.lost(nil)
}

// snapshot keeps the store as it is.
func (c *crashes) snapshot(t *rapid.T) {
	c.T = t
	c.older = &older{rollBack: c.on.snapshot(), outbox: slices.Clone(c.outbox)}
}

// rollBack is a store that comes back as it was: from an older file, or as a replica that missed the last writes. What
// stood in its outbox stands there again.
func (c *crashes) rollBack(t *rapid.T) {
	c.T = t
	if c.older == nil {
		t.Skip("there is no older state")
	}
	c.older.rollBack()
	c.lost(slices.Clone(c.older.outbox))
}

// lost is what follows when the store came back with less than it had, and with that in its outbox.
func (c *crashes) lost(outbox []record.Entry) {
	c.late, c.outbox, c.claimed = append(c.late, c.outbox...), outbox, nil
	kept := maps.Clone(c.durable)
	for _, e := range outbox {
		for _, change := range e.Changes {
			kept[scheduler.Recorded{UID: change.UID, Version: change.Version}] = true
		}
	}
	for uid, list := range c.changes {
		c.changes[uid] = slices.DeleteFunc(list, func(change record.Change) bool {
			return !kept[scheduler.Recorded{UID: uid, Version: change.Version}]
		})
	}
	c.term++
	c.recover()
}

// recover is what a leader begins with.
func (c *crashes) recover() {
	r := journal.NewRecovery(journal.RecoveryConfig{Store: c.store, Timeline: c.tl, Mode: journal.Sync,
		Window: time.Hour, EndedKeep: time.Hour, Clock: c.clock, Timeout: time.Minute, Log: zerolog.Nop()})
	before := len(c.outbox)
	result, err := r.Run(c.ctx, c.term)
	c.must("recover", err)
	if result.Buckets > 0 {
		fresh := c.outbox[before:]
		c.outbox = c.outbox[:before]
		c.committed() // the outbox was drained before the comparison
		c.outbox = append(c.outbox, fresh...)
		c.noteDurable(fresh)
	}
}

// noteDurable notes what the journal has of the entries that a recovery wrote: that depends on when it drained the
// outbox.
func (c *crashes) noteDurable(entries []record.Entry) {
	for _, e := range entries {
		for _, change := range e.Changes {
			history, err := c.store.History(c.ctx, change.UID, record.MaxChanges)
			c.must("history", err)
			has := func(h record.Change) bool {
				return h.Version == change.Version && h.At == change.At && h.Term == change.Term
			}
			if slices.ContainsFunc(history, has) {
				c.durable[scheduler.Recorded{UID: change.UID, Version: change.Version}] = true
			}
		}
	}
}

// check compares timeline and journal with the entries that were not lost.
func (c *crashes) check() {
	c.drainAll()
	for _, m := range c.minted {
		list := c.changes[m.UID]
		slices.SortFunc(list, func(a, b record.Change) int { return int(a.Version) - int(b.Version) })
		history, err := c.store.History(c.ctx, m.UID, record.MaxChanges)
		c.must("history", err)
		if len(history) != len(list) {
			c.Fatalf("%s has %d changes in the journal, %d were made: %+v, %+v", m.UID, len(history), len(list),
				history, list)
		}
		for i := range list {
			if history[i].Version != list[i].Version || history[i].State != list[i].State ||
				history[i].Reason != list[i].Reason || history[i].Term != list[i].Term {
				c.Fatalf("%s: change %d is %+v in the journal, was %+v", m.UID, i, history[i], list[i])
			}
			if i > 0 && list[i].Term != 0 && list[i-1].Term > list[i].Term {
				c.Fatalf("%s: the term falls from %d to %d", m.UID, list[i-1].Term, list[i].Term)
			}
		}
		found, err := c.tl.Find(c.ctx, scheduler.Ref{UID: m.UID})
		c.must("find", err)
		state := message.StateNone
		if len(found) > 0 {
			state = found[0].State
		}
		if c.answered[m.UID] && state == message.StateNone {
			if last := list[len(list)-1].State; !last.Ended() {
				c.Fatalf("%s was answered, is %s in the journal, and is gone", m.UID, last)
			}
		}
		if c.canceled[m.UID] && state != message.StateNone && state != message.StateCanceled {
			c.Fatalf("%s was canceled for certain and is %s", m.UID, state)
		}
		if len(list) > 0 {
			c.checkStand(m.UID, list, found)
		}
		if len(found) > 0 && found[0].Kind != message.KindMerged && !found[0].EndOnly() {
			c.checkRepeat(m.UID)
		}
	}
}

// checkRepeat holds that a push that comes again, and meets its message, waits for an acceptance that is there once the
// outbox is empty: nobody writes it any more.
func (c *crashes) checkRepeat(uid message.UID) {
	ctx, stop := context.WithTimeout(c.ctx, time.Second)
	defer stop()
	w := journal.NewWriter(journal.WriterConfig{Store: c.store, Mode: journal.Sync, Log: zerolog.Nop()})
	err := w.Await(ctx, []scheduler.Recorded{{UID: uid, Version: 1}}, func(int, bool) {})
	c.must("a push comes again and waits for the journal", err)
}

// checkStand holds what stands of a message, in the timeline and in the journal, to its changes.
func (c *crashes) checkStand(uid message.UID, list []record.Change, found []message.Info) {
	last, body, known := list[len(list)-1], []byte(nil), false
	for _, change := range list {
		if change.Message != nil {
			body, known = change.Message.Body, true
		}
	}
	records, err := c.store.Records(c.ctx, []message.UID{uid})
	c.must("records", err)
	if len(records) != 1 {
		c.Fatalf("%s: %d records in the journal", uid, len(records))
	}
	stand := map[string]message.Info{"journal": records[0].Info}
	if len(found) > 0 {
		stand["timeline"] = found[0]
	}
	for where, i := range stand {
		state := last.State
		if i.State == message.StateInFlight { // a claim is no change
			state = message.StateInFlight
		}
		if i.Version != last.Version || i.State != state || i.Due != last.Due {
			c.Fatalf("%s is %s at version %d in the %s, due %d; want it %s at %d, due %d",
				uid, i.State, i.Version, where, i.Due, last.State, last.Version, last.Due)
		}
		if last.Uncertain && !i.Mark.Uncertain {
			c.Fatalf("%s is uncertain, and certain in the %s", uid, where)
		}
		if whole := where == "journal" || !i.State.Ended(); known && whole && !bytes.Equal(i.Body, body) {
			c.Fatalf("%s says %q in the %s, want %q", uid, i.Body, where, body)
		}
	}
}

func exerciseCrashes(t *testing.T, open func(*testing.T, *record.Recording) server,
	openStore func(*testing.T) journal.Store) {
	rapid.Check(t, func(rt *rapid.T) {
		c := &crashes{T: rt, ctx: t.Context(), store: openStore(t), now: schedulertest.Start, term: 1,
			changes: map[message.UID][]record.Change{},
			durable: map[scheduler.Recorded]bool{}, answered: map[message.UID]bool{},
			canceled: map[message.UID]bool{}}
		c.clock = scheduler.NewClock(
			scheduler.Local{Wall: func() time.Time { return c.now.Time() }, Mono: func() time.Duration {
				return time.Duration(c.now) * time.Millisecond
			}})
		recording := &record.Recording{Instance: "crash", Address: "here:1", Limit: 1 << 30,
			Wrote: c.wrote}
		c.on = open(t, recording)
		c.tl = c.on.line
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

func memoryLine(t *testing.T, r *record.Recording) server {
	open := func() line {
		tl, err := memory.New(memory.Config{Buckets: crashBuckets, EndedKeep: time.Hour, Record: r})
		if err != nil {
			t.Fatal(err)
		}
		return tl
	}
	return server{line: open(), empty: open}
}

func redisLine(t *testing.T, r *record.Recording) server {
	s := newRedisServer(t, r)
	return server{
		line:     s.tl,
		empty:    func() line { s.wipe(t); return s.tl },
		snapshot: func() func() { return s.snapshot(t) },
	}
}

func newRedisServer(t *testing.T, r *record.Recording) *redisServer {
	t.Helper()
	// Its own type is hidden, so that a recovery does not close its connections: it may do so a second later, in the
	// middle of another call.
	rdb := struct{ redis.UniversalClient }{
		timeline.Dial(timeline.DialConfig{Addrs: []string{lab.SharedRedis(t).Addr}, CallTimeout: 10 * time.Second}),
	}
	t.Cleanup(func() { _ = rdb.Close() })
	ns := "c" + strings.ToLower(rand.Text())
	tl, err := timeline.New(timeline.Config{Client: rdb, Namespace: ns, Buckets: crashBuckets, EndedKeep: time.Hour,
		TombstoneKeep: time.Hour, TombstoneLimit: 10, Record: r})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tl.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &redisServer{tl: tl, rdb: rdb, ns: ns}
}

// redisServer is a namespace of a Redis as its operator sees it.
type redisServer struct {
	tl  *timeline.Redis
	rdb redis.UniversalClient
	ns  string
}

func (s *redisServer) keys(t *testing.T) (keys []string) {
	t.Helper()
	for b := range crashBuckets {
		of, err := s.rdb.Keys(t.Context(), fmt.Sprintf("{%s:%d}:*", s.ns, b)).Result()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, of...)
	}
	return keys
}

// wipe is a server that comes back empty.
func (s *redisServer) wipe(t *testing.T) {
	t.Helper()
	if keys := s.keys(t); len(keys) > 0 {
		if err := s.rdb.Del(t.Context(), keys...).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// snapshot returns what brings back the state of now, as a restart from an older file or the promotion of a replica
// that lagged does: on another run.
func (s *redisServer) snapshot(t *testing.T) (rollBack func()) {
	t.Helper()
	dumps := map[string]*redis.StringCmd{}
	keys := s.keys(t)
	s.all(t, func(pipe redis.Pipeliner) {
		for _, key := range keys {
			dumps[key] = pipe.Dump(t.Context(), key)
		}
	})
	return func() {
		t.Helper()
		s.wipe(t)
		s.all(t, func(pipe redis.Pipeliner) {
			for key, dump := range dumps {
				pipe.Restore(t.Context(), key, 0, dump.Val())
			}
		})
		for key := range dumps {
			if !strings.HasSuffix(key, ":gen") {
				continue
			}
			gen := strings.Fields(s.rdb.Get(t.Context(), key).Val())
			gen[1] = strings.Repeat("0", 40)
			if err := s.rdb.Set(t.Context(), key, strings.Join(gen, " "), 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// all sends commands at once.
func (s *redisServer) all(t *testing.T, commands func(redis.Pipeliner)) {
	t.Helper()
	pipe := s.rdb.Pipeline()
	commands(pipe)
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
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
	s, err := journal.Open(t.Context(), journal.Config{DSN: "sqlite:" + filepath.Join(t.TempDir(), "j.db"),
		Namespace: "crash", Migrate: true, Log: zerolog.Nop()})
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

// drain drains a bucket's outbox.
func drain(ctx context.Context, store journal.Store, tl record.Mending, bucket message.Bucket, age message.Milli,
	timeout time.Duration, log zerolog.Logger) (drained, refused int, err error) {
	r := &journal.Reconciler{Store: store, Timeline: tl, Timeout: timeout, Log: log}
	return r.Drain(ctx, bucket, age)
}
