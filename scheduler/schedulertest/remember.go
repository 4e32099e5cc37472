package schedulertest

import (
	"fmt"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// oneBucket keeps a test in a single bucket.
func oneBucket(o *Options) { o.Buckets = 1 }

var memoryPromises = []promise{
	{name: "of an end all but headers and body is remembered, with an id by name too", check: func(t *trial) {
		for i, s := range []message.State{message.StateDelivered, message.StateExpired, message.StateCanceled} {
			with := []With{Priority(3), TTL(time.Minute), Headers("A", "b"), Keyed("customer-1"), Attempt(2)}
			plain, named := Message(10*i, with...), Message(10*i+1, append(with, Named(fmt.Sprintf("order-%d", i)))...)
			reason := "the test says " + s.String()
			if s == message.StateCanceled {
				reason = ""
			}
			t.wantInfo(remains(t.ended(plain, s), s, t.now, false, reason))
			want := remains(t.ended(named, s), s, t.now, false, reason)
			t.wantInfo(want)
			if found := t.find(scheduler.Ref{ID: named.ID}); len(found) != 1 || describe(found[0]) != describe(want) {
				t.Errorf("the name finds %d messages, want the %s one", len(found), s)
			}
		}
	}},
	{name: "the dead keep everything and are never forgotten", tune: oneBucket, check: func(t *trial) {
		plain := Message(1, Priority(3), TTL(time.Minute), Headers("A", "b", "A", "c"))
		named := Message(2, Named("order-1"), Keyed("customer-1"), Headers("D", "e"))
		for _, m := range []*message.Message{plain, named} {
			claimed := t.take(m)
			t.giveBack(claimed, claimed.Score(), message.Mark{Uncertain: true, Refusals: 9})
			t.finish(message.StateDead, t.take(m))
		}
		at := t.now
		t.pass(1000 * t.o.EndedKeep)
		t.wantTrimmed(0, 100, 0)
		for _, m := range []*message.Message{plain, named} {
			want := live(m, message.StateDead, message.Mark{Uncertain: true, Refusals: 9, Changes: 1})
			want.Version, want.EndedAt, want.Reason = 2, at, "the test says dead"
			t.wantInfo(want)
		}
		t.refused(Message(3, Named("order-1"), Keyed("customer-1")), scheduler.AddConflict, named, message.StateDead)
	}},
	{name: "an end is forgotten when its time is over and not before", tune: oneBucket, check: func(t *trial) {
		m := t.ended(Message(1), message.StateDelivered)
		t.pass(t.o.EndedKeep - time.Millisecond)
		t.wantTrimmed(0, 100, 0)
		t.get(m.UID)
		t.pass(time.Millisecond)
		t.wantTrimmed(0, 100, 1)
		t.gone(m.UID)
		t.canceled(m.UID, scheduler.CancelUnknown)
		t.wantTrimmed(0, 100, 0)
	}},
	{name: "a trim is bounded, forgets in order of ending, and goes on", tune: oneBucket, check: func(t *trial) {
		var all []*message.Message
		for i := range 7 {
			all = append(all, t.ended(Message((i*3)%7), message.StateDelivered))
			t.pass(time.Second)
		}
		t.pass(t.o.EndedKeep - 2*time.Second) // the last one stays
		for i, want := range []int{4, 2, 0} {
			t.wantTrimmed(0, 4, want)
			for j, m := range all {
				if there := len(t.find(scheduler.Ref{UID: m.UID})) == 1; there != (j >= []int{4, 6, 6}[i]) {
					t.Fatalf("after trim %d: message %d is there: %t", i, j, there)
				}
			}
		}
	}},
	{name: "ends of one batch may be forgotten in parts", tune: oneBucket, check: func(t *trial) {
		var batch []*message.Message
		for i := range 9 {
			m := Message(i)
			if i%2 == 0 {
				m = Message(i, Named(fmt.Sprintf("order-%d", i)))
			}
			batch = append(batch, m)
		}
		t.added(batch...)
		t.finish(message.StateDelivered, t.claim()...)
		t.pass(t.o.EndedKeep)
		for _, want := range []int{4, 4, 1, 0} {
			t.wantTrimmed(0, 4, want)
		}
		for _, m := range batch {
			t.gone(m.UID)
		}
		t.added(batch...) // names too
	}},
	{name: "every kind of end but dead is forgotten, and live messages are not", tune: oneBucket,
		check: func(t *trial) {
			for i, s := range []message.State{message.StateDelivered, message.StateExpired,
				message.StateCanceled,
				message.StateDead} {
				t.ended(Message(i), s)
			}
			inFlight := t.take(Message(10))
			waiting := t.one(Message(11))
			t.pass(t.o.EndedKeep)
			t.wantTrimmed(0, 100, 3)
			t.wantInfo(live(inFlight, message.StateInFlight, message.Mark{}))
			t.wantInfo(live(waiting, message.StateWaiting, message.Mark{}))
		}},
	{name: "a forgotten end frees its name", tune: oneBucket, check: func(t *trial) {
		for i, s := range []message.State{message.StateDelivered, message.StateExpired, message.StateCanceled} {
			t.ended(Message(i, Named(fmt.Sprintf("order-%d", i)), Keyed("k"), Content("a")), s)
		}
		t.pass(t.o.EndedKeep)
		t.trim(0, 100)
		for i := range 3 {
			id := fmt.Sprintf("order-%d", i)
			t.wantFound(scheduler.Ref{ID: id})
			t.one(Message(10+i, Named(id), Keyed("k"), Content("b")))
		}
	}},
	{name: "a forgotten end leaves the name of a newer message alone", tune: oneBucket, check: func(t *trial) {
		t.ended(retry(1, 1), message.StateDelivered)
		second := t.one(retry(2, 2))
		t.pass(t.o.EndedKeep)
		t.wantTrimmed(0, 100, 1)
		points(t, second)
		t.finish(message.StateDelivered, t.take(second))
		points(t, second)
		t.pass(t.o.EndedKeep)
		t.trim(0, 100)
		t.one(retry(3, 1))
	}},
	{name: "a forgotten end leaves the same id under another key alone", tune: oneBucket, check: func(t *trial) {
		all := t.added(Message(0, Named("order-1"), Keyed("a")), Message(1, Named("order-1"), Keyed("b")),
			Message(2, Named("order-1"), Keyed("c")))
		t.canceled(all[1].UID, scheduler.CancelDone)
		t.pass(t.o.EndedKeep)
		t.trim(0, 100)
		t.wantFound(scheduler.Ref{ID: "order-1"}, all[0].UID, all[2].UID)
		t.one(Message(10, Named("order-1"), Keyed("b")))
	}},
}
