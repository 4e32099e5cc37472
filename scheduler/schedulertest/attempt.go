package schedulertest

import (
	"fmt"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// retry returns a consumer's retry of the message called order-1.
func retry(n int, attempt uint32, with ...With) *message.Message {
	return Message(n, append(with, Named("order-1"), Attempt(attempt))...)
}

// points checks that the name order-1 points to these messages and to no other.
func points(t *trial, to ...*message.Message) {
	t.Helper()
	for _, ref := range []scheduler.Ref{{ID: "order-1"}, {ID: "order-1", Keyed: true}} {
		var found []*message.Message
		for _, i := range t.find(ref) {
			found = append(found, &i.Message)
		}
		t.wantUIDs(found, to)
	}
}

const (
	isNew       = scheduler.Added
	isDuplicate = scheduler.AddDuplicate
	isConflict  = scheduler.AddConflict
)

// namedPush is a push that does not merge, with its outcome for each state of the last message under its name. The
// attempts before the last were delivered, and each had its own content.
type namedPush struct {
	push    string
	last    uint32 // the attempt of the last message
	attempt uint32 // the attempt of the push
	content uint32 // the attempt whose content the push has; 0 is other content
	// What the push is where the last message waits, waits uncertain, is in flight, was delivered, or ended otherwise.
	waits, uncertain, inFlight, delivered, otherwise scheduler.AddCode
}

var namedPushes = []namedPush{
	{"the same push again", 1, 1, 1, isDuplicate, isDuplicate, isDuplicate, isDuplicate, isConflict},
	{"other content", 1, 1, 0, isConflict, isConflict, isConflict, isConflict, isConflict},
	{"a retry with the same content", 1, 2, 1, isDuplicate, isNew, isNew, isNew, isConflict},
	{"a retry with other content", 1, 2, 0, isConflict, isNew, isNew, isNew, isConflict},
	{"the first push again", 3, 1, 1, isDuplicate, isDuplicate, isDuplicate, isDuplicate, isConflict},
	{"a first push with other content", 3, 1, 0, isConflict, isConflict, isConflict, isConflict, isConflict},
	// A consumer that lost the answer to a retry sends it again, and must learn that the retry was stored.
	{"an earlier retry again", 3, 2, 2, isDuplicate, isDuplicate, isDuplicate, isDuplicate, isDuplicate},
	{"an earlier retry with other content", 3, 2, 0, isConflict, isConflict, isConflict, isConflict, isConflict},
	{"the last retry again", 3, 3, 3, isDuplicate, isDuplicate, isDuplicate, isDuplicate, isDuplicate},
	{"the last retry with other content", 3, 3, 0, isConflict, isConflict, isConflict, isConflict, isConflict},
	{"the next retry with the same content", 3, 4, 3, isDuplicate, isNew, isNew, isNew, isConflict},
	{"the next retry with other content", 3, 4, 0, isConflict, isNew, isNew, isNew, isConflict},
}

// try adds the push where the last message under its name, order-1 within a key of its own, is in a state.
func (p *namedPush) try(t *trial, n int, is message.State, uncertain bool, want scheduler.AddCode) {
	t.Helper()
	key := Keyed(fmt.Sprint(n))
	of := func(place int, attempt, content uint32) *message.Message {
		return retry(10*n+place, attempt, key, Content(fmt.Sprint("content ", content)))
	}
	for earlier := uint32(1); earlier < p.last; earlier++ {
		t.ended(of(int(earlier), earlier, earlier), message.StateDelivered)
	}
	m := of(int(p.last), p.last, p.last)
	if uncertain {
		m = t.take(m)
		t.giveBack(m, m.Score(), message.Mark{Uncertain: true, Lane: "stream"})
	} else {
		t.brought(m, is)
	}
	stands := t.get(m.UID)
	t.pass(time.Second)
	push := of(9, p.attempt, p.content)
	push.Due = t.now.Add(time.Hour)
	if want == isNew {
		t.one(push)
		t.wantInfo(live(push, message.StateWaiting, message.Mark{}))
	} else {
		first := t.refused(push, want, m, is)
		if first.EndedAt != stands.EndedAt || first.Version != stands.Version {
			t.Errorf("%s, where the last is %s, answers with %s", p.push, is, describe(first))
		}
		t.gone(push.UID)
	}
	t.wantInfo(stands)
	named := []message.UID{m.UID}
	switch {
	case want == isNew && is.Ended():
		named = []message.UID{push.UID}
	case want == isNew:
		named = append(named, push.UID)
	}
	t.wantFound(scheduler.Ref{ID: "order-1", Key: push.Key, Keyed: true}, named...)
}

var attemptPromises = []promise{
	{name: "a push under a name is judged by attempt, content, and what became of the last", check: func(t *trial) {
		for i, p := range namedPushes {
			p.try(t, 10*i, message.StateWaiting, false, p.waits)
			p.try(t, 10*i+1, message.StateWaiting, true, p.uncertain)
			p.try(t, 10*i+2, message.StateInFlight, false, p.inFlight)
			p.try(t, 10*i+3, message.StateDelivered, false, p.delivered)
			p.try(t, 10*i+4, message.StateCanceled, false, p.otherwise)
			p.try(t, 10*i+5, message.StateExpired, false, p.otherwise)
			p.try(t, 10*i+6, message.StateDead, false, p.otherwise)
		}
	}},
	{name: "a name leads to every attempt that lives, and to the last one", check: func(t *trial) {
		first, uncertain := t.take(retry(1, 1)), message.Mark{Uncertain: true}
		second := t.take(retry(2, 2, Content("second")))
		third := t.one(retry(3, 3, DueIn(time.Hour)))
		points(t, first, second, third)
		t.giveBack(first, first.Score(), uncertain)
		t.finish(message.StateDelivered, second)
		points(t, first, second, third)
		t.refused(retry(4, 3), scheduler.AddConflict, third, message.StateWaiting)
		t.refused(retry(4, 2, Content("second")), scheduler.AddDuplicate, third, message.StateWaiting)
		t.now = third.Due
		claimed := t.claimFrom(t.bucketOf(first), "", wide, wide).Messages
		t.wantUIDs(claimed, []*message.Message{first, third})
		fourth := t.one(retry(5, 4))
		points(t, first, third, fourth) // the second has ended
		t.finish(message.StateDelivered, claimed[0])
		t.pass(t.o.EndedKeep)
		t.trim(t.bucketOf(first), wide)
		points(t, third, fourth) // the first is forgotten
	}},
	{name: "a batch may hold a retry of what waits uncertain, and its retry", check: func(t *trial) {
		first := t.take(retry(1, 1))
		t.giveBack(first, first.Score(), message.Mark{Uncertain: true})
		batch := []*message.Message{retry(2, 2, Content("a")), retry(3, 3, Content("b")), retry(4, 2, Content("a"))}
		t.wantAdded(batch, batch[0], scheduler.Added, scheduler.AddConflict, scheduler.AddDuplicate)
		points(t, first, batch[0])
	}},
	{name: "a lower attempt that is not known, or not any more, is a conflict", check: func(t *trial) {
		second := t.one(retry(1, 2, Content("b"))) // nobody saw the first
		for _, content := range []string{"a", "b"} {
			t.refused(retry(2, 1, Content(content)), scheduler.AddConflict, second, message.StateWaiting)
		}
		t.finish(message.StateDelivered, t.take(second))
		third := t.one(retry(3, 3, Content("c")))
		t.refused(retry(4, 2, Content("b")), scheduler.AddDuplicate, third, message.StateWaiting)
		t.pass(t.o.EndedKeep)
		t.trim(t.bucketOf(third), wide)
		t.refused(retry(4, 2, Content("b")), scheduler.AddConflict, third, message.StateWaiting)
		points(t, third)
	}},
	{name: "the attempts that a lower one is judged by are bounded", check: func(t *trial) {
		const attempts = 40
		var last *message.Message
		for n := uint32(1); n <= attempts; n++ {
			last = t.ended(retry(int(n), n, Content(fmt.Sprint(n))), message.StateDelivered)
		}
		for _, n := range []uint32{attempts - 1, attempts - 32} {
			t.refused(retry(100, n, Content(fmt.Sprint(n))), scheduler.AddDuplicate, last, message.StateDelivered)
		}
		t.refused(retry(100, attempts-34, Content(fmt.Sprint(attempts-34))), scheduler.AddConflict, last,
			message.StateDelivered)
	}},
	{name: "a batch may hold a retry and its retry", check: func(t *trial) {
		t.ended(retry(1, 1), message.StateDelivered)
		batch := []*message.Message{retry(2, 2, Content("a")), retry(3, 3, Content("b")), retry(4, 2, Content("c")),
			retry(5, 3, Content("a"))}
		t.wantAdded(batch, batch[0], scheduler.Added, scheduler.AddConflict, scheduler.AddConflict,
			scheduler.AddDuplicate)
		points(t, batch[0])
	}},
}
