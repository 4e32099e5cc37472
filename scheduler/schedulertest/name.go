package schedulertest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
)

// neighbours are two keys whose names share a bucket, and a third that does not.
func neighbours(buckets int) (a, b, elsewhere string) {
	a = "customer-0"
	for i := 1; b == "" || elsewhere == ""; i++ {
		key := fmt.Sprintf("customer-%d", i)
		if NameBucket("", key, buckets) == NameBucket("", a, buckets) {
			b = key
		} else {
			elsewhere = key
		}
	}
	return a, b, elsewhere
}

// sameBucket is an id without a key that lives in the bucket of the given one.
func sameBucket(id string, buckets int) string {
	for i := 0; ; i++ {
		other := fmt.Sprintf("%s-%d", id, i)
		if NameBucket(other, "", buckets) == NameBucket(id, "", buckets) {
			return other
		}
	}
}

var namePromises = []promise{
	{name: "the same push again is a duplicate of itself, in every state", check: func(t *trial) {
		for i, s := range []scheduler.State{scheduler.StateWaiting, scheduler.StateInFlight, scheduler.StateDelivered, scheduler.StateCanceled, scheduler.StateExpired, scheduler.StateDead} {
			for j, with := range [][]With{{}, {Named(fmt.Sprintf("order-%d", i)), Keyed("k")}} {
				m := Message(10*i+j, with...)
				switch s {
				case scheduler.StateWaiting:
					t.one(m)
				case scheduler.StateInFlight:
					t.take(m)
				default:
					t.ended(m, s)
				}
				before := t.get(m.UID)
				first := t.refused(m, scheduler.AddDuplicate, m, s)
				if first.EndedAt != before.EndedAt || first.Version != before.Version {
					t.Errorf("%s: the duplicate answers with %s", s, describe(first))
				}
				t.wantInfo(before)
				if s == scheduler.StateWaiting {
					t.canceled(m.UID, scheduler.CancelDone)
				}
			}
		}
	}},
	{name: "the same content under a name is a duplicate with the first one's due", check: func(t *trial) {
		first := t.one(Message(1, Named("order-1"), Content("a"), DueIn(time.Minute)))
		second := Message(2, Named("order-1"), Content("a"), DueIn(time.Hour))
		t.refused(second, scheduler.AddDuplicate, first, scheduler.StateWaiting)
		t.gone(second.UID)
		t.now = first.Due
		first = t.take(first)
		t.refused(second, scheduler.AddDuplicate, first, scheduler.StateInFlight)
		t.finish(scheduler.StateDelivered, first)
		at := t.now
		t.pass(time.Second)
		if info := t.refused(second, scheduler.AddDuplicate, first, scheduler.StateDelivered); info.EndedAt != at {
			t.Fatalf("the delivery was at %d, the duplicate says %d", at, info.EndedAt)
		}
		t.gone(second.UID)
	}},
	{name: "other content under a name is a conflict with the first", check: func(t *trial) {
		first := t.one(Message(1, Named("order-1"), Content("a")))
		second := Message(2, Named("order-1"), Content("b"))
		t.refused(second, scheduler.AddConflict, first, scheduler.StateWaiting)
		first = t.take(first)
		t.refused(second, scheduler.AddConflict, first, scheduler.StateInFlight)
		t.finish(scheduler.StateDelivered, first)
		t.refused(second, scheduler.AddConflict, first, scheduler.StateDelivered)
		t.gone(second.UID)
	}},
	{name: "after another end the name is in conflict, and the end is told", check: func(t *trial) {
		for i, s := range []scheduler.State{scheduler.StateCanceled, scheduler.StateExpired, scheduler.StateDead} {
			id := fmt.Sprintf("order-%d", i)
			first := t.ended(Message(i, Named(id), Content("a")), s)
			at := t.now
			t.pass(time.Second)
			for n, with := range [][]With{{Content("a")}, {Content("b")}, {Content("a"), Attempt(2)}} {
				m := Message(100*(i+1)+n, append(with, Named(id))...)
				if info := t.refused(m, scheduler.AddConflict, first, s); info.EndedAt != at || info.Version != 2 {
					t.Errorf("%s: the conflict answers with %s", s, describe(info))
				}
				t.gone(m.UID)
			}
		}
	}},
	{name: "the same id under different keys is different messages", check: func(t *trial) {
		a, b, elsewhere := neighbours(t.o.Buckets)
		var all []*scheduler.Message
		for i, key := range []string{a, b, elsewhere} {
			all = append(all, t.one(Message(i, Named("order-1"), Keyed(key), Content("a"))))
		}
		all = append(all, t.one(Message(3, Named("order-1"), Content("b")))) // without a key
		found := t.find(scheduler.Ref{ID: "order-1"})
		if len(found) != len(all) {
			t.Fatalf("found %d by the id alone, want %d", len(found), len(all))
		}
		for i, m := range all {
			if found[i].UID != m.UID || describe(found[i]) != describe(live(m, scheduler.StateWaiting, scheduler.Mark{})) {
				t.Errorf("found %s\n want %s", describe(found[i]), m.UID)
			}
			one := t.find(scheduler.Ref{ID: "order-1", Key: m.Key, Keyed: true})
			if len(one) != 1 || one[0].UID != m.UID {
				t.Errorf("found %d under key %q, want %s alone", len(one), m.Key, m.UID)
			}
		}
		t.canceled(all[1].UID, scheduler.CancelDone)
		t.refused(Message(10, Named("order-1"), Keyed(b), Content("a")), scheduler.AddConflict, all[1], scheduler.StateCanceled)
		t.refused(Message(11, Named("order-1"), Keyed(a), Content("a")), scheduler.AddDuplicate, all[0], scheduler.StateWaiting)
	}},
	{name: "an id under many keys is found by its key, and alone only while they are few", check: func(t *trial) {
		var all []*scheduler.Message
		for i := 0; len(all) < scheduler.MaxKeysOfID+1; i++ {
			key := fmt.Sprintf("customer-%d", i)
			if NameBucket("reminder", key, t.o.Buckets) == 0 {
				all = append(all, Message(i, Named("reminder"), Keyed(key)))
			}
		}
		last := all[len(all)-1]
		t.added(all[:len(all)-1]...)
		if found := t.find(scheduler.Ref{ID: "reminder"}); len(found) != scheduler.MaxKeysOfID {
			t.Fatalf("found %d by the id alone, want %d", len(found), scheduler.MaxKeysOfID)
		}
		t.one(last)
		alone := scheduler.Ref{ID: "reminder"}
		if found, err := t.tl.Find(t.Context(), alone); !errors.Is(err, scheduler.ErrAmbiguousID) {
			t.Fatalf("found %d by the id alone, %v; want ErrAmbiguousID", len(found), err)
		}
		if found, err := t.tl.Bury(t.Context(), alone, 1, t.now); !errors.Is(err, scheduler.ErrAmbiguousID) {
			t.Fatalf("bury found %v, %v; want ErrAmbiguousID", found, err)
		}
		byKey := scheduler.Ref{ID: "reminder", Key: last.Key, Keyed: true}
		if found := t.find(byKey); len(found) != 1 || found[0].UID != last.UID {
			t.Fatalf("found %d by the key, want %s alone", len(found), last.UID)
		}
		t.finish(scheduler.StateDelivered, t.take(last))
		t.pass(t.o.EndedKeep)
		t.trim(0, wide)
		if found := t.find(alone); len(found) != scheduler.MaxKeysOfID {
			t.Fatalf("found %d by the id alone once the last is forgotten, want %d", len(found), scheduler.MaxKeysOfID)
		}
		if found := t.find(byKey); len(found) != 0 {
			t.Fatalf("found %d by a key that is forgotten", len(found))
		}
	}},
	{name: "a push costs the same however many keys have its id", check: func(t *trial) {
		const batches, size = 60, 250
		took := make([]time.Duration, batches)
		keys := 0
		for i := range took {
			var batch []*scheduler.Message
			for ; len(batch) < size; keys++ {
				if key := fmt.Sprintf("customer-%d", keys); NameBucket("reminder", key, t.o.Buckets) == 0 {
					batch = append(batch, Message(keys, Named("reminder"), Keyed(key)))
				}
			}
			began := time.Now()
			t.added(batch...)
			took[i] = time.Since(began)
		}
		// The fastest of ten: what else the machine does only adds to it.
		if first, last := slices.Min(took[:10]), slices.Min(took[batches-10:]); last > 8*first {
			t.Fatalf("a batch took %s at first and %s with %d keys", first, last, keys)
		}
	}},
	{name: "ids that look alike are told apart", check: func(t *trial) {
		// Each pair reads the same when id and key are simply joined.
		t.one(Message(1, Named("ab"), Keyed("c")))
		t.one(Message(2, Named("a"), Keyed("bc")))
		t.one(Message(3, Named("b"), Keyed("ca")))
		t.one(Message(4, Named("abc")))
		t.one(Message(5, Named("a:b"), Keyed("c")))
		t.one(Message(6, Named("a"), Keyed("b:c")))
		t.one(Message(7, Named("1"), Keyed("\x001")))
		t.one(Message(8, Named("1\x00"), Keyed("1")))
		for _, id := range []string{"", "A", "bca", "1\x00\x00"} {
			if found := t.find(scheduler.Ref{ID: id}); len(found) != 0 {
				t.Errorf("%q finds %s", id, describe(found[0]))
			}
		}
		if found := t.find(scheduler.Ref{ID: "a", Key: "c", Keyed: true}); len(found) != 0 {
			t.Errorf("a of c finds %s", describe(found[0]))
		}
	}},
	{name: "names and keys of 255 bytes are kept", check: func(t *trial) {
		long := func(c byte) string {
			b := make([]byte, 255)
			for i := range b {
				b[i] = c
			}
			return string(b)
		}
		m := t.one(Message(1, Named(long('i')), Keyed(long('k'))))
		t.wantInfo(live(m, scheduler.StateWaiting, scheduler.Mark{}))
		t.refused(Message(2, Named(long('i')), Keyed(long('k')), Content("other")), scheduler.AddConflict, m, scheduler.StateWaiting)
		t.one(Message(3, Named(long('i')[1:]), Keyed(long('k'))))
	}},
	{name: "a message without an id has no name", check: func(t *trial) {
		t.one(Message(1, Keyed("customer-1")))
		t.one(Message(2, Keyed("customer-1")))
		if found := t.find(scheduler.Ref{Key: "customer-1", Keyed: true}); len(found) != 0 {
			t.Fatalf("the empty id finds %s", describe(found[0]))
		}
	}},
	{name: "messages of one key keep their order", check: func(t *trial) {
		var all []*scheduler.Message
		for i := range 20 {
			all = append(all, Message(i, Keyed("customer-1"), Named(fmt.Sprintf("order-%d", 19-i))))
		}
		t.added(all...)
		t.wantUIDs(t.claimFrom(t.bucketOf(all[0]), "", wide, wide).Messages, all)
	}},
	{name: "a batch with the same uid twice stores it once", check: func(t *trial) {
		m := Message(1)
		r := t.add(m, Message(2), m)
		if r[0].Code != scheduler.Added || r[1].Code != scheduler.Added || r[2].Code != scheduler.AddDuplicate || r[2].First.UID != m.UID || r[2].First.Due != m.Due {
			t.Fatalf("got %s, %s, %s of %s", addWord(r[0].Code), addWord(r[1].Code), addWord(r[2].Code), r[2].First.UID)
		}
		if h := t.heads()[0]; h.Waiting != 2 {
			t.Fatalf("%d wait, want 2", h.Waiting)
		}
	}},
	{name: "a batch with the same name twice stores the first", check: func(t *trial) {
		id := sameBucket("order-1", t.o.Buckets)
		batch := []*scheduler.Message{
			Message(1, Named("order-1"), Content("a"), DueIn(time.Minute)), Message(2, Named("order-1"), Content("a")),
			Message(3, Named("order-1"), Content("b")), Message(4, Named(id), Content("a")),
		}
		want := []scheduler.AddCode{scheduler.Added, scheduler.AddDuplicate, scheduler.AddConflict, scheduler.Added}
		for i, r := range t.add(batch...) {
			if r.Code != want[i] {
				t.Errorf("message %d: got %s, want %s", i, addWord(r.Code), addWord(want[i]))
			}
			if r.Code != scheduler.Added && (r.First.UID != batch[0].UID || r.First.Due != batch[0].Due || r.First.State != scheduler.StateWaiting) {
				t.Errorf("message %d: first is %s", i, describe(r.First))
			}
		}
		t.gone(batch[1].UID)
		t.gone(batch[2].UID)
		// And once more, whole: all are duplicates or conflicts now.
		want[0], want[3] = scheduler.AddDuplicate, scheduler.AddDuplicate
		for i, r := range t.add(batch...) {
			if r.Code != want[i] {
				t.Errorf("message %d again: got %s, want %s", i, addWord(r.Code), addWord(want[i]))
			}
		}
		if h := t.heads()[t.bucketOf(batch[0])]; h.Waiting != 2 {
			t.Fatalf("%d wait, want 2", h.Waiting)
		}
	}},
}
