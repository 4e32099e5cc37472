package schedulertest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// neighbours returns two keys whose names share a bucket, and a third whose name does not.
func neighbours(buckets message.Bucket) (a, b, apart string) {
	a = "customer-0"
	for i := 1; b == "" || apart == ""; i++ {
		key := fmt.Sprintf("customer-%d", i)
		if NameBucket("", key, buckets) == NameBucket("", a, buckets) {
			b = key
		} else {
			apart = key
		}
	}
	return a, b, apart
}

// sameBucket returns an id that, without a key, belongs to the bucket of the given one.
func sameBucket(id string, buckets message.Bucket) string {
	for i := 0; ; i++ {
		other := fmt.Sprintf("%s-%d", id, i)
		if NameBucket(other, "", buckets) == NameBucket(id, "", buckets) {
			return other
		}
	}
}

var everyState = []message.State{message.StateWaiting, message.StateInFlight, message.StateDelivered,
	message.StateCanceled, message.StateExpired, message.StateDead}

// brought adds a message and brings it to a state.
func (t *trial) brought(m *message.Message, s message.State) {
	t.Helper()
	switch s {
	case message.StateWaiting:
		t.one(m)
	case message.StateInFlight:
		t.take(m)
	default:
		t.ended(m, s)
	}
}

var namePromises = []promise{
	{name: "a uid that comes again is a duplicate of its message, and on another topic a conflict, in every state",
		check: func(t *trial) {
			for i, s := range everyState {
				for j, with := range [][]With{{}, {Named(fmt.Sprintf("order-%d", i)), Keyed("k")}} {
					m := Message(10*i+j, append(with, On("mail.x"))...)
					t.brought(m, s)
					stands := t.get(m.UID)
					if first := t.refused(m, scheduler.AddDuplicate, m, s); first.EndedAt != stands.EndedAt ||
						first.Version != stands.Version {
						t.Errorf("%s: the duplicate answers with %s", s, describe(first))
					}
					for _, body := range []string{"", "other"} {
						other := *m
						other.Topic, other.Body = "payments.x", []byte(body)
						t.refused(&other, scheduler.AddConflict, m, s)
					}
					t.wantInfo(stands)
					if s == message.StateWaiting {
						t.canceled(m.UID, scheduler.CancelDone)
					}
				}
			}
			into := t.one(push(100, message.MergeReplace, On("mail.x")))
			merged := push(101, message.MergeReplace, On("mail.x"))
			t.merged(merged, live(taken(into, merged), message.StateWaiting, changed(1)))
			forged := *merged
			forged.Topic = "payments.x"
			t.refused(&forged, scheduler.AddConflict, into, message.StateWaiting)
		}},
	{name: "the same id under different keys is different messages", check: func(t *trial) {
		a, b, apart := neighbours(t.o.Buckets)
		var all []*message.Message
		for i, key := range []string{a, b, apart} {
			all = append(all, t.one(Message(i, Named("order-1"), Keyed(key), Content("a"))))
		}
		all = append(all, t.one(Message(3, Named("order-1"), Content("b")))) // without a key
		found := t.find(scheduler.Ref{ID: "order-1"})
		if len(found) != len(all) {
			t.Fatalf("found %d by the id alone, want %d", len(found), len(all))
		}
		for i, m := range all {
			if found[i].UID != m.UID ||
				describe(found[i]) != describe(live(m, message.StateWaiting, message.Mark{})) {
				t.Errorf("found %s\n want %s", describe(found[i]), m.UID)
			}
			one := t.find(scheduler.Ref{ID: "order-1", Key: m.Key, Keyed: true})
			if len(one) != 1 || one[0].UID != m.UID {
				t.Errorf("found %d under key %q, want %s alone", len(one), m.Key, m.UID)
			}
		}
		t.canceled(all[1].UID, scheduler.CancelDone)
		t.refused(Message(10, Named("order-1"), Keyed(b), Content("a")), scheduler.AddConflict, all[1],
			message.StateCanceled)
		t.refused(Message(11, Named("order-1"), Keyed(a), Content("a")), scheduler.AddDuplicate, all[0],
			message.StateWaiting)
	}},
	{name: "the same id on different topics is different messages", check: func(t *trial) {
		topics := []string{"mail", "mail.x", "payments", "m"}
		var all []*message.Message
		for i, topic := range topics {
			all = append(all, t.one(Message(i, Named("order-1"), On(topic), Body(fmt.Append(nil, i)))))
		}
		keyed := t.one(Message(4, Named("order-1"), Keyed("customer-1"), On("mail")))
		t.wantFound(scheduler.Ref{ID: "order-1"}, all[0].UID, all[1].UID, all[2].UID, all[3].UID, keyed.UID)
		t.wantFound(scheduler.Ref{ID: "order-1", Keyed: true}, all[0].UID, all[1].UID, all[2].UID, all[3].UID)
		for i, topic := range topics {
			want := []message.UID{all[i].UID}
			t.wantFound(scheduler.Ref{ID: "order-1", Topic: topic, Keyed: true}, want...)
			if topic == "mail" {
				want = append(want, keyed.UID)
			}
			t.wantFound(scheduler.Ref{ID: "order-1", Topic: topic}, want...)
			t.wantFound(scheduler.Ref{ID: "order-1", Viewer: &scheduler.Viewer{Topics: []string{topic}}}, want...)
			t.wantFound(
				scheduler.Ref{ID: "order-1", Keyed: true, Viewer: &scheduler.Viewer{Topics: []string{topic}}}, want[0])
		}
		t.wantFound(scheduler.Ref{ID: "order-1", Topic: "pay"})
		t.wantFound(scheduler.Ref{ID: "order-1", Viewer: &scheduler.Viewer{}})
		t.wantFound(scheduler.Ref{ID: "order-1", Viewer: &scheduler.Viewer{Topics: []string{"mail.>"}}}, all[1].UID)
		t.wantFound(
			scheduler.Ref{ID: "order-1", Keyed: true, Viewer: &scheduler.Viewer{Topics: []string{"mail.>", "*"}}},
			all[0].UID, all[1].UID, all[2].UID, all[3].UID)
		// What happens to one leaves the others alone.
		t.canceled(all[1].UID, scheduler.CancelDone)
		t.refused(Message(10, Named("order-1"), On("mail.x")), scheduler.AddConflict, all[1], message.StateCanceled)
		t.refused(Message(11, Named("order-1"), On("mail"), Body([]byte("0"))), scheduler.AddDuplicate, all[0],
			message.StateWaiting)
		for i, how := range mergeModes {
			t.one(push(20+i, how, On(mergeWords[how])))
		}
		for _, m := range []*message.Message{all[0], all[2], all[3], keyed} {
			t.wantInfo(live(m, message.StateWaiting, message.Mark{}))
		}
		t.pass(t.o.EndedKeep)
		t.trim(t.bucketOf(all[1]), wide)
		t.wantFound(scheduler.Ref{ID: "order-1", Topic: "mail.x"})
		t.one(Message(12, Named("order-1"), On("mail.x")))
	}},
	{name: "a consumer's retry on one topic is nothing to another", check: func(t *trial) {
		t.one(retry(1, 2, On("mail.x")))
		first := t.one(retry(2, 1, On("payments.x")))
		t.wantInfo(live(first, message.StateWaiting, message.Mark{}))
	}},
	{name: "what others call by an id does not hide one's own", check: func(t *trial) {
		const others = 1100 // more than one look takes
		var batch []*message.Message
		for i := range others {
			batch = append(batch, Message(i, Named("reminder"), Keyed("customer-1"), On(fmt.Sprintf("mail.%d", i))))
		}
		t.added(batch...)
		own := t.one(Message(others, Named("reminder"), Keyed("customer-1"), On("payments.x")))
		t.wantFound(scheduler.Ref{ID: "reminder", Viewer: &scheduler.Viewer{Topics: []string{"payments.>"}}}, own.UID)
		t.wantFound(scheduler.Ref{ID: "reminder", Key: "customer-1", Keyed: true,
			Viewer: &scheduler.Viewer{Topics: []string{"x", "payments.*"}}}, own.UID)
		t.wantFound(scheduler.Ref{ID: "reminder", Topic: "payments.x"}, own.UID)
		t.wantFound(scheduler.Ref{ID: "reminder", Key: "customer-2", Keyed: true})
		found, err := t.tl.Find(t.Context(),
			scheduler.Ref{ID: "reminder", Viewer: &scheduler.Viewer{Topics: []string{"mail.*"}}})
		if !errors.Is(err, scheduler.ErrAmbiguousID) || len(found) < scheduler.MaxNamesOfID {
			t.Fatalf("found %d, %v; want ErrAmbiguousID and what it may be", len(found), err)
		}
	}},
	{name: "an id under many keys is found by its key, and alone only while they are few", check: func(t *trial) {
		var all []*message.Message
		for i := 0; len(all) < scheduler.MaxNamesOfID+1; i++ {
			key := fmt.Sprintf("customer-%d", i)
			if NameBucket("reminder", key, t.o.Buckets) == 0 {
				all = append(all, Message(i, Named("reminder"), Keyed(key)))
			}
		}
		last := all[len(all)-1]
		t.added(all[:len(all)-1]...)
		if found := t.find(scheduler.Ref{ID: "reminder"}); len(found) != scheduler.MaxNamesOfID {
			t.Fatalf("found %d by the id alone, want %d", len(found), scheduler.MaxNamesOfID)
		}
		t.one(last)
		alone := scheduler.Ref{ID: "reminder"}
		if found, err := t.tl.Find(t.Context(), alone); !errors.Is(err, scheduler.ErrAmbiguousID) {
			t.Fatalf("found %d by the id alone, %v; want ErrAmbiguousID", len(found), err)
		}
		if found, err := t.tl.Bury(t.Context(), scheduler.Ref{ID: "reminder", Topic: "content"}, 1, t.now); !errors.Is(
			err, scheduler.ErrAmbiguousID) {
			t.Fatalf("bury found %v, %v; want ErrAmbiguousID", found, err)
		}
		byKey := scheduler.Ref{ID: "reminder", Key: last.Key, Keyed: true}
		t.wantFound(byKey, last.UID)
		t.finish(message.StateDelivered, t.take(last))
		t.pass(t.o.EndedKeep)
		t.trim(0, wide)
		if found := t.find(alone); len(found) != scheduler.MaxNamesOfID {
			t.Fatalf("found %d by the id alone once the last is forgotten, want %d", len(found), scheduler.MaxNamesOfID)
		}
		t.wantFound(byKey)
	}},
	{name: "a push costs the same however many keys have its id", check: func(t *trial) {
		const batches, size = 60, 250
		took := make([]time.Duration, batches)
		keys := 0
		for i := range took {
			var batch []*message.Message
			for ; len(batch) < size; keys++ {
				if key := fmt.Sprintf("customer-%d", keys); NameBucket("reminder", key, t.o.Buckets) == 0 {
					batch = append(batch, Message(keys, Named("reminder"), Keyed(key)))
				}
			}
			began := time.Now()
			t.added(batch...)
			took[i] = time.Since(began)
		}
		// The fastest of each half, because other load on the machine only adds time. A push that looked at each key
		// would take 30 times as long in the second half.
		if first, last := slices.Min(took[:batches/2]), slices.Min(took[batches/2:]); last > 8*first {
			t.Fatalf("a batch took %s at first and %s with %d keys", first, last, keys)
		}
	}},
	{name: "topics that look alike are distinguished", check: func(t *trial) {
		for i, m := range [][3]string{{"a", "b", ""}, {"ab", "c", ""}, {"a", "bc", ""}, {"a", "b", "c"},
			{"a", "b\x01c", ""}, {"a", "b", "\x01c"}, {"\x01a", "b", ""}} {
			t.one(Message(i, Named(m[0]), On(m[1]), Keyed(m[2])))
			t.wantFound(scheduler.Ref{ID: m[0], Topic: m[1], Key: m[2], Keyed: true},
				Message(i, Named(m[0]), Keyed(m[2])).UID)
		}
		t.wantFound(scheduler.Ref{ID: "a", Topic: "b"}, Message(0, Named("a")).UID,
			Message(3, Named("a"), Keyed("c")).UID, Message(5, Named("a"), Keyed("\x01c")).UID)
		t.wantFound(scheduler.Ref{ID: "a", Topic: "bc"}, Message(2, Named("a")).UID)
	}},
	{name: "ids that look alike are distinguished", check: func(t *trial) {
		// Each pair is the same text when id and key are joined.
		t.one(Message(1, Named("ab"), Keyed("c")))
		t.one(Message(2, Named("a"), Keyed("bc")))
		t.one(Message(3, Named("b"), Keyed("ca")))
		t.one(Message(4, Named("abc")))
		t.one(Message(5, Named("a:b"), Keyed("c")))
		t.one(Message(6, Named("a"), Keyed("b:c")))
		t.one(Message(7, Named("1"), Keyed("\x001")))
		t.one(Message(8, Named("1\x00"), Keyed("1")))
		for _, id := range []string{"", "A", "bca", "1\x00\x00"} {
			t.wantFound(scheduler.Ref{ID: id})
		}
		t.wantFound(scheduler.Ref{ID: "a", Key: "c", Keyed: true})
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
		t.wantInfo(live(m, message.StateWaiting, message.Mark{}))
		t.refused(Message(2, Named(long('i')), Keyed(long('k')), Content("other")), scheduler.AddConflict, m,
			message.StateWaiting)
		t.one(Message(3, Named(long('i')[1:]), Keyed(long('k'))))
		full := t.one(Message(4, Named(long('i')), On(long('t')), Keyed(long('k'))))
		t.wantFound(scheduler.Ref{ID: full.ID, Topic: full.Topic}, full.UID)
		t.wantFound(scheduler.Ref{ID: full.ID}, m.UID, full.UID)
	}},
	{name: "a message without an id has no name", check: func(t *trial) {
		t.one(Message(1, Keyed("customer-1")))
		t.one(Message(2, Keyed("customer-1")))
		t.wantFound(scheduler.Ref{Key: "customer-1", Keyed: true})
	}},
	{name: "messages of one key keep their order", check: func(t *trial) {
		var all []*message.Message
		for i := range 20 {
			all = append(all, Message(i, Keyed("customer-1"), Named(fmt.Sprintf("order-%d", 19-i))))
		}
		t.added(all...)
		t.wantUIDs(t.claimFrom(t.bucketOf(all[0]), "", wide, wide).Messages, all)
	}},
	{name: "a batch with the same uid twice stores it once", check: func(t *trial) {
		m := Message(1)
		t.wantAdded([]*message.Message{m, Message(2), m}, m, scheduler.Added, scheduler.Added, scheduler.AddDuplicate)
		t.wantHead(0, scheduler.Head{Due: Start, Waiting: 2})
	}},
	{name: "a batch with the same name twice stores the first", check: func(t *trial) {
		id := sameBucket("order-1", t.o.Buckets)
		batch := []*message.Message{
			Message(1, Named("order-1"), Content("a"), DueIn(time.Minute)), Message(2, Named("order-1"), Content("a")),
			Message(3, Named("order-1"), Content("b")), Message(4, Named(id), Content("a")),
		}
		t.wantAdded(batch, batch[0], scheduler.Added, scheduler.AddDuplicate, scheduler.AddConflict, scheduler.Added)
		t.gone(batch[1].UID)
		t.gone(batch[2].UID)
		t.wantAdded(batch, batch[0], scheduler.AddDuplicate, scheduler.AddDuplicate, scheduler.AddConflict,
			scheduler.AddDuplicate)
		t.wantHead(t.bucketOf(batch[0]), scheduler.Head{Due: Start, Waiting: 2})
	}},
}
