package timeline_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/store/timeline"
)

func forPull(m *message.Message) { m.Pull = true }

// lease leases what is ready on the topic of a message.
func (b *bare) lease(m *message.Message, nonce scheduler.Nonce) scheduler.Leased {
	b.Helper()
	l := b.Lease(b.Context(), []scheduler.LeaseRequest{{Topic: m.Topic, Limit: 10, Bytes: 1 << 20, Over: true,
		Nonce: nonce, Keep: time.Minute, Now: 1 << 40, From: 1 << 40, Length: time.Second}})[0]
	b.must(l.Err)
	return l
}

func (b *bare) settle(s scheduler.Settle, now message.Milli) scheduler.Settled {
	b.Helper()
	settled, _, err := b.Settle(b.Context(), 0, 0, []scheduler.Settle{s}, now)
	b.must(err)
	return settled[0]
}

// A message for pull that cannot be read is handed out to nobody and lapses once; it is listed, and blocks no other.
// The journal restores it.
func TestLease_ListsWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	srv := lab.SharedRedis(t)
	for i := range 1 + len(garbage(string(make([]byte, 30)))) {
		for _, leased := range []bool{false, true} {
			b := openBare(t, srv)
			bad := b.message(forPull)
			good := b.message(func(m *message.Message) { m.Pull, m.Topic = true, bad.Topic })
			bad.Headers = []message.Header{{Name: "Traceparent", Value: "aaaaaaaaaaaa"}}
			b.add(bad, good)
			whole := b.packed(bad)
			// The last one only Go cannot read, which never sees it once it is leased.
			packed := append(garbage(whole[:17+1+len(bad.Topic)+2]), whole[:len(whole)-8])[i]
			if leased {
				if got := b.lease(good, 7); len(got.Messages) != 2 {
					t.Fatalf("leased %+v", got)
				}
				b.spoil(bad, packed)
				if packed == whole[:len(whole)-8] {
					continue
				}
				over, err := b.Leases(t.Context(), 0, scheduler.LeaseQuery{Over: true, Limit: 10}, 1<<40+2000)
				b.must(err)
				if len(over.Leases) != 2 {
					t.Fatalf("%q: over are %+v", packed, over)
				}
				for _, l := range over.Leases {
					b.settle(scheduler.Settle{Verb: scheduler.Nack, UID: l.Message.UID, Topic: l.Message.Topic,
						Nonce: l.Nonce, Over: true, Number: 1 << 40}, 1<<40+2000)
				}
				b.wantUnreadable(bad, message.StateWaiting)
			} else {
				b.spoil(bad, packed)
				if got := b.lease(good, 7); len(got.Messages) != 1 || got.Messages[0].UID != good.UID {
					t.Fatalf("%q: leased %+v", packed, got)
				}
				b.wantUnreadable(bad, message.StateInFlight)
				b.settle(scheduler.Settle{Verb: scheduler.Release, UID: good.UID, Topic: good.Topic, Nonce: 7}, 1<<40)
			}
			page, err := b.Leases(t.Context(), 0, scheduler.LeaseQuery{Over: true, Limit: 10}, 1<<41)
			b.must(err)
			if len(page.Leases) > 0 || page.Due != 0 {
				t.Fatalf("%q: over are %+v", packed, page)
			}
			known := record.Record{Info: message.Info{Message: *bad, State: message.StateWaiting, Version: 1}}
			codes, err := b.Restore(t.Context(), 0, []record.Record{known}, 100, 100)
			b.must(err)
			if codes[0] != record.RestoreAdded {
				t.Fatalf("%q: restored with %d", packed, codes[0])
			}
			b.wantUnreadable(nil, 0)
			if got := b.lease(good, 8); len(got.Messages) != 2 {
				t.Fatalf("%q: after the restore leased %+v", packed, got)
			}
		}
	}
}

// What a newer tarry wrote is neither handed out nor replaced with what the journal has of it.
func TestRestore_KeepsARecordWithAFlagOfANewerTarry(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	live, ended := b.message(forPull), b.message(forPull)
	b.add(live, ended)
	b.lease(ended, 1)
	b.settle(scheduler.Settle{Verb: scheduler.Ack, UID: ended.UID, Topic: ended.Topic, Nonce: 1}, 1<<40)
	packed, end := b.packed(live), b.packed(ended)
	b.spoil(live, packed[:1]+"\x90"+packed[2:])
	at := 24 + int(end[23])
	b.spoil(ended, end[:at+1]+"\x90"+end[at+2:])
	for _, m := range []*message.Message{live, ended} {
		if _, err := b.Find(t.Context(), scheduler.Ref{UID: m.UID}); !errors.Is(err, scheduler.ErrUnreadable) &&
			!errors.Is(err, scheduler.ErrNewer) {
			t.Errorf("found: %v", err)
		}
		if _, err := b.Cancel(t.Context(), scheduler.Ref{UID: m.UID}, 1<<40); !errors.Is(err, scheduler.ErrNewer) {
			t.Errorf("cancel: %v", err)
		}
		known := record.Record{Info: message.Info{Message: *m, State: message.StateWaiting, Version: 9}}
		codes, err := b.Restore(t.Context(), 0, []record.Record{known}, 100, 100)
		b.must(err)
		if codes[0] != record.RestoreNewer {
			t.Errorf("restored with %d", codes[0])
		}
	}
	if got := b.lease(live, 2); len(got.Messages) > 0 {
		t.Errorf("handed out %+v", got)
	}
}

// A start raises the layout that only lacks messages for pull, once, and a tarry of that layout that still runs finds
// no certification that it knows.
func TestPrepare_RaisesTheLayout(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	m := b.message(nil)
	b.add(m)
	gen := b.key("gen")
	now := b.rdb.Get(t.Context(), gen).Val()
	words := strings.Fields(now)
	b.must(b.rdb.Set(t.Context(), gen, strings.Join(words[:4], " "), 0).Err())
	for _, key := range []string{"{" + b.ns + "}:meta", b.key("meta")} {
		b.must(b.rdb.HSet(t.Context(), key, "layout", timeline.RaisedLayout).Err())
	}
	if found, err := b.Find(t.Context(), scheduler.Ref{UID: m.UID}); err != nil || len(found) != 1 {
		t.Fatalf("before: %+v, %v", found, err)
	}
	for range 2 {
		_, err := b.Prepare(t.Context())
		b.must(err)
		if got := b.rdb.Get(t.Context(), gen).Val(); got != strings.Join(append(words[:4:4], "0"), " ") {
			t.Fatalf("the certification is %q, it was %q", got, now)
		}
		for _, key := range []string{"{" + b.ns + "}:meta", b.key("meta")} {
			if got := b.rdb.HGet(t.Context(), key, "layout").Val(); got != timeline.Layout {
				t.Fatalf("%s has layout %q", key, got)
			}
		}
	}
	if found, err := b.Find(t.Context(), scheduler.Ref{UID: m.UID}); err != nil || len(found) != 1 {
		t.Fatalf("after: %+v, %v", found, err)
	}
}

// A full Redis hands out what it holds, and lets it end.
func TestRedis_DrainsWhatIsPulledWhenFull(t *testing.T) {
	t.Parallel()
	srv := lab.NewRedis(t, "--maxmemory", "12mb", "--maxmemory-policy", "noeviction", "--appendonly", "no")
	b := openBare(t, srv)
	n := 0
	for err := error(nil); err == nil; n += 100 {
		var batch []*message.Message
		for range 100 {
			batch = append(batch, b.message(func(m *message.Message) {
				m.Pull, m.Topic, m.Body, m.TTL = true, "work", make([]byte, 1000), time.Duration(1<<41)*time.Millisecond
			}))
		}
		_, _, err = b.Add(t.Context(), 0, batch, 1)
		if err != nil && !errors.Is(err, scheduler.ErrFull) {
			t.Fatal(err)
		}
	}
	n -= 100
	work, nonce := &message.Message{Topic: "work"}, scheduler.Nonce(1)
	// The grant of a poll that finds nothing is no reason to refuse it.
	b.lease(&message.Message{Topic: "nothing"}, 1<<40)
	for first := true; n > 0; first = false {
		nonce++
		got := b.lease(work, nonce).Messages
		if len(got) == 0 {
			t.Fatalf("%d are left", n)
		}
		var items []scheduler.Settle
		for i, m := range got {
			verb := scheduler.Ack
			if first && i < 3 {
				verb = []scheduler.Verb{scheduler.Nack, scheduler.Release, scheduler.Bury}[i]
			}
			items = append(items, scheduler.Settle{Verb: verb, UID: m.UID, Topic: m.Topic, Nonce: nonce})
			if verb == scheduler.Ack || verb == scheduler.Bury {
				n--
			}
		}
		settled, _, err := b.Settle(t.Context(), 0, 0, items, 1<<40)
		b.must(err)
		if slices.ContainsFunc(settled, func(s scheduler.Settled) bool { return s.Code != scheduler.SettleDone }) {
			t.Fatalf("settled: %+v", settled)
		}
	}
}

// What concerns one topic or the whole bucket costs no more commands for a thousand topics than for ten (P7).
func TestPull_CostsNoMoreForManyTopics(t *testing.T) {
	t.Parallel()
	srv := lab.NewRedis(t)
	calls := map[string][2]int64{}
	for round, topics := range [2]int{10, 1000} {
		b := openBare(t, srv)
		var batch []*message.Message
		for i := range topics {
			batch = append(batch, b.message(func(m *message.Message) { m.Pull, m.Topic = true, fmt.Sprint("work.", i) }))
		}
		b.add(batch...)
		b.lease(batch[9], 1)
		for _, c := range []struct {
			what string
			do   func()
		}{
			{"totals", func() { _, err := b.Totals(t.Context(), 1<<40); b.must(err) }},
			{"browse", func() { _, err := b.Browse(t.Context(), 0, scheduler.Browse{Limit: 5}); b.must(err) }},
			{"count", func() { _, err := b.Count(t.Context(), "work.1"); b.must(err) }},
			{"over", func() {
				_, err := b.Leases(t.Context(), 0, scheduler.LeaseQuery{Over: true, Limit: 5}, 1<<40+5000)
				b.must(err)
			}},
			{"lease", func() { b.lease(batch[3], 2) }},
			{"release", func() {
				b.settle(scheduler.Settle{Verb: scheduler.Release, UID: batch[3].UID, Topic: batch[3].Topic, Nonce: 2}, 1<<40)
			}},
		} {
			before := b.commands()
			c.do()
			n := calls[c.what]
			n[round] = b.commands() - before
			calls[c.what] = n
		}
	}
	for what, n := range calls {
		if n[0] < 5 || n[1] > n[0] {
			t.Errorf("%s: %d commands for 10 topics, %d for 1000", what, n[0], n[1])
		}
	}
}

// commands returns how many commands Redis has run.
func (b *bare) commands() (n int64) {
	b.Helper()
	info, err := b.rdb.InfoMap(b.Context(), "stats").Result()
	b.must(err)
	_, err = fmt.Sscan(info["Stats"]["total_commands_processed"], &n)
	b.must(err)
	return n
}

// A leased message whose record is gone breaks no call that meets others beside it.
func TestLease_GoesOnBesideARecordThatIsGone(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	gone := b.message(forPull)
	good := b.message(func(m *message.Message) { m.Pull, m.Topic = true, gone.Topic })
	b.add(gone, good)
	b.lease(good, 7)
	b.must(b.rdb.HDel(t.Context(), b.key("msg"), string(gone.UID)).Err())
	page, err := b.Leases(t.Context(), 0, scheduler.LeaseQuery{UIDs: []message.UID{gone.UID, good.UID}, Limit: 10}, 1<<40)
	if b.must(err); len(page.Leases) != 1 || page.Leases[0].Message.UID != good.UID {
		t.Errorf("leased are %+v", page.Leases)
	}
	if again := b.lease(good, 7); len(again.Messages) != 1 || again.Messages[0].UID != good.UID {
		t.Errorf("again: %+v", again)
	}
	b.settle(scheduler.Settle{Verb: scheduler.Undo, Nonce: 7}, 1<<40)
	if again := b.lease(good, 8); len(again.Messages) != 1 || again.Messages[0].UID != good.UID {
		t.Errorf("after the undo: %+v", again)
	}
}

// Redis forgets a grant by its own clock, and a lease that was extended lives on.
func TestSettle_KnowsTheRepeatOfANackAfterItsGrant(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	m := b.message(forPull)
	b.add(m)
	l := b.Lease(b.Context(), []scheduler.LeaseRequest{{Topic: m.Topic, Limit: 10, Bytes: 1 << 20, Over: true,
		Nonce: 7, Keep: 50 * time.Millisecond, Now: 1 << 40, From: 1 << 40, Length: 50 * time.Millisecond}})[0]
	b.must(l.Err)
	s := scheduler.Settle{Verb: scheduler.Extend, UID: m.UID, Topic: m.Topic, Nonce: 7, Number: 1<<40 + 600_000}
	b.settle(s, 1<<40)
	lab.Eventually(t, time.Minute, func() error {
		if n, err := b.rdb.Exists(t.Context(), b.key("grant:"+s.Nonce.String())).Result(); n > 0 || err != nil {
			return fmt.Errorf("the grant is there: %d, %v", n, err)
		}
		return nil
	})
	s.Verb = scheduler.Nack
	if one, two := b.settle(s, 1<<40), b.settle(s, 1<<40); one.Code != scheduler.SettleDone ||
		two.Code != scheduler.SettleAgain {
		t.Errorf("first %d, then %d", one.Code, two.Code)
	}
}
