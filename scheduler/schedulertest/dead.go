package schedulertest

import (
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// The reasons of a requeue and a purge. A uid follows RequeuedAs and RequeueOf, and MaybeSeen follows the uid if the
// dead message may have been delivered.
const (
	RequeuedAs = "requeued as "
	Purged     = "purged"
	RequeueOf  = "requeue of "
	MaybeSeen  = ", which may have been delivered"
)

var requeueWords = [...]string{"unknown", "done", "not dead", "named", "taken"}

func requeueWord(c scheduler.RequeueCode) string {
	if int(c) < len(requeueWords) {
		return requeueWords[c]
	}
	return "invalid"
}

// requeue requeues a dead message.
func (t *trial) requeue(dead message.UID, m *message.Message, want scheduler.RequeueCode) scheduler.RequeueResult {
	t.Helper()
	return t.renew(dead, 0, m, want)
}

// renew sends a requeue twice. The second answer must mean the same as the first, and change nothing.
func (t *trial) renew(dead message.UID, waits uint64, m *message.Message,
	want scheduler.RequeueCode) scheduler.RequeueResult {
	t.Helper()
	ask := func() scheduler.RequeueResult {
		r, err := t.tl.Requeue(t.Context(), dead, waits, m, t.now)
		t.must("requeue", err)
		if r.Code != want {
			t.Fatalf("requeue of %s: got %s, want %s", dead, requeueWord(r.Code), requeueWord(want))
		}
		if want == scheduler.RequeueDone && (r.Info.UID != m.UID || r.Info.State != message.StateWaiting ||
			r.Info.Version != 1 || r.Info.Due != m.Due) {
			t.Fatalf("requeue of %s answers with %s", dead, describe(r.Info))
		}
		return r
	}
	look := func() string {
		return describeAll(t.find(scheduler.Ref{UID: dead})) + describeAll(t.find(scheduler.Ref{UID: m.UID}))
	}
	first := ask()
	before, changes := look(), len(t.log.all)
	t.now++
	second := ask()
	t.now--
	if headOf(second.Earlier) != 0 || second.Old != first.Old || second.Info.UID != first.Info.UID {
		t.Fatalf("requeue of %s, sent twice: version %d then %d, head %d", dead, first.Old, second.Old,
			headOf(second.Earlier))
	}
	if after := look(); after != before || len(t.log.all) != changes {
		t.Fatalf("requeue of %s, sent again, changed something:\n was%s\n is%s", dead, before, after)
	}
	return first
}

// purge sends a purge twice, and wants the same answer.
func (t *trial) purge(bucket message.Bucket, uids, want []message.UID) {
	t.Helper()
	for range 2 {
		got, number, err := t.tl.Purge(t.Context(), bucket, uids, t.now)
		t.must("purge", err)
		if !slices.Equal(got, want) || number == 0 {
			t.Fatalf("purged %v, want %v; number %d", got, want, number)
		}
		t.now++
	}
	t.now -= 2
}

// dead brings a message to the state dead.
func (t *trial) dead(m *message.Message) *message.Message {
	t.Helper()
	return t.ended(m, message.StateDead)
}

// doubtful brings a message to the state dead after an attempt with an unknown outcome.
func (t *trial) doubtful(m *message.Message) *message.Message {
	t.Helper()
	m = t.take(m)
	t.giveBack(m, m.Score(), message.Mark{Uncertain: true})
	m = t.take(m)
	t.finish(message.StateDead, m)
	return m
}

// settled returns what remains of a dead message after a requeue or a purge.
func settled(m *message.Message, at message.Milli, uncertain bool, reason string) message.Info {
	i := remains(m, message.StateCanceled, at, uncertain, reason)
	i.Version, i.Mark.Changes = m.Version()+2, m.Mark.Changes+2
	return i
}

// again returns the message that a requeue of m adds.
func again(n int, m *message.Message, with ...With) *message.Message {
	if m.ID != "" {
		with = append(with, Named(m.ID))
	}
	return Message(n, append(with, Keyed(m.Key), On(m.Topic))...)
}

var deadPromises = []promise{
	{name: "what is dead gets another life under a uid of its own", check: func(t *trial) {
		for i, with := range [][]With{{}, {Named("order-1")}, {Named("order-1"), Keyed("customer-1")},
			{Keyed("customer-1")}} {
			old := t.dead(Message(10*i, append(with, TTL(time.Minute), Headers("A", "b"))...))
			t.pass(time.Second)
			m := again(10*i+1, old, DueIn(time.Hour), Headers("C", "d"), TTL(time.Hour),
				Retrying(3, time.Second), Priority(4))
			r := t.requeue(old.UID, m, scheduler.RequeueDone)
			if r.Old != 3 || headOf(r.Earlier) != m.Due {
				t.Fatalf("the dead one has version %d, the head is returned as %d", r.Old, headOf(r.Earlier))
			}
			t.wantInfo(live(m, message.StateWaiting, changed(0)))
			t.wantInfo(settled(old, t.now, false, RequeuedAs+string(m.UID)))
			if m.ID != "" {
				t.wantFound(scheduler.Ref{ID: m.ID, Key: m.Key, Keyed: true}, m.UID)
				t.refused(Message(10*i+2, append(with, Content("x"))...), scheduler.AddConflict, m,
					message.StateWaiting)
			}
			t.canceled(m.UID, scheduler.CancelDone)
		}
	}},
	{name: "a requeued message is delivered and may die again", check: func(t *trial) {
		old := t.dead(Message(1, Named("order-1")))
		m := again(2, old)
		t.requeue(old.UID, m, scheduler.RequeueDone)
		t.finish(message.StateDead, t.take(m))
		third := again(3, old)
		t.requeue(m.UID, third, scheduler.RequeueDone)
		if r := t.requeue(old.UID, again(4, old), scheduler.RequeueNotDead); r.Info.UID != old.UID ||
			r.Info.State != message.StateCanceled {
			t.Fatalf("answers with %s", describe(r.Info))
		}
		points(t, third)
		t.finish(message.StateDelivered, t.take(third))
	}},
	{name: "a requeue repeated later still answers as done", check: func(t *trial) {
		old := t.dead(Message(1))
		m := again(2, old)
		t.requeue(old.UID, m, scheduler.RequeueDone)
		t.finish(message.StateDelivered, t.take(m))
		r, err := t.tl.Requeue(t.Context(), old.UID, 0, m, t.now)
		t.must("requeue", err)
		if r.Code != scheduler.RequeueDone || r.Info.State != message.StateDelivered || r.Old != 3 ||
			headOf(r.Earlier) != 0 {
			t.Fatalf("got %s, %s, version %d of the dead", requeueWord(r.Code), describe(r.Info), r.Old)
		}
	}},
	{name: "the head is returned when a requeue makes it earlier, and only then", check: func(t *trial) {
		one, two := t.dead(Message(1)), t.dead(Message(2))
		t.one(Message(3, DueIn(time.Minute)))
		if r := t.requeue(one.UID, again(4, one, DueIn(time.Hour)), scheduler.RequeueDone); headOf(r.Earlier) != 0 {
			t.Fatalf("head %d", headOf(r.Earlier))
		}
		if r := t.requeue(two.UID, again(5, two, DueIn(time.Second)), scheduler.RequeueDone); headOf(r.Earlier) != Start.Add(
			time.Second) {
			t.Fatalf("head %d", headOf(r.Earlier))
		}
	}},
	{name: "a requeue takes no other message's uid", check: func(t *trial) {
		old, another := t.dead(Message(1)), t.one(Message(2, DueIn(time.Hour)))
		other := again(3, old, DueIn(time.Hour))
		other.UID = another.UID
		if r := t.requeue(old.UID, other, scheduler.RequeueTaken); r.Info.UID != another.UID {
			t.Fatalf("answers with %s", describe(r.Info))
		}
		t.wantState(old.UID, message.StateDead)
		t.wantInfo(live(another, message.StateWaiting, message.Mark{}))
	}},
	{name: "what is not dead is not requeued", check: func(t *trial) {
		r := t.requeue(Message(1).UID, Message(2), scheduler.RequeueUnknown)
		if r.Info.UID != "" {
			t.Fatalf("the unknown is %s", describe(r.Info))
		}
		waiting := t.one(Message(3, DueIn(time.Hour)))
		flying := t.take(Message(4))
		for i, m := range []*message.Message{waiting, flying, t.ended(Message(5), message.StateDelivered),
			t.ended(Message(6), message.StateCanceled), t.ended(Message(7), message.StateExpired)} {
			stood := t.get(m.UID)
			if r := t.requeue(m.UID, Message(10+i), scheduler.RequeueNotDead); r.Info.UID != m.UID ||
				r.Info.State != stood.State || r.Info.EndedAt != stood.EndedAt {
				t.Errorf("%s: answers with %s", stood.State, describe(r.Info))
			}
			t.wantInfo(stood)
			t.gone(Message(10 + i).UID)
		}
	}},
	{name: "a dead message whose name is another's is not requeued while that lives", check: func(t *trial) {
		old := t.dead(push(1, message.MergeReject))
		other := t.one(push(2, message.MergeKeep)) // the name ended: a new one
		refused := func(state message.State) {
			t.Helper()
			if r := t.requeue(old.UID, again(3, old), scheduler.RequeueNamed); r.Info.UID != other.UID ||
				r.Info.State != state {
				t.Fatalf("answers with %s", describe(r.Info))
			}
			t.gone(again(3, old).UID)
			t.wantState(old.UID, message.StateDead)
		}
		refused(message.StateWaiting)
		other = t.take(other)
		refused(message.StateInFlight)
		t.giveBack(other, other.Score(), message.Mark{Uncertain: true, Lane: "stream"})
		refused(message.StateWaiting)
		t.canceled(other.UID, scheduler.CancelMaybe)
		m := again(3, old)
		t.requeue(old.UID, m, scheduler.RequeueDone)
		points(t, m)
	}},
	{name: "what may have been delivered before it died is uncertain in its next life", check: func(t *trial) {
		for i, with := range [][]With{{}, {Named("order-1")}, {Named("order-1"), Keyed("customer-1")}} {
			old := t.doubtful(Message(10*i, with...))
			// Edited or not, the content before may have been seen.
			m := again(10*i+1, old, DueIn(time.Hour), Headers("A", "b"))
			t.requeue(old.UID, m, scheduler.RequeueDone)
			t.wantInfo(settled(old, t.now, true, RequeuedAs+string(m.UID)))
			t.wantInfo(live(m, message.StateWaiting, message.Mark{Uncertain: true}))
			t.amend(moved(m, 1, t.now), scheduler.AmendMaybe)
			t.wantInfo(live(m, message.StateWaiting, message.Mark{Uncertain: true}))
			t.canceled(old.UID, scheduler.CancelMaybe)
			t.canceled(m.UID, scheduler.CancelMaybe)
		}
	}},
	{name: "a requeue begins the attempts of a name anew", check: func(t *trial) {
		t.ended(retry(1, 1, Content("first")), message.StateDelivered)
		t.ended(retry(2, 2, Content("second")), message.StateDelivered)
		old := t.dead(retry(3, 3, Content("third")))
		t.refused(retry(4, 2, Content("second")), scheduler.AddDuplicate, old, message.StateDead)
		m := again(5, old, Content("third"))
		t.requeue(old.UID, m, scheduler.RequeueDone)
		points(t, m)
		// What was pushed before and comes again is known by its uid, whatever the name leads to.
		earlier := func() {
			t.Helper()
			t.refused(retry(1, 1, Content("first")), scheduler.AddDuplicate, retry(1, 1, Content("first")),
				message.StateDelivered)
			t.refused(retry(2, 2, Content("second")), scheduler.AddDuplicate, retry(2, 2, Content("second")),
				message.StateDelivered)
			t.refused(retry(3, 3, Content("third")), scheduler.AddDuplicate, old, message.StateCanceled)
		}
		earlier()
		// Under another uid it is compared with the new message alone, and not stored while that message waits.
		t.refused(retry(6, 1, Content("first")), scheduler.AddConflict, m, message.StateWaiting)
		t.refused(retry(7, 2, Content("second")), scheduler.AddConflict, m, message.StateWaiting)
		points(t, m)
		// The new life's own second attempt may read as the old one's: it must not be lost as a repeat of that.
		t.finish(message.StateDelivered, t.take(m))
		earlier()
		second := t.one(retry(8, 2, Content("second")))
		t.refused(retry(9, 2, Content("second")), scheduler.AddDuplicate, second, message.StateWaiting)
		t.refused(retry(10, 1, Content("first")), scheduler.AddConflict, second, message.StateWaiting)
		earlier()
		points(t, second)
	}},
	{name: "a retry of an old life that comes late is stored once, beside the new life", check: func(t *trial) {
		t.ended(retry(1, 1), message.StateDelivered)
		old := t.doubtful(retry(2, 2))
		m := again(3, old)
		t.requeue(old.UID, m, scheduler.RequeueDone)
		// A consumer that received the second attempt sends it back. Nothing distinguishes this from a retry of the new
		// life, which may have been delivered too.
		late := t.one(retry(4, 3, Content("late"), DueIn(time.Hour)))
		points(t, m, late)
		again := func(state message.State) {
			t.Helper()
			t.refused(retry(5, 3, Content("late")), scheduler.AddDuplicate, late, state)
			t.refused(retry(6, 3, Content("x")), scheduler.AddConflict, late, state)
			// The new life's own retry is refused while that message is there: it comes once, and its sender gets an
			// error.
			t.refused(retry(7, 2, Content("own")), scheduler.AddConflict, late, state)
		}
		again(message.StateWaiting)
		t.finish(message.StateDelivered, t.take(m))
		again(message.StateWaiting)
		t.now = late.Due
		claimed := t.claimFrom(t.bucketOf(late), "", wide, wide).Messages
		t.wantUIDs(claimed, []*message.Message{late})
		t.finish(message.StateDelivered, claimed...)
		again(message.StateDelivered)
	}},
	{name: "the doubt stays through all further lives", check: func(t *trial) {
		old := t.doubtful(Message(1, Named("order-1")))
		second := again(2, old)
		t.requeue(old.UID, second, scheduler.RequeueDone)
		if second = t.take(second); second.Mark != (message.Mark{Uncertain: true}) {
			t.Fatalf("claimed with %+v", second.Mark)
		}
		t.finish(message.StateDead, second)
		third := again(3, old)
		t.requeue(second.UID, third, scheduler.RequeueDone)
		t.wantInfo(live(third, message.StateWaiting, message.Mark{Uncertain: true}))
		points(t, third)
		t.finish(message.StateDelivered, t.take(third))
		if got := t.get(third.UID); got.Version != 2 {
			t.Fatalf("delivered, it has version %d", got.Version)
		}
	}},
	{name: "a push meets an uncertain message in its next life as before", check: func(t *trial) {
		old := t.doubtful(push(1, message.MergeReject))
		m := again(2, old)
		t.requeue(old.UID, m, scheduler.RequeueDone)
		t.refused(push(3, message.MergeReplace), scheduler.AddUncertain, m, message.StateWaiting)
		t.refused(push(4, message.MergeDebounce), scheduler.AddUncertain, m, message.StateWaiting)
		t.refused(push(5, message.MergeReject, Content("x")), scheduler.AddConflict, m, message.StateWaiting)
		next := t.one(push(6, message.MergeKeep))
		points(t, m, next)
		t.canceled(m.UID, scheduler.CancelMaybe)
		t.canceled(next.UID, scheduler.CancelDone)
	}},
	{name: "a message in its next life comes from the journal as it was recorded", check: func(t *trial) {
		for i, with := range [][]With{{}, {Named("order-1")}} {
			m := Message(i, append(with, DueIn(time.Hour))...)
			m.Mark.Uncertain = true
			t.restored([]record.RestoreCode{added}, recordOf(m, message.StateWaiting, 1))
			t.wantInfo(live(m, message.StateWaiting, message.Mark{Uncertain: true}))
			t.canceled(m.UID, scheduler.CancelMaybe)
		}
	}},
	{name: "purging ends what is dead, and returns which", check: func(t *trial) {
		plain, named := t.dead(Message(1, TTL(time.Minute), Headers("A", "b"))),
			t.dead(Message(2, In(0), Headers("A", "b")))
		waiting, flying := t.one(Message(3, DueIn(time.Hour))), t.take(Message(4))
		delivered, canceled, requeued := t.ended(Message(5), message.StateDelivered),
			t.ended(Message(6), message.StateCanceled), t.dead(Message(7))
		t.requeue(requeued.UID, again(8, requeued, DueIn(time.Hour)), scheduler.RequeueDone)
		t.pass(time.Second)
		t.purge(0, []message.UID{named.UID, waiting.UID, flying.UID, delivered.UID, canceled.UID, requeued.UID,
			plain.UID, Message(9).UID}, []message.UID{named.UID, plain.UID})
		t.wantInfo(settled(plain, t.now, false, Purged))
		t.wantInfo(settled(named, t.now, false, Purged))
		t.wantInfo(live(waiting, message.StateWaiting, changed(0)))
		t.wantInfo(live(flying, message.StateInFlight, changed(0)))
		t.canceled(plain.UID, scheduler.CancelDone)
		t.requeue(plain.UID, again(10, plain), scheduler.RequeueNotDead)
	}},
	{name: "what was purged under a name is a conflict, and free for what merges", check: func(t *trial) {
		old := t.dead(push(1, message.MergeReject))
		t.purge(t.bucketOf(old), []message.UID{old.UID}, []message.UID{old.UID})
		t.wantInfo(settled(old, t.now, false, Purged))
		t.refused(push(2, message.MergeReject), scheduler.AddConflict, old, message.StateCanceled)
		points(t, old)
		points(t, t.one(push(3, message.MergeReplace)))
	}},
	{name: "what was dead is forgotten like other ends", tune: oneBucket, check: func(t *trial) {
		one, two, three := t.dead(Message(1, Named("order-1"))), t.dead(Message(2)), t.dead(Message(3))
		m := again(4, one, DueIn(1000*time.Hour))
		t.pass(time.Minute)
		t.requeue(one.UID, m, scheduler.RequeueDone)
		t.pass(time.Second)
		t.purge(0, []message.UID{two.UID}, []message.UID{two.UID})
		t.pass(t.o.EndedKeep - time.Millisecond)
		t.wantTrimmed(0, wide, 1)
		t.gone(one.UID)
		points(t, m)
		t.purge(0, []message.UID{one.UID, two.UID}, []message.UID{two.UID})
		t.pass(time.Millisecond)
		t.wantTrimmed(0, wide, 1)
		t.gone(two.UID)
		t.wantState(three.UID, message.StateDead)
	}},
	{name: "the journal records requeue and purge", recorded: true, check: func(t *trial) {
		one, two, three := t.dead(Message(1)), t.dead(Message(2)), t.doubtful(Message(3, Named("order-1")))
		t.forgetRecorded()
		m := again(4, one, Headers("A", "b"), Retrying(0, time.Second))
		t.requeue(one.UID, m, scheduler.RequeueDone)
		change := record.Change{UID: one.UID, Version: 3, State: message.StateCanceled, At: t.now, Due: one.Due,
			Reason: RequeuedAs + string(m.UID)}
		t.wantRecorded(change, record.Change{UID: m.UID, Version: 1, State: message.StateWaiting, At: t.now,
			Due: m.Due, Reason: RequeueOf + string(one.UID), Message: m})
		t.purge(0, []message.UID{one.UID, two.UID}, []message.UID{two.UID})
		change.UID, change.Reason = two.UID, Purged
		t.wantRecorded(change)

		m = again(5, three, Headers("A", "b"), Retrying(0, time.Second))
		t.requeue(three.UID, m, scheduler.RequeueDone)
		change.UID, change.Uncertain, change.Bucket, change.Reason = three.UID, true, t.bucketOf(three),
			RequeuedAs+string(m.UID)
		t.wantRecorded(change, record.Change{UID: m.UID, Version: 1, State: message.StateWaiting, At: t.now,
			Bucket: t.bucketOf(m), Due: m.Due, Uncertain: true,
			Reason: RequeueOf + string(three.UID) + MaybeSeen, Message: m})
	}},
	{name: "a record of one that was dealt with is restored over the dead", check: func(t *trial) {
		for i, with := range [][]With{{}, {Named("order-1")}} {
			old := t.dead(Message(i, with...))
			r := recordOf(old, message.StateCanceled, 3)
			r.Reason = Purged
			// Nothing else is restored over it.
			t.restored([]record.RestoreCode{newer}, recordOf(old, message.StateWaiting, 7))
			t.restored([]record.RestoreCode{same}, recordOf(old, message.StateCanceled, 2))
			t.restored([]record.RestoreCode{raised}, r)
			if got := t.get(old.UID); got.State != message.StateCanceled || got.Version != 3 || len(got.Body) > 0 {
				t.Fatalf("it is %s", describe(got))
			}
			bucket := t.bucketOf(old)
			if page := t.browse(bucket, scheduler.Browse{Dead: true, Limit: 10}); len(page) > 0 {
				t.Fatalf("%d are dead", len(page))
			}
			if c := t.counts(old.Topic); c != (scheduler.TopicCount{Topic: old.Topic}) {
				t.Fatalf("counted as %+v", c)
			}
			t.requeue(old.UID, again(10+i, old), scheduler.RequeueNotDead)
			t.pass(t.o.EndedKeep + time.Second)
			t.wantTrimmed(bucket, 10, 1)
			t.gone(old.UID)
			if i == 1 {
				t.one(Message(20, with...))
			}
		}
	}},
	{name: "a message does not come back in another bucket", check: func(t *trial) {
		old := t.dead(Message(1))
		if r, err := t.tl.Requeue(t.Context(), old.UID, 0, Message(2, In(1)), t.now); err == nil {
			t.Fatalf("it was %s", requeueWord(r.Code))
		}
		t.wantState(old.UID, message.StateDead)
	}},
}
