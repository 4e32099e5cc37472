package timeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/timeline"
)

// bare is a timeline of one bucket whose keys a test reads; it gathers what the timeline reports to the journal.
type bare struct {
	*testing.T
	*timeline.Redis
	rdb   redis.UniversalClient
	ns    string
	mu    sync.Mutex
	wrote []record.Change
	ids   *scheduler.IDs
}

func openBare(t *testing.T, srv *lab.Redis) *bare {
	t.Helper()
	b := &bare{T: t, ns: fmt.Sprintf("bare%d", time.Now().UnixNano()), ids: scheduler.NewIDs(one{}, time.Now)}
	b.rdb = timeline.Dial(timeline.DialConfig{Addrs: []string{srv.Addr}, CallTimeout: 10 * time.Second})
	t.Cleanup(func() { _ = b.rdb.Close() })
	var err error
	b.Redis, err = timeline.New(timeline.Config{Client: b.rdb, Namespace: b.ns, Buckets: 1, EndedKeep: time.Minute,
		TombstoneKeep: time.Minute, TombstoneLimit: 10,
		Record: &record.Recording{Instance: "a", Address: "a:1", Limit: 1 << 40,
			Wrote: func(e record.Entry) {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.wrote = append(b.wrote, e.Changes...)
			}}})
	b.must(err)
	_, err = b.Prepare(t.Context())
	b.must(err)
	schedulertest.Certify(t, b.Redis)
	return b
}

func (b *bare) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// key returns a key of the bucket.
func (b *bare) key(name string) string { return "{" + b.ns + ":0}:" + name }

func (b *bare) message(change func(*message.Message)) *message.Message {
	b.Helper()
	uid, err := b.ids.Next(0)
	b.must(err)
	m := &message.Message{UID: uid, Topic: "orders", Body: []byte("body"), Due: 1000, Attempt: 1}
	if change != nil {
		change(m)
	}
	return m
}

func (b *bare) add(batch ...*message.Message) []scheduler.AddResult {
	b.Helper()
	results, _, err := b.Add(b.Context(), 0, batch, 10)
	b.must(err)
	return results
}

func (b *bare) claim(n int) []*message.Message {
	b.Helper()
	got, err := b.Claim(b.Context(), 0,
		scheduler.Claim{Term: 1, Now: 1 << 40, Limit: n, Bytes: 1 << 30, Number: 7})
	b.must(err)
	if len(got.Messages) != n {
		b.Fatalf("claimed %d, want %d", len(got.Messages), n)
	}
	return got.Messages
}

func (b *bare) finish(state message.State, messages ...*message.Message) {
	b.Helper()
	ends := make([]scheduler.End, len(messages))
	for i, m := range messages {
		ends[i] = scheduler.End{Message: m, State: state, Reason: "so it went"}
	}
	b.must(b.Finish(b.Context(), 0, 1, ends, 20))
}

// left returns the bucket's keys that are not empty.
func (b *bare) left() []string {
	b.Helper()
	found, err := b.rdb.Keys(b.Context(), "{"+b.ns+":0}:*").Result()
	b.must(err)
	for i, key := range found {
		found[i] = strings.TrimPrefix(key, b.key(""))
	}
	slices.Sort(found)
	return found
}

// read returns the changes in the outbox.
func (b *bare) read() (all []record.Change) {
	b.Helper()
	for after := ""; ; {
		entries, err := b.Unwritten(b.Context(), 0, after, 0, 100, 1<<30)
		b.must(err)
		if len(entries) == 0 {
			return all
		}
		for _, e := range entries {
			all = append(all, e.Changes...)
		}
		after = entries[len(entries)-1].ID
	}
}

func words(changes []record.Change) []string {
	all := make([]string, len(changes))
	for i, c := range changes {
		body := "-"
		if c.Message != nil {
			body = string(c.Message.Body)
		}
		all[i] = fmt.Sprintf("%s v%d %s due %d uncertain %t refusals %d %q %s", c.UID, c.Version, c.State, c.Due,
			c.Uncertain, c.Refusals, c.Reason, body)
	}
	slices.Sort(all)
	return all
}

func TestRedis_KeepsNothingOfWhatMergedWhenAllIsOver(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	named := func(how message.Merge, body string) *message.Message {
		return b.message(func(m *message.Message) {
			m.ID, m.Key, m.Merge, m.Body = "order-1", "k", how, []byte(body)
		})
	}
	first := named(message.MergeReplace, "a")
	b.add(first)
	b.claim(1)
	second := named(message.MergeKeep, "b")
	b.add(second, named(message.MergeKeep, "c"), named(message.MergeReplace, "d"))
	if n := b.rdb.HLen(t.Context(), b.key("next")).Val(); n != 1 {
		t.Fatalf("%d stand in next, want one", n)
	}
	b.must(b.Return(t.Context(), 0, 1,
		[]scheduler.Back{{UID: first.UID, Claim: 7, Keep: true}}, 30))
	found, err := b.Find(t.Context(), scheduler.Ref{UID: first.UID})
	b.must(err)
	if len(found) != 1 || found[0].Kind != message.KindGaveWay || found[0].State != message.StateCanceled {
		t.Fatalf("the first is %+v", found)
	}
	claimed := b.claim(1)
	if claimed[0].UID != second.UID || string(claimed[0].Body) != "d" || claimed[0].Mark.Changes != 2 {
		t.Fatalf("claimed %+v", claimed[0])
	}
	claimed[0].ClaimedAt = message.CeilMilli(second.UID.Time()).Add(time.Minute) // else the end brings the name
	b.finish(message.StateDelivered, claimed...)
	if wrote, read := words(b.wrote), words(b.read()); !slices.Equal(wrote, read) {
		t.Fatalf("wrote %q\nread %q", wrote, read)
	}
	b.must(b.rdb.Del(t.Context(), b.key("outbox"), b.key("outboxed")).Err())
	n, err := b.Trim(t.Context(), 0, 1, message.Milli(1<<40), 1000)
	b.must(err)
	if n != 4 {
		t.Fatalf("%d ends were forgotten, want 4", n)
	}
	if n := b.rdb.HLen(t.Context(), b.key("counts")).Val(); n != 1 { // the one that is no topic
		t.Fatalf("counts has %d fields", n)
	}
	if left := b.left(); !slices.Equal(left, []string{"claimed", "counts", "gen", "meta", "term", "trimmed"}) {
		t.Fatalf("left: %q", left)
	}
}

// TestRedis_DropsNextWithWhatEnds: an entry of next that no script removes would stay for ever.
func TestRedis_DropsNextWithWhatEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*bare, *message.Message){
		"finished": func(b *bare, m *message.Message) { b.finish(message.StateDelivered, m) },
		"returned": func(b *bare, m *message.Message) {
			b.must(b.Return(b.Context(), 0, 1,
				[]scheduler.Back{{UID: m.UID, Claim: 7, Keep: true}}, 30))
		},
		"swept": func(b *bare, m *message.Message) {
			_, err := b.Sweep(b.Context(), 0, 2, 0, 10, 30)
			b.must(err)
		},
		"canceled": func(b *bare, m *message.Message) {
			// the later gives way
			b.must(b.Return(b.Context(), 0, 1,
				[]scheduler.Back{{UID: m.UID, Claim: 7, Keep: true}}, 30))
			_, err := b.Sweep(b.Context(), 0, 2, 0, 10, 30)
			b.must(err)
			b.must(b.rdb.HSet(b.Context(), b.key("mark"), string(m.UID), "1:0:1:").Err()) // uncertain
			b.add(b.message(func(m *message.Message) { m.ID, m.Merge = "order-1", message.MergeKeep }))
			if n := b.rdb.HLen(b.Context(), b.key("next")).Val(); n != 1 {
				b.Fatalf("%d stand in next", n)
			}
			r, err := b.Cancel(b.Context(), scheduler.Ref{UID: m.UID}, 40)
			b.must(err)
			if r.Code != scheduler.CancelMaybe {
				b.Fatalf("cancel: %d", r.Code)
			}
		},
		"restored": func(b *bare, m *message.Message) {
			b.must(b.rdb.HDel(b.Context(), b.key("claimed"), string(m.UID)).Err())
			_, err := b.Restore(b.Context(), 0, []record.Record{{Info: message.Info{Message: *m,
				State: message.StateDelivered, Version: 9, EndedAt: 40}, Content: 1}}, 50, 50)
			b.must(err)
		},
	} {
		b := openBare(t, lab.SharedRedis(t))
		first := b.message(func(m *message.Message) { m.ID = "order-1" })
		b.add(first)
		first = b.claim(1)[0]
		b.add(b.message(func(m *message.Message) { m.ID, m.Merge = "order-1", message.MergeKeep }))
		if n := b.rdb.HLen(t.Context(), b.key("next")).Val(); n != 1 {
			t.Fatalf("%s: %d stand in next", name, n)
		}
		end(b, first)
		if n := b.rdb.HLen(t.Context(), b.key("next")).Val(); n != 0 {
			t.Errorf("%s: %d stand in next at the end", name, n)
		}
	}
}

// TestRedis_CountsWhatOnlyPartlyCameTrue: the caller's sums do not hold then.
func TestRedis_CountsWhatOnlyPartlyCameTrue(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	var batch []*message.Message
	for i := range 6 {
		batch = append(batch, b.message(func(m *message.Message) { m.Topic = fmt.Sprint("orders.", i%2) }))
	}
	b.add(append(batch[:3:3], batch[:3]...)...)
	b.add(batch...)
	want := func(step string, all ...scheduler.TopicCount) {
		t.Helper()
		got, err := b.Counts(t.Context(), "", 10)
		b.must(err)
		if !slices.Equal(got, all) {
			t.Fatalf("%s: %+v, want %+v", step, got, all)
		}
	}
	want("added", scheduler.TopicCount{Topic: "orders.0", Waiting: 3},
		scheduler.TopicCount{Topic: "orders.1", Waiting: 3})
	claimed := b.claim(6)
	b.finish(message.StateDead, claimed[0], claimed[1])
	want("some dead", scheduler.TopicCount{Topic: "orders.0", InFlight: 2, Dead: 1},
		scheduler.TopicCount{Topic: "orders.1", InFlight: 2, Dead: 1})
	b.finish(message.StateDead, claimed[:3]...)
	want("one more", scheduler.TopicCount{Topic: "orders.0", InFlight: 1, Dead: 2},
		scheduler.TopicCount{Topic: "orders.1", InFlight: 2, Dead: 1})
	b.finish(message.StateDelivered, claimed[2:]...)
	want("the rest", scheduler.TopicCount{Topic: "orders.0", Dead: 2}, scheduler.TopicCount{Topic: "orders.1", Dead: 1})
}

func TestRedis_TellsWhatABatchOfManyMerged(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	var batch []*message.Message
	for i := range 1500 { // more than one entry of the outbox holds
		batch = append(batch, b.message(func(m *message.Message) {
			m.Topic, m.Merge, m.ID = fmt.Sprint("orders.", i%500%3), message.MergeReplace, fmt.Sprint("order-", i%500)
			m.Due = message.Milli(1000 + i)
		}))
	}
	for i, r := range b.add(batch...) {
		if want := i < 500; (r.Code == scheduler.Added) != want || (r.Code == scheduler.AddMerged) == want {
			t.Fatalf("push %d: code %d", i, r.Code)
		}
	}
	changes := b.read()
	versions := map[message.UID]uint64{}
	for _, c := range changes {
		if c.Version != versions[c.UID]+1 || c.Message == nil {
			t.Fatalf("%+v follows version %d", c, versions[c.UID])
		}
		versions[c.UID] = c.Version
	}
	if len(changes) != 1500 || len(versions) != 500 {
		t.Fatalf("%d changes of %d messages", len(changes), len(versions))
	}
	counts, err := b.Counts(t.Context(), "", 10)
	b.must(err)
	total := 0
	for _, c := range counts {
		total += c.Waiting
	}
	if len(counts) != 3 || total != 500 {
		t.Fatalf("counts %+v", counts)
	}
	heads, err := b.Heads(t.Context())
	b.must(err)
	if heads[0].Due != 2000 || heads[0].Waiting != 500 {
		t.Fatalf("head %+v", heads[0])
	}
}

// TestBrowse_PagesThroughOneDueTime is about ties: there are many, and the last message of a page may be gone.
func TestBrowse_PagesThroughOneDueTime(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	var want []message.UID
	for range 3 {
		var batch []*message.Message
		for range 1000 {
			m := b.message(nil)
			batch, want = append(batch, m), append(want, m.UID)
		}
		b.add(batch...)
	}
	slices.Sort(want)
	var got []message.UID
	q := scheduler.Browse{Limit: 170}
	for pages := 0; ; pages++ {
		page, err := b.Browse(t.Context(), 0, q)
		b.must(err)
		for _, i := range page.Messages {
			got = append(got, i.UID)
		}
		if q.After = page.Next; q.After == "" {
			break
		}
		if pages%2 == 0 {
			r, err := b.Cancel(t.Context(), scheduler.Ref{UID: got[len(got)-1]}, 20)
			b.must(err)
			if r.Code != scheduler.CancelDone {
				t.Fatalf("cancel: %d", r.Code)
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("met %d messages, want %d, each once and in order", len(got), len(want))
	}
}

func TestBrowse_BoundsWhatAPageReads(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	for range 12 {
		b.add(b.message(func(m *message.Message) { m.Body = make([]byte, 1<<20) }))
	}
	pages, met := 0, 0
	for q := (scheduler.Browse{Limit: 100}); ; pages++ {
		page, err := b.Browse(t.Context(), 0, q)
		b.must(err)
		if met += len(page.Messages); len(page.Messages) > 5 {
			t.Fatalf("a page of %d messages of 1 MiB", len(page.Messages))
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	if met != 12 {
		t.Fatalf("met %d", met)
	}
}

// TestCounts_ReadsWhatIsInFlightInSteps has more in flight than one script reads.
func TestCounts_ReadsWhatIsInFlightInSteps(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	for part := range 5 {
		batch := make([]*message.Message, 300)
		for i := range batch {
			batch[i] = b.message(func(m *message.Message) {
				m.Topic = fmt.Sprint("orders.", i%2)
				if part == 2 && i%50 == 0 {
					m.Body = make([]byte, 1<<20)
				}
			})
		}
		b.add(batch...)
	}
	b.claim(1300)
	one, err := b.Count(t.Context(), "orders.1")
	b.must(err)
	all, err := b.Counts(t.Context(), "", 10)
	b.must(err)
	if len(all) != 2 || all[1] != one || all[0].InFlight+one.InFlight != 1300 ||
		all[0].Waiting+all[0].InFlight != 750 || one.Waiting+one.InFlight != 750 {
		t.Fatalf("%+v, the one %+v", all, one)
	}
}

// TestCounts_ChangeOnlyWithWhatLivesOrIsDead: every message pays for each write of the counts.
func TestCounts_ChangeOnlyWithWhatLivesOrIsDead(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	stands := func() map[string]string {
		held, err := b.rdb.HGetAll(t.Context(), b.key("counts")).Result()
		b.must(err)
		delete(held, "")
		return held
	}
	want := func(step, count string) {
		t.Helper()
		if held := stands(); len(held) != 1 || held["orders"] != count {
			t.Fatalf("%s: %q, want %q", step, held, count)
		}
	}
	b.add(b.message(nil), b.message(nil), b.message(nil))
	want("added", "3")
	claimed := b.claim(3)
	want("claimed", "3")
	b.must(b.Return(t.Context(), 0, 1,
		[]scheduler.Back{{UID: claimed[0].UID, Claim: 7, Keep: true}}, 30))
	want("returned", "3")
	b.finish(message.StateDead, claimed[1], claimed[2])
	want("dead", "1 2")
	b.claim(1)
	_, err := b.Sweep(t.Context(), 0, 2, 0, 10, 30)
	b.must(err)
	want("swept", "1 2")
	_, _, err = b.Purge(t.Context(), 0, []message.UID{claimed[1].UID}, 40)
	b.must(err)
	want("purged", "1 1")
	_, err = b.Cancel(t.Context(), scheduler.Ref{UID: claimed[0].UID}, 40)
	b.must(err)
	want("canceled", "0 1")
	_, _, err = b.Purge(t.Context(), 0, []message.UID{claimed[2].UID}, 40)
	b.must(err)
	if held := stands(); len(held) != 0 {
		t.Fatalf("all gone: %q", held)
	}
}

// meanwhile does something once, before the first look at a key.
type meanwhile struct {
	key  string
	once sync.Once
	do   func()
}

func (m *meanwhile) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *meanwhile) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (m *meanwhile) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); args[0] == "hscan" && args[1] == m.key {
			m.once.Do(m.do)
		}
		return next(ctx, cmd)
	}
}

// TestCounts_AreNeverNegative: live messages are counted first, and more may be in flight by the time the claims are
// read.
func TestCounts_AreNeverNegative(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	b.add(b.message(nil), b.message(nil))
	b.claim(1)
	b.rdb.AddHook(&meanwhile{key: b.key("claimed"), do: func() {
		b.add(b.message(nil), b.message(nil))
		b.claim(3)
	}})
	for _, want := range []scheduler.TopicCount{{Topic: "orders", InFlight: 2}, {Topic: "orders", InFlight: 4}} {
		got, err := b.Count(t.Context(), "orders")
		b.must(err)
		if got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
	}
}

// TestCounts_MissNoTopicWhileOthersMove: of what is there throughout.
func TestCounts_MissNoTopicWhileOthersMove(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	const still = 700
	var fixed []*message.Message
	for i := range still {
		fixed = append(fixed, b.message(func(m *message.Message) {
			m.Topic, m.Due = fmt.Sprintf("still.%04d", i), 1<<41
		}))
	}
	b.add(fixed...)
	look := func() error {
		for range 5 {
			met := 0
			for after := ""; ; {
				page, err := b.Counts(t.Context(), after, 150)
				if err != nil {
					return err
				}
				for _, c := range page {
					if c.Topic <= after || c.Waiting < 0 || c.InFlight < 0 || c.Dead != 0 || c.Waiting+c.InFlight > 1 {
						return fmt.Errorf("after %q: %+v", after, c)
					}
					if after = c.Topic; strings.HasPrefix(after, "still.") {
						met++
					}
				}
				if len(page) < 150 {
					break
				}
			}
			if met != still {
				return fmt.Errorf("met %d topics of the %d that were there throughout", met, still)
			}
		}
		return nil
	}
	looked := make(chan error, 1)
	go func() { looked <- look() }()
	for {
		select {
		case err := <-looked:
			b.must(err)
			return
		default:
		}
		batch := make([]*message.Message, 200)
		for i := range batch {
			batch[i] = b.message(func(m *message.Message) { m.Topic = fmt.Sprint("moving.", i) })
		}
		b.add(batch...)
		claimed := b.claim(200)
		var back []scheduler.Back
		for _, m := range claimed[:50] {
			back = append(back, scheduler.Back{UID: m.UID, Claim: 7, Keep: true})
		}
		b.must(b.Return(t.Context(), 0, 1, back, 30))
		b.finish(message.StateDelivered, claimed[50:]...)
		b.finish(message.StateDelivered, b.claim(50)...)
	}
}

func TestCounts_OfAnEmptyServerThatIsNotCertifiedAreRefused(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	b.must(b.rdb.Del(t.Context(), b.key("counts"), b.key("gen")).Err())
	if _, err := b.Counts(t.Context(), "", 10); !errors.Is(err, scheduler.ErrUncertified) {
		t.Fatalf("counts: %v", err)
	}
	if _, err := b.Count(t.Context(), "orders"); !errors.Is(err, scheduler.ErrUncertified) {
		t.Fatalf("count: %v", err)
	}
}

func TestRestore_TakesAnEndOfTheDeadFromTheJournal(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	m := b.message(nil)
	b.add(m)
	b.finish(message.StateDead, b.claim(1)...)
	r := record.Record{Info: message.Info{Message: *m, State: message.StateCanceled, Version: 3, EndedAt: 40,
		Kind: message.KindPurged, Reason: "purged"}, Content: 1}
	for _, want := range []record.RestoreCode{record.RestoreRaised, record.RestoreSame} {
		codes, err := b.Restore(t.Context(), 0, []record.Record{r}, 50, 50)
		b.must(err)
		if codes[0] != want {
			t.Fatalf("restore: %d, want %d", codes[0], want)
		}
	}
	counts, err := b.Counts(t.Context(), "", 10)
	b.must(err)
	if len(counts) != 0 || b.rdb.Exists(t.Context(), b.key("dead")).Val() != 0 {
		t.Fatalf("counts %+v, and the order of the dead is left", counts)
	}
	purged, _, err := b.Purge(t.Context(), 0, []message.UID{m.UID}, 60)
	b.must(err)
	if len(purged) != 1 { // its kind came back too
		t.Fatal("the restored end does not show that it was purged")
	}
}

func TestPurge_TakesMoreThanOneScriptDoes(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	var batch []*message.Message
	var uids []message.UID
	for range 1100 {
		m := b.message(nil)
		batch, uids = append(batch, m), append(uids, m.UID)
	}
	b.add(batch...)
	b.finish(message.StateDead, b.claim(1100)...)
	for range 2 {
		purged, number, err := b.Purge(t.Context(), 0, uids, 30)
		b.must(err)
		if number == 0 || !slices.Equal(purged, uids) {
			t.Fatalf("purged %d of %d, number %d", len(purged), len(uids), number)
		}
	}
	if n := len(b.read()); n != 3*1100 {
		t.Fatalf("%d changes in the outbox", n)
	}
}

func (b *bare) pause(p scheduler.Pause) {
	b.Helper()
	c, err := b.Pause(b.Context(), p)
	b.must(err)
	if c.Pause != p || c.Number == 0 {
		b.Fatalf("%+v is %+v", p, c)
	}
}

func (b *bare) wantPauses(want ...scheduler.Pause) {
	b.Helper()
	got, _, err := b.Pauses(b.Context())
	if b.must(err); !slices.Equal(got, want) {
		b.Fatalf("paused are %+v\nwant %+v", got, want)
	}
}

func TestPause_IsBoundedAndOutsideTheBuckets(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	var all []scheduler.Pause
	for i := range scheduler.MaxPauses {
		all = append(all,
			scheduler.Pause{Pattern: fmt.Sprintf("orders.%03d.>", i), By: "ops team", At: message.Milli(i + 1)})
		b.pause(all[i])
	}
	_, err := b.Pause(t.Context(), scheduler.Pause{Pattern: "one.more", At: 1000})
	if !errors.Is(err, scheduler.ErrTooManyPauses) {
		t.Fatalf("one more: %v", err)
	}
	all[7].By, all[7].At = "", 1000
	b.pause(all[7])
	b.wantPauses(all...)
	for _, want := range []bool{true, false} {
		if was, _, err := b.Resume(t.Context(), all[7].Pattern, 1); err != nil || was != want {
			t.Fatalf("resume: %t, %v", was, err)
		}
	}
}

// A damaged field still pauses its own pattern, and stops nothing else.
func TestPauses_ADamagedFieldStillPauses(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	b.must(b.rdb.HSet(t.Context(), b.key("paused"), "spoiled", "soon", "none", "", "many words", "x y").Err())
	good := scheduler.Pause{Pattern: "good", By: "ann", At: 5}
	b.pause(good)
	b.wantPauses(good, scheduler.Pause{Pattern: "many words"}, scheduler.Pause{Pattern: "none"},
		scheduler.Pause{Pattern: "spoiled"})
	again := scheduler.Pause{Pattern: "spoiled", By: "ann", At: 6}
	b.pause(again)
	for _, pattern := range []string{"none", "many words"} {
		if was, _, err := b.Resume(t.Context(), pattern, 7); err != nil || !was {
			t.Fatalf("resume of %s: %t, %v", pattern, was, err)
		}
	}
	b.wantPauses(good, again)
}

// TestRedis_SteersWhenFull: what makes room, or needs none, works on a Redis at its maxmemory.
func TestRedis_SteersWhenFull(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.NewRedis(t, "--maxmemory", "16mb", "--maxmemory-policy", "noeviction", "--appendonly", "no"))
	dead := b.message(nil)
	other := b.message(nil)
	b.add(dead, other)
	b.finish(message.StateDead, b.claim(2)...)
	waiting := b.message(nil)
	b.add(waiting)
	var err error
	for err == nil {
		batch := make([]*message.Message, 100)
		for i := range batch {
			batch[i] = b.message(func(m *message.Message) { m.Body = make([]byte, 1000) })
		}
		_, _, err = b.Add(t.Context(), 0, batch, 1)
	}
	if !errors.Is(err, scheduler.ErrFull) {
		t.Fatal(err)
	}
	if r, err := b.Amend(t.Context(), scheduler.Amend{UID: waiting.UID, Version: 1, Due: 5}, 2); err != nil ||
		r.Code != scheduler.AmendDone || !slices.Equal(r.Earlier, []scheduler.Earlier{{Due: 5}}) {
		t.Fatalf("amend: %+v, %v", r, err)
	}
	if r, err := b.Requeue(t.Context(), dead.UID, 0, b.message(nil), 2); err != nil ||
		r.Code != scheduler.RequeueDone || r.Old != 3 {
		t.Fatalf("requeue: %+v, %v", r, err)
	}
	if purged, _, err := b.Purge(t.Context(), 0, []message.UID{other.UID}, 2); err != nil || len(purged) != 1 {
		t.Fatalf("purge: %v, %v", purged, err)
	}
	paused := scheduler.Pause{Pattern: "orders.>", By: "ann", At: 2}
	b.pause(paused)
	b.wantPauses(paused)
	for _, want := range []bool{true, false} {
		if was, _, err := b.Resume(t.Context(), paused.Pattern, 3); err != nil || was != want {
			t.Fatalf("resume: %t, %v", was, err)
		}
	}
}

// A claim of an ended message is a damaged store: its return is refused, and it blocks no other message.
func TestReturnAndSweep_LeaveAnEndedMessageAsItIs(t *testing.T) {
	t.Parallel()
	for _, swept := range []bool{false, true} {
		b := openBare(t, lab.SharedRedis(t))
		over, good, bad := b.message(nil), b.message(nil), b.message(nil)
		b.add(over)
		b.finish(message.StateDelivered, b.claim(1)...)
		end, err := b.rdb.HGet(t.Context(), b.key("msg"), string(over.UID)).Result()
		b.must(err)
		b.add(good, bad)
		claimed := b.claim(2)
		b.must(b.rdb.HSet(t.Context(), b.key("msg"), string(bad.UID), end).Err())
		want := message.Transition{From: message.StateDelivered, To: message.StateWaiting}
		if swept {
			want.Kind = message.KindSwept
			n, err := b.Sweep(t.Context(), 0, 9, 0, 100, 50)
			b.must(err)
			if n != 2 {
				t.Errorf("swept %d", n)
			}
		} else {
			back := make([]scheduler.Back, len(claimed))
			for i, m := range claimed {
				back[i] = scheduler.Back{UID: m.UID, Claim: m.Claim, Score: m.Score()}
			}
			b.must(b.Return(t.Context(), 0, 1, back, 50))
		}
		for m, state := range map[*message.Message]message.State{good: message.StateWaiting,
			bad: message.StateDelivered} {
			found, err := b.Find(t.Context(), scheduler.Ref{UID: m.UID})
			b.must(err)
			if len(found) != 1 {
				t.Fatalf("found %+v", found)
			}
			info := found[0]
			due := b.rdb.ZScore(t.Context(), b.key("due"), string(m.UID)).Err() == nil
			if info.State != state || due != (state == message.StateWaiting) {
				t.Errorf("swept %t: %s is %s, in the order %t", swept, m.UID, info.State, due)
			}
		}
		refused, err := b.Refused(t.Context(), 0)
		b.must(err)
		if len(refused) != 1 || refused[0].UID != bad.UID || refused[0].Transition != want || refused[0].At != 50 {
			t.Errorf("swept %t: refused are %+v", swept, refused)
		}
	}
}
