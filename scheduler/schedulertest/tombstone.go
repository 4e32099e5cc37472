package schedulertest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// canceledAtOnce adds a push that a tombstone must cover.
func canceledAtOnce(t *trial, m *message.Message) {
	t.Helper()
	r := t.add(m)[0]
	if r.Code != scheduler.AddedCanceled || r.First.UID != m.UID || r.First.State != message.StateCanceled ||
		r.First.EndedAt != t.now {
		t.Fatalf("add of %s: got %s, %s; want it added as canceled", m.UID, addWord(r.Code), describe(r.First))
	}
}

// fewTombstones leaves room for three tombstones.
func fewTombstones(o *Options) { o.Buckets, o.TombstoneLimit = 1, 3 }

var tombstonePromises = []promise{
	{name: "a push stored before the cancel of its id is accepted as canceled", check: func(t *trial) {
		if found := t.bury(scheduler.Ref{ID: "order-1", Topic: "content"}, 100); len(found) != 0 {
			t.Fatalf("found %v", found)
		}
		for i, sequence := range []uint64{100, 99, 1} {
			key := fmt.Sprintf("customer-%d", i)
			m := Message(i, Named("order-1"), Keyed(key), Stored(sequence), DueIn(time.Minute))
			t.pass(time.Second)
			canceledAtOnce(t, m)
			t.wantInfo(remains(m, message.StateCanceled, t.now, false, CanceledBefore))
			t.canceled(m.UID, scheduler.CancelDone)
			if h := t.heads()[t.bucketOf(m)]; h.Waiting != 0 || h.Due != 0 {
				t.Fatalf("head is %+v", h)
			}
			t.wantFound(scheduler.Ref{ID: "order-1", Key: key, Keyed: true}, m.UID)
			// Redelivered it is a duplicate. Another push of the name is a conflict.
			t.refused(m, scheduler.AddDuplicate, m, message.StateCanceled)
			t.refused(Message(10+i, Named("order-1"), Keyed(key), Stored(200)), scheduler.AddConflict, m,
				message.StateCanceled)
		}
	}},
	{name: "a tombstone covers no push that was stamped after it, whatever the sequence", check: func(t *trial) {
		// A stream that was made anew counts from 1. The stamps of a cluster's servers may be two seconds apart.
		ref := scheduler.Ref{ID: "order-1", Topic: "content"}
		t.bury(ref, 1000)
		canceledAtOnce(t, Message(1, Named("order-1"), Keyed("a"), Stored(5), Stamped(t.now.Add(2*time.Second))))
		t.one(Message(2, Named("order-1"), Keyed("b"), Stored(5), Stamped(t.now.Add(2001*time.Millisecond))))
		t.one(Message(3, Named("order-1"), Keyed("c"), Stored(1), Stamped(t.now.Add(time.Minute))))
		t.pass(time.Minute)
		t.bury(ref, 5) // a later cancel covers what came since
		canceledAtOnce(t, Message(4, Named("order-1"), Keyed("d"), Stored(4), Stamped(t.now)))
	}},
	{name: "a push of another name, stored later or not by the intake is accepted", check: func(t *trial) {
		t.bury(scheduler.Ref{ID: "order-1", Topic: "content"}, 100)
		t.one(Message(1, Named("order-1"), Keyed("a"), Stored(101)))
		t.one(Message(2, Named("order-1"), Keyed("b"))) // not by the intake
		t.one(Message(3, Named("order-2"), Stored(5)))
		t.one(Message(4, Stored(5)))
		t.one(Message(5, Named("order"), Keyed("-1"), Stored(5)))
	}},
	{name: "a tombstone is for its topic alone", check: func(t *trial) {
		for i, ref := range []scheduler.Ref{{ID: "order-1", Topic: "mail"},
			{ID: "order-2", Topic: "mail", Keyed: true}} {
			t.bury(ref, 100)
			t.one(Message(10*i+1, Named(ref.ID), On("payments"), Stored(5)))
			t.one(Message(10*i+2, Named(ref.ID), On("mail.x"), Stored(5)))
			t.bury(ref, 100) // the others' messages are not in its way
			canceledAtOnce(t, Message(10*i+3, Named(ref.ID), On("mail"), Stored(5)))
		}
	}},
	{name: "a tombstone with a key is for that key alone", check: func(t *trial) {
		a, b, apart := neighbours(t.o.Buckets)
		t.bury(scheduler.Ref{ID: "order-1", Topic: "content", Key: a, Keyed: true}, 100)
		t.one(Message(1, Named("order-1"), Keyed(b), Stored(5)))
		t.one(Message(2, Named("order-1"), Keyed(apart), Stored(5)))
		t.one(Message(3, Named("order-1"), Stored(5)))
		canceledAtOnce(t, Message(4, Named("order-1"), Keyed(a), Stored(5)))
	}},
	{name: "a tombstone with the empty key is for messages without one", check: func(t *trial) {
		t.bury(scheduler.Ref{ID: "order-1", Topic: "content", Keyed: true}, 100)
		t.one(Message(1, Named("order-1"), Keyed("customer-1"), Stored(5)))
		canceledAtOnce(t, Message(2, Named("order-1"), Stored(5)))
	}},
	{name: "a message that turned up is found and left alone", check: func(t *trial) {
		m := t.one(Message(1, Named("order-1"), Stored(5), DueIn(time.Hour)))
		for _, ref := range []scheduler.Ref{{ID: "order-1", Topic: "content"},
			{ID: "order-1", Topic: "content", Keyed: true}} {
			if found := t.bury(ref, 100); !slices.Equal(found, []message.UID{m.UID}) {
				t.Fatalf("found %v, want %s", found, m.UID)
			}
		}
		t.wantInfo(live(m, message.StateWaiting, message.Mark{}))
	}},
	{name: "where a message has the name no tombstone is left, in other buckets there is",
		tune: func(o *Options) { o.EndedKeep = time.Minute }, check: func(t *trial) {
			a, b, apart := neighbours(t.o.Buckets)
			first := t.ended(Message(1, Named("order-1"), Keyed(a)), message.StateDelivered)
			found := t.bury(scheduler.Ref{ID: "order-1", Topic: "content"}, 100)
			if !slices.Equal(found, []message.UID{first.UID}) {
				t.Fatalf("found %v, want %s", found, first.UID)
			}
			canceledAtOnce(t, Message(2, Named("order-1"), Keyed(apart), Stored(5)))
			t.one(Message(3, Named("order-1"), Keyed(b), Stored(5)))
			t.pass(time.Minute)
			t.trim(t.bucketOf(first), 10)
			t.one(Message(4, Named("order-1"), Keyed(a), Stored(6)))
		}},
	{name: "several keys of an id are all found", check: func(t *trial) {
		a, b, apart := neighbours(t.o.Buckets)
		var want []message.UID
		for i, key := range []string{a, b, apart} {
			want = append(want, t.one(Message(i, Named("order-1"), Keyed(key))).UID)
		}
		t.canceled(want[1], scheduler.CancelDone)
		if found := t.bury(scheduler.Ref{ID: "order-1", Topic: "content"}, 100); !slices.Equal(found, want) {
			t.Fatalf("found %v, want %v", found, want)
		}
		if found := t.bury(scheduler.Ref{ID: "order-1", Topic: "content", Key: b, Keyed: true}, 100); !slices.Equal(
			found, want[1:2]) {
			t.Fatalf("found %v, want %v", found, want[1:2])
		}
	}},
	{name: "a tombstone keeps the higher sequence", check: func(t *trial) {
		for _, sequence := range []uint64{50, 100, 70} {
			t.bury(scheduler.Ref{ID: "order-1", Topic: "content"}, sequence)
		}
		canceledAtOnce(t, Message(1, Named("order-1"), Keyed("a"), Stored(100)))
		t.one(Message(2, Named("order-1"), Keyed("b"), Stored(101)))
	}},
	{name: "a tombstone hits a consumer's retry too", check: func(t *trial) {
		t.bury(scheduler.Ref{ID: "order-1", Topic: "content"}, 100)
		t.one(Message(1, Named("order-1"))) // not through the intake
		t.finish(message.StateDelivered, t.take(Message(1, Named("order-1"))))
		again := retry(2, 2, Stored(90))
		canceledAtOnce(t, again)
		points(t, again)
	}},
	{name: "a message that has the name answers before a tombstone does", check: func(t *trial) {
		t.bury(scheduler.Ref{ID: "order-1", Topic: "content"}, 100)
		first := t.one(Message(1, Named("order-1"), Content("a")))
		t.refused(Message(2, Named("order-1"), Content("a"), Stored(50)), scheduler.AddDuplicate, first,
			message.StateWaiting)
		t.refused(Message(3, Named("order-1"), Content("b"), Stored(50)), scheduler.AddConflict, first,
			message.StateWaiting)
	}},
	{name: "a batch meets a tombstone once for each name", check: func(t *trial) {
		t.bury(scheduler.Ref{ID: "order-1", Topic: "content"}, 100)
		var batch []*message.Message
		for i := range 3 {
			batch = append(batch, Message(i, Named("order-1"), Content("a"), Stored(uint64(99+i))))
		}
		t.wantAdded(batch, batch[0], scheduler.AddedCanceled, scheduler.AddConflict, scheduler.AddConflict)
	}},
	{name: "a tombstone is forgotten when its time is over",
		tune: func(o *Options) { o.Buckets, o.TombstoneKeep = 1, 3*time.Minute }, check: func(t *trial) {
			t.bury(scheduler.Ref{ID: "order-1", Topic: "content"}, 100)
			t.pass(t.o.TombstoneKeep - time.Millisecond)
			t.bury(scheduler.Ref{ID: "order-2", Topic: "content"}, 100)
			t.trim(0, 10)
			canceledAtOnce(t, Message(1, Named("order-1"), Keyed("a"), Stored(5)))
			t.pass(time.Millisecond)
			if n := t.trim(0, 10); n != 0 {
				t.Fatalf("a tombstone was counted as %d ends", n)
			}
			t.one(Message(2, Named("order-1"), Keyed("b"), Stored(5)))
			canceledAtOnce(t, Message(3, Named("order-2"), Stored(5)))
		}},
	{name: "a tombstone that is laid again starts its time anew", tune: oneBucket, check: func(t *trial) {
		t.bury(scheduler.Ref{ID: "order-1", Topic: "content"}, 100)
		t.pass(t.o.TombstoneKeep - time.Minute)
		t.bury(scheduler.Ref{ID: "order-1", Topic: "content"}, 90)
		t.pass(2 * time.Minute)
		t.trim(0, 10)
		canceledAtOnce(t, Message(1, Named("order-1"), Stored(100)))
	}},
	{name: "trims of tombstones are bounded, oldest first", tune: oneBucket, check: func(t *trial) {
		for i := range 5 {
			t.bury(scheduler.Ref{ID: fmt.Sprintf("order-%d", i), Topic: "content"}, 100)
			t.pass(time.Millisecond)
		}
		t.pass(t.o.TombstoneKeep)
		t.trim(0, 2)
		t.one(Message(0, Named("order-0"), Stored(5)))
		t.one(Message(1, Named("order-1"), Stored(5)))
		canceledAtOnce(t, Message(2, Named("order-2"), Stored(5)))
		t.trim(0, 2)
		canceledAtOnce(t, Message(4, Named("order-4"), Stored(5)))
	}},
	{name: "beyond the limit a tombstone is refused, and those that stand stay", tune: fewTombstones,
		check: func(t *trial) {
			ref := func(i int) scheduler.Ref { return scheduler.Ref{ID: fmt.Sprintf("order-%d", i), Topic: "content"} }
			for i := range 3 {
				t.bury(ref(i), 100)
				t.pass(time.Millisecond)
			}
			for _, keyed := range []bool{false, true} {
				fourth := ref(3)
				fourth.Keyed = keyed
				for range 2 {
					if found, err := t.tl.Bury(t.Context(), fourth, 100, t.now); !errors.Is(
						err, scheduler.ErrManyTombstones) || !errors.Is(err, scheduler.ErrUnavailable) ||
						len(found) != 0 {
						t.Fatalf("got %v, %v; want %v", found, err, scheduler.ErrManyTombstones)
					}
				}
			}
			m := t.one(Message(3, Named("order-3"), Stored(5)))
			if found := t.bury(ref(3), 100); !slices.Equal(found, []message.UID{m.UID}) {
				t.Fatalf("found %v, want %s: no tombstone is needed", found, m.UID)
			}
			t.bury(ref(0), 100) // one that stands is laid again
			for i := range 3 {
				canceledAtOnce(t, Message(i, Named(fmt.Sprintf("order-%d", i)), Stored(5)))
			}
			t.pass(t.o.TombstoneKeep)
			for i := 4; i < 7; i++ { // those that have had their time make room, although nobody trims
				t.bury(ref(i), 100)
				canceledAtOnce(t, Message(i, Named(fmt.Sprintf("order-%d", i)), Stored(5)))
			}
			if _, err := t.tl.Bury(t.Context(), ref(7), 100, t.now); !errors.Is(err, scheduler.ErrManyTombstones) {
				t.Fatalf("got %v; these have not", err)
			}
		}},
	{name: "a tombstone that only some buckets had room for has an unknown outcome",
		tune: func(o *Options) { o.Buckets, o.TombstoneLimit = 2, 1 }, check: func(t *trial) {
			t.bury(scheduler.Ref{ID: "order-1", Topic: "content", Keyed: true}, 100) // in one bucket
			_, err := t.tl.Bury(t.Context(), scheduler.Ref{ID: "order-2", Topic: "content"}, 100, t.now)
			if !errors.Is(err, scheduler.ErrManyTombstones) || !errors.Is(err, scheduler.ErrOutcomeUnknown) {
				t.Fatalf("got %v", err)
			}
		}},
	{name: "laying one tombstone again and again drops no other", tune: fewTombstones, check: func(t *trial) {
		t.bury(scheduler.Ref{ID: "order-1", Topic: "content"}, 100)
		t.pass(time.Millisecond)
		t.bury(scheduler.Ref{ID: "order-2", Topic: "content"}, 100)
		t.pass(time.Millisecond)
		for i := range 10 {
			t.bury(scheduler.Ref{ID: "order-3", Topic: "content"}, 100)
			if i%2 == 0 {
				t.pass(time.Millisecond) // and sometimes within one
			}
		}
		for i := 1; i <= 3; i++ {
			canceledAtOnce(t, Message(i, Named(fmt.Sprintf("order-%d", i)), Stored(5)))
		}
	}},
}
