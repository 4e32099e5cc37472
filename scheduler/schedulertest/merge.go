package schedulertest

import (
	"fmt"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// The modes of merging, and those that end the earlier of two messages.
var (
	mergeModes = []message.Merge{message.MergeKeep, message.MergeReplace, message.MergeDebounce}
	replacing  = []message.Merge{message.MergeReplace, message.MergeDebounce}
)

var mergeWords = [...]string{"reject", "keep", "replace", "debounce"}

// push returns a push of the name order-1 with a mode of merging.
func push(n int, how message.Merge, with ...With) *message.Message {
	return Message(n, append([]With{Named("order-1"), Merging(how)}, with...)...)
}

// merged adds a push twice, which must merge into a message once. The message must then be as wanted, and the push
// remembered.
func (t *trial) merged(m *message.Message, into message.Info) {
	t.Helper()
	for range 2 {
		r := t.add(m)[0]
		if r.Code != scheduler.AddMerged || r.First.UID != into.UID || r.First.Due != into.Due ||
			r.First.State != into.State || r.First.Version != into.Version ||
			r.First.ID != m.ID || r.First.Topic != m.Topic || r.First.Key != m.Key {
			t.Fatalf("add of %s: got %s, %s\nwant it merged into %s", m.UID, addWord(r.Code), describe(r.First),
				describe(into))
		}
		t.wantInfo(into)
		t.wantInfo(absorbed(m, into.UID, t.now))
	}
}

// absorbed returns what is remembered of a push that was merged into a message.
func absorbed(m *message.Message, into message.UID, at message.Milli) message.Info {
	i := remains(m, message.StateCanceled, at, false, MergedInto+string(into))
	i.Version, i.Mark.Changes = 1, 0
	return i
}

// taken returns a message whose content a push replaced.
func taken(first, by *message.Message) *message.Message {
	m := *by
	m.UID, m.Attempt, m.Stored, m.Merge, m.MaxWait, m.Origin = first.UID, first.Attempt, 0, message.MergeReject, 0, by.UID
	m.Since, m.StoredAt = 0, 0
	return &m
}

func changed(n uint32) message.Mark { return message.Mark{Changes: n} }

var mergePromises = []promise{
	{name: "a push that merges is new where nobody has the name, or it ended", check: func(t *trial) {
		n := 0
		for _, how := range mergeModes {
			named := Named("free-" + mergeWords[how])
			m := t.one(Message(n, named, Merging(how), MaxWait(time.Second)))
			t.wantInfo(live(m, message.StateWaiting, changed(0)))
			t.refused(m, scheduler.AddDuplicate, m, message.StateWaiting)
			for _, s := range []message.State{message.StateDelivered, message.StateCanceled,
				message.StateExpired, message.StateDead} {
				n += 10
				named := Named(fmt.Sprint(mergeWords[how], "-", s))
				old := t.ended(Message(n, named), s)
				m := t.one(Message(n+1, named, Merging(how)))
				t.wantInfo(live(m, message.StateWaiting, changed(0)))
				t.wantFound(scheduler.Ref{ID: m.ID}, m.UID)
				t.wantState(old.UID, s)
			}
			n += 10
		}
	}},
	{name: "keep absorbs the push: the first content stays", check: func(t *trial) {
		first := t.one(push(1, message.MergeReject, DueIn(time.Hour), Content("a"), Priority(3)))
		t.merged(push(2, message.MergeKeep, DueIn(time.Minute), Content("b"), Priority(9), Stored(7),
			TTL(time.Second)), live(first, message.StateWaiting, changed(1)))
		t.merged(push(3, message.MergeKeep, Content("a")), live(first, message.StateWaiting, changed(2)))
		points(t, first)
		t.pass(time.Hour)
		t.wantUIDs(t.claimFrom(t.bucketOf(first), "", wide, wide).Messages, []*message.Message{first})
	}},
	{name: "replace takes the content, due and priority of the push", check: func(t *trial) {
		first := t.one(push(1, message.MergeReject, DueIn(time.Hour), Content("a"), Headers("A", "b"), TTL(time.Hour),
			Retrying(5, time.Second), Attempt(2), Direct()))
		by := push(2, message.MergeReplace, DueIn(2*time.Hour), Content("b"), Priority(9), TTL(time.Second),
			Retrying(0, time.Minute), Direct())
		now := taken(first, by)
		t.merged(by, live(now, message.StateWaiting, changed(1)))
		points(t, now)
		by = push(3, message.MergeReplace, DueIn(time.Minute), Content("c"), Headers("D", "e", "D", "f"))
		now = taken(first, by)
		t.merged(by, live(now, message.StateWaiting, changed(2)))
		t.wantHead(t.bucketOf(first), scheduler.Head{Due: by.Due, Waiting: 1})
		t.pass(time.Minute)
		got := t.claimFrom(t.bucketOf(first), "", wide, wide).Messages
		t.wantUIDs(got, []*message.Message{first})
		if string(got[0].Body) != "c" || got[0].Attempt != 2 || got[0].Priority != 0 || len(got[0].Headers) != 2 {
			t.Fatalf("claimed %s", describe(message.Info{Message: *got[0]}))
		}
	}},
	{name: "debounce replaces, but puts off no longer than the longest wait since the first", check: func(t *trial) {
		first := t.one(push(1, message.MergeReject, DueIn(time.Minute), Content("a")))
		accepted := message.CeilMilli(first.UID.Time())
		wait := time.Duration(Start-accepted)*time.Millisecond + 10*time.Minute
		for i, c := range []struct{ due, want, most time.Duration }{
			{5 * time.Minute, 5 * time.Minute, wait},
			{20 * time.Minute, 10 * time.Minute, wait},
			{time.Minute, time.Minute, wait}, // and sooner is sooner
			{30 * time.Minute, 30 * time.Minute, 0},
			{30 * time.Minute, 10*time.Minute + time.Millisecond, wait + 1}, // a fraction is a millisecond
		} {
			by := push(2+i, message.MergeDebounce, DueIn(c.due), MaxWait(c.most), Content("b"), Stored(uint64(1+i)))
			now := taken(first, by)
			now.Due = Start.Add(c.want)
			t.merged(by, live(now, message.StateWaiting, changed(uint32(1+i))))
		}
		by := push(9, message.MergeDebounce, DueIn(time.Hour), MaxWait(time.Second), Stored(9))
		now := taken(first, by)
		now.Due = t.now // that is long past: at once, and not before
		t.merged(by, live(now, message.StateWaiting, changed(6)))
		t.wantUIDs(t.claimFrom(t.bucketOf(first), "", wide, wide).Messages, []*message.Message{first})
	}},
	{name: "a push that merged is remembered for as long as ends are, and merges once", check: func(t *trial) {
		first := t.one(push(1, message.MergeReject, DueIn(time.Hour)))
		by := push(2, message.MergeReplace, DueIn(time.Hour), Content("b"), Headers("A", "b"),
			Retrying(0, time.Second), TTL(time.Minute))
		first = taken(first, by)
		t.merged(by, live(first, message.StateWaiting, changed(1)))
		at := t.now
		t.pass(time.Minute)
		a := moved(first, 2, Start.Add(time.Minute))
		t.amend(a, scheduler.AmendDone) // and it goes on living
		first.Due = a.Due
		if r := t.add(by)[0]; r.Code != scheduler.AddMerged || r.First.Version != 3 || r.First.Due != a.Due {
			t.Fatalf("sent again: %s, %s", addWord(r.Code), describe(r.First))
		}
		first = t.take(first)
		if r := t.add(by)[0]; r.Code != scheduler.AddMerged || r.First.UID != first.UID ||
			r.First.State != message.StateInFlight {
			t.Fatalf("sent again: %s, %s", addWord(r.Code), describe(r.First))
		}
		t.finish(message.StateDelivered, first)
		if r := t.add(by)[0]; r.Code != scheduler.AddMerged || r.First.UID != first.UID ||
			r.First.State != message.StateDelivered {
			t.Fatalf("sent again: %s, %s", addWord(r.Code), describe(r.First))
		}
		t.wantInfo(absorbed(by, first.UID, at))
		points(t, first)
		t.now = at.Add(t.o.EndedKeep)
		t.wantTrimmed(t.bucketOf(first), wide, 1)
		t.gone(by.UID)
		points(t, first)
	}},
	{name: "a push that does not merge is judged by the content that won", check: func(t *trial) {
		first := t.one(push(1, message.MergeReject, Content("a")))
		by := push(2, message.MergeReplace, Content("b"))
		t.merged(by, live(taken(first, by), message.StateWaiting, changed(1)))
		t.refused(push(3, message.MergeReject, Content("a")), scheduler.AddConflict, first, message.StateWaiting)
		t.refused(push(4, message.MergeReject, Content("b")), scheduler.AddDuplicate, first, message.StateWaiting)
		t.wantInfo(live(taken(first, by), message.StateWaiting, changed(1)))
	}},
	{name: "only messages of the very name are merged", check: func(t *trial) {
		a, b, _ := neighbours(t.o.Buckets)
		t.one(push(1, message.MergeReject, Keyed(a)))
		t.one(push(2, message.MergeReplace, Keyed(b)))
		t.one(push(3, message.MergeKeep))
		t.one(Message(4, Named("order-2"), Keyed(a), Merging(message.MergeKeep)))
		t.one(Message(5, Keyed(a), Merging(message.MergeReplace))) // without a name
		t.one(Message(6, Keyed(a), Merging(message.MergeReplace)))
	}},
	{name: "a replaced message leaves its lane and its refusals, an absorbing one stays as it is",
		check: func(t *trial) {
			first := t.take(push(1, message.MergeReject))
			mark := message.Mark{Lane: "stream", Refusals: 2}
			t.giveBack(first, int64(Start.Add(time.Hour))<<8, mark)
			mark.Changes = 1
			t.merged(push(2, message.MergeKeep), live(first, message.StateWaiting, mark))
			t.pass(time.Minute)
			t.wantUIDs(t.claimFrom(t.bucketOf(first), "stream", wide, wide).Messages, nil) // its place is the later one
			by := push(3, message.MergeReplace)
			results, head := t.addHead(by)
			if results[0].Code != scheduler.AddMerged || head != by.Due {
				t.Fatalf("%s, head %d", addWord(results[0].Code), head)
			}
			t.merged(by, live(taken(first, by), message.StateWaiting, changed(2)))
			t.wantLanes(t.bucketOf(first))
			t.wantUIDs(t.claimFrom(t.bucketOf(first), "", wide, wide).Messages, []*message.Message{first})
		}},
	{name: "an older push of the intake does not replace a newer one's content", check: func(t *trial) {
		for i, how := range replacing {
			key := fmt.Sprint(i)
			first := t.one(push(20, message.MergeReject, Keyed(key), Stored(20), DueIn(time.Minute)))
			t.merged(push(10, how, Keyed(key), Stored(10), Content("old")),
				live(first, message.StateWaiting, changed(1)))
			newer := push(40, how, Keyed(key), Stored(40), DueIn(time.Hour), Content("new"))
			now := taken(first, newer)
			t.merged(newer, live(now, message.StateWaiting, changed(2)))
			// It is newer than the message, and older than the content.
			t.merged(push(30, how, Keyed(key), Stored(30), Content("old")),
				live(now, message.StateWaiting, changed(3)))
			t.amend(moved(now, 4, Start.Add(2*time.Hour)), scheduler.AmendDone)
			now.Due = Start.Add(2 * time.Hour)
			t.merged(push(31, how, Keyed(key), Stored(31), Content("old")),
				live(now, message.StateWaiting, changed(5)))
		}
	}},
	{name: "an older push of the intake is the first for keep", check: func(t *trial) {
		first := t.one(push(20, message.MergeReject, Stored(20), DueIn(time.Minute)))
		older := push(10, message.MergeKeep, Stored(10), DueIn(time.Hour), Content("old"), Priority(4))
		now := taken(first, older)
		t.merged(older, live(now, message.StateWaiting, changed(1)))
		// This one is older than the message, but not older than its content.
		t.merged(push(15, message.MergeKeep, Stored(15)), live(now, message.StateWaiting, changed(2)))
		oldest := push(5, message.MergeKeep, Stored(5), Content("oldest"))
		t.merged(oldest, live(taken(first, oldest), message.StateWaiting, changed(3)))
	}},
	{name: "the stream's sequence decides, where its stamps step back too", check: func(t *trial) {
		for i, how := range mergeModes {
			key, at := fmt.Sprint(i), func(after time.Duration) With { return Stamped(t.now.Add(after)) }
			first := t.one(push(1, message.MergeReject, Keyed(key), Stored(10), at(2*time.Second), Content("a")))
			second := push(2, how, Keyed(key), Stored(11), at(0), Content("b"))
			now := first
			if how != message.MergeKeep {
				now = taken(first, second)
			}
			t.merged(second, live(now, message.StateWaiting, changed(1)))
			late := push(3, how, Keyed(key), Stored(9), at(time.Hour), Content("late")) // 9 was stored before 10
			if how == message.MergeKeep {
				now = taken(first, late)
			}
			t.merged(late, live(now, message.StateWaiting, changed(2)))
		}
	}},
	{name: "a stream that was made anew counts afresh: the stamps decide", check: func(t *trial) {
		key, begun := Keyed("k"), t.now.Add(time.Minute)
		first := t.one(push(1, message.MergeReject, key, Stored(100), Stamped(begun-1), Content("a")))
		next := push(2, message.MergeReplace, key, Stored(1), Stamped(begun), Comparing(begun, 0), Content("b"))
		now := taken(first, next)
		t.merged(next, live(now, message.StateWaiting, changed(1)))
		late := push(3, message.MergeReplace, key, Stored(101), Stamped(begun-1), Comparing(begun+1, 0))
		t.merged(late, live(now, message.StateWaiting, changed(2)))
	}},
	{name: "between the intake and other ways the time of storing decides", check: func(t *trial) {
		key, stamp := Keyed("k"), t.now
		first := t.one(push(1, message.MergeReject, key, Direct(), Stamped(stamp), Content("a")))
		older := push(2, message.MergeReplace, key, Stored(1), Stamped(stamp.Add(time.Hour)), Comparing(0, stamp-1))
		t.merged(older, live(first, message.StateWaiting, changed(1)))
		newer := push(3, message.MergeReplace, key, Stored(2), Stamped(stamp.Add(-time.Hour)), Comparing(0, stamp),
			Content("c"))
		now := taken(first, newer)
		t.merged(newer, live(now, message.StateWaiting, changed(2)))
		direct := push(4, message.MergeReplace, key, Direct(), Stamped(stamp.Add(time.Second)), Content("d"))
		now = taken(first, direct)
		t.merged(direct, live(now, message.StateWaiting, changed(3)))
		older = push(5, message.MergeReplace, key, Stored(3), Comparing(0, stamp.Add(time.Second)-1))
		t.merged(older, live(now, message.StateWaiting, changed(4))) // the content's time counts, not the message's
	}},
	{name: "with direct pushes the order of arrival decides", check: func(t *trial) {
		a, b, _ := neighbours(t.o.Buckets)
		first := t.one(push(20, message.MergeReject, Keyed(a), Direct()))
		late := push(10, message.MergeReplace, Keyed(a), Stored(10), Content("late"))
		t.merged(late, live(taken(first, late), message.StateWaiting, changed(1)))
		direct := push(5, message.MergeReplace, Keyed(a), Content("direct"), Direct())
		t.merged(direct, live(taken(first, direct), message.StateWaiting, changed(2)))
		// Nothing shows that this one is older than the content.
		later := push(9, message.MergeReplace, Keyed(a), Stored(9), Content("later"))
		t.merged(later, live(taken(first, later), message.StateWaiting, changed(3)))
		t.merged(push(4, message.MergeKeep, Keyed(a), Direct()),
			live(taken(first, later), message.StateWaiting, changed(4)))

		second := t.one(push(21, message.MergeReject, Keyed(b), Stored(21)))
		direct = push(22, message.MergeReplace, Keyed(b), Content("direct"), Direct())
		now := taken(second, direct)
		t.merged(direct, live(now, message.StateWaiting, changed(1)))
		// This one is older than the message itself.
		t.merged(push(11, message.MergeReplace, Keyed(b), Stored(11),
			Comparing(0, message.CeilMilli(second.UID.Time())-1)), live(now, message.StateWaiting, changed(2)))
	}},
	{name: "pushes of one batch merge in their order", recorded: true, check: func(t *trial) {
		batch := []*message.Message{
			push(1, message.MergeReplace, Content("a"), DueIn(time.Minute)),
			push(2, message.MergeReplace, Content("b"), DueIn(time.Hour)),
			push(3, message.MergeKeep, Content("c")), push(2, message.MergeReplace, Content("b"), DueIn(time.Hour)),
			push(4, message.MergeReject, Content("a")), push(5, message.MergeReject, Content("b")),
		}
		first := batch[0]
		want := []scheduler.AddCode{scheduler.Added, scheduler.AddMerged, scheduler.AddMerged, scheduler.AddMerged,
			scheduler.AddConflict, scheduler.AddDuplicate}
		for range 2 {
			results, head := t.addHead(batch...)
			for i, r := range results {
				if r.Code != want[i] || i > 0 && (r.First.UID != first.UID || r.First.State != message.StateWaiting ||
					r.First.Due != batch[1].Due) {
					t.Errorf("push %d: got %s of %s, want %s", i, addWord(r.Code), describe(r.First), addWord(want[i]))
				}
			}
			if want[0] == scheduler.Added && head != batch[1].Due {
				t.Errorf("head is returned as %d, want where it waits now", head)
			}
			if t.Failed() {
				t.FailNow()
			}
			want[0] = scheduler.AddDuplicate
		}
		now := taken(first, batch[1])
		t.wantInfo(live(now, message.StateWaiting, changed(2)))
		a := *first
		a.Merge = message.MergeReject
		change := record.Change{UID: first.UID, State: message.StateWaiting, At: t.now, Bucket: t.bucketOf(first)}
		one, two, three := change, change, change
		one.Version, one.Due, one.Message = 1, a.Due, &a
		two.Version, two.Due, two.Message, two.Reason = 2, now.Due, now, ReasonReplaced
		three.Version, three.Due, three.Reason = 3, now.Due, ReasonAbsorbed
		t.wantRecorded(one, two, three) // and nothing the second time
	}},
	{name: "sent again, what was refused as uncertain may go into what came after it in the batch",
		check: func(t *trial) {
			first := t.take(push(1, message.MergeReject, Content("a")))
			t.giveBack(first, first.Score(), message.Mark{Uncertain: true})
			batch := []*message.Message{
				push(2, message.MergeDebounce, Content("b"), Direct()),
				push(3, message.MergeKeep, Content("c"), Attempt(3)),
				push(4, message.MergeReject, Content("c"), Attempt(3)),
				push(5, message.MergeReject, Content("b"), Attempt(3)),
			}
			next := batch[1]
			for again, want := range [][]scheduler.AddCode{
				{scheduler.AddUncertain, scheduler.Added, scheduler.AddDuplicate, scheduler.AddConflict},
				// The debounce has become the last push: later ones are judged by its content.
				{scheduler.AddMerged, scheduler.AddDuplicate, scheduler.AddConflict, scheduler.AddDuplicate},
				{scheduler.AddMerged, scheduler.AddDuplicate, scheduler.AddConflict, scheduler.AddDuplicate},
			} {
				for i, r := range t.add(batch...) {
					if r.Code != want[i] || again > 0 && r.First.UID != next.UID {
						t.Fatalf("push %d, sent again %d times: got %s of %s, want %s", i, again, addWord(r.Code),
							r.First.UID, addWord(want[i]))
					}
				}
			}
			t.wantInfo(live(first, message.StateWaiting, message.Mark{Uncertain: true}))
			t.wantInfo(live(taken(next, batch[0]), message.StateWaiting, changed(1)))
		}},
	{name: "the journal records what a push did to a message, and not the push", recorded: true,
		check: func(t *trial) {
			first := t.one(push(1, message.MergeReject, DueIn(time.Minute)))
			change := record.Change{UID: first.UID, State: message.StateWaiting, At: t.now,
				Bucket: t.bucketOf(first),
				Due:    first.Due}
			t.forgetRecorded()
			t.merged(push(2, message.MergeKeep), live(first, message.StateWaiting, changed(1)))
			change.Version, change.Reason = 2, ReasonAbsorbed
			t.wantRecorded(change)
			by := push(3, message.MergeReplace, DueIn(time.Hour), Content("b"), Headers("A", "b"), Stored(3),
				Retrying(1, time.Second))
			now := taken(first, by)
			t.merged(by, live(now, message.StateWaiting, changed(2)))
			change.Version, change.Reason, change.Due, change.Message = 3, ReasonReplaced, by.Due, now
			t.wantRecorded(change)
		}},
	{name: "a push that a tombstone covers merges into nothing", check: func(t *trial) {
		a, b, _ := neighbours(t.o.Buckets)
		t.bury(scheduler.Ref{ID: "order-1", Topic: "content"}, 100)
		canceledAtOnce(t, push(1, message.MergeReplace, Keyed(a), Stored(99)))
		t.one(push(2, message.MergeReplace, Keyed(a), Stored(101))) // the name ended
		first := t.one(push(3, message.MergeReject, Keyed(b)))      // not through the intake
		for i, how := range mergeModes {
			canceledAtOnce(t, push(4+i, how, Keyed(b), Stored(50)))
		}
		t.wantInfo(live(first, message.StateWaiting, changed(0)))
		t.merged(push(8, message.MergeKeep, Keyed(b), Stored(101)), live(first, message.StateWaiting, changed(1)))
	}},
	{name: "a message that keeps its origin and retries hands them out when it is claimed", check: func(t *trial) {
		first := t.one(push(1, message.MergeReject))
		by := push(2, message.MergeReplace, Stored(2), Retrying(20, 0, 0, 2*time.Minute, time.Hour))
		now := taken(first, by)
		t.merged(by, live(now, message.StateWaiting, changed(1)))
		got := t.take(first)
		if want := (message.Info{Message: *now}); got.Origin != by.UID ||
			fmt.Sprint(got.Retry) != fmt.Sprint(want.Retry) {
			t.Fatalf("claimed with origin %q and retry %v", got.Origin, got.Retry)
		}
		t.giveBack(got, got.Score(), changed(1))
		t.wantInfo(live(now, message.StateWaiting, changed(1)))
		t.finish(message.StateDead, t.take(first))
		if dead := t.get(first.UID); dead.Origin != by.UID || fmt.Sprint(dead.Retry) != fmt.Sprint(by.Retry) {
			t.Fatalf("dead with origin %q and retry %v", dead.Origin, dead.Retry)
		}
	}},
}
