package schedulertest

import (
	"fmt"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// retry is a consumer's retry of the message called order-1.
func retry(n int, attempt uint32, with ...With) *message.Message {
	return Message(n, append(with, Named("order-1"), Attempt(attempt))...)
}

// points wants the name order-1 to point to these messages and no other.
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

var attemptPromises = []promise{
	{name: "a consumer's retry of a delivered message is a new one under the name", check: func(t *trial) {
		first := t.ended(retry(1, 1), message.StateDelivered)
		second := t.one(retry(2, 2, DueIn(time.Minute)))
		points(t, second)
		t.wantInfo(remains(first, message.StateDelivered, Start, false, "the test says delivered"))
		t.wantInfo(live(second, message.StateWaiting, message.Mark{}))
	}},
	{name: "a retry with the same content is new too", check: func(t *trial) {
		t.ended(retry(1, 1, Content("a")), message.StateDelivered)
		points(t, t.one(retry(2, 2, Content("a"))))
	}},
	{name: "a retry may come while the message is still in flight", check: func(t *trial) {
		first := t.take(retry(1, 1))
		second := t.one(retry(2, 2))
		points(t, first, second)
		t.finish(message.StateDelivered, first)
		t.wantInfo(remains(first, message.StateDelivered, t.now, false, "the test says delivered"))
		points(t, first, second)
		t.wantUIDs(t.claimFrom(t.bucketOf(second), "", wide, wide).Messages, []*message.Message{second})
	}},
	{name: "a retry may come of a message that waits uncertain", check: func(t *trial) {
		first := t.take(retry(1, 1))
		t.giveBack(first, first.Score(), message.Mark{Uncertain: true, Lane: "stream"})
		second := t.one(retry(2, 2))
		points(t, first, second)
		t.canceled(first.UID, scheduler.CancelMaybe) // the first is still there, by its uid
		t.canceled(second.UID, scheduler.CancelDone)
	}},
	{name: "a name leads to every attempt that lives, and to the last one", check: func(t *trial) {
		first, uncertain := t.take(retry(1, 1)), message.Mark{Uncertain: true}
		second := t.take(retry(2, 2, Content("second")))
		third := t.one(retry(3, 3, DueIn(time.Hour)))
		points(t, first, second, third)
		t.giveBack(first, first.Score(), uncertain)
		t.finish(message.StateDelivered, second)
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
		want := []scheduler.AddCode{scheduler.Added, scheduler.AddConflict, scheduler.AddDuplicate}
		for i, r := range t.add(batch...) {
			if r.Code != want[i] {
				t.Errorf("message %d: got %s, want %s", i, addWord(r.Code), addWord(want[i]))
			}
		}
		points(t, first, batch[0])
	}},
	{name: "a higher attempt of a message that nobody can have seen is judged by content", check: func(t *trial) {
		first := t.one(retry(1, 1, Content("a")))
		t.refused(retry(2, 2, Content("a")), scheduler.AddDuplicate, first, message.StateWaiting)
		t.refused(retry(3, 2, Content("b")), scheduler.AddConflict, first, message.StateWaiting)
		points(t, first)
	}},
	{name: "an equal attempt is judged by content", check: func(t *trial) {
		t.ended(retry(1, 1), message.StateDelivered)
		second := t.one(retry(2, 2, Content("a")))
		t.refused(retry(3, 2, Content("a")), scheduler.AddDuplicate, second, message.StateWaiting)
		t.refused(retry(4, 2, Content("b")), scheduler.AddConflict, second, message.StateWaiting)
		second = t.take(second)
		t.refused(retry(4, 2, Content("b")), scheduler.AddConflict, second, message.StateInFlight)
		t.finish(message.StateDelivered, second)
		t.refused(retry(3, 2, Content("a")), scheduler.AddDuplicate, second, message.StateDelivered)
		t.refused(retry(4, 2, Content("b")), scheduler.AddConflict, second, message.StateDelivered)
	}},
	{name: "a lower attempt is an old push that comes again", check: func(t *trial) {
		t.ended(retry(1, 1, Content("a")), message.StateDelivered)
		second := t.one(retry(2, 2, Content("b")))
		old := retry(3, 1, Content("a"))
		t.refused(old, scheduler.AddDuplicate, second, message.StateWaiting)
		second = t.take(second)
		t.refused(old, scheduler.AddDuplicate, second, message.StateInFlight)
		t.finish(message.StateDelivered, second)
		t.refused(old, scheduler.AddDuplicate, second, message.StateDelivered)
		t.gone(old.UID)
	}},
	{name: "a lower attempt with other content is a conflict", check: func(t *trial) {
		second := t.one(retry(1, 2, Content("b"))) // nobody saw the first
		for range 2 {
			t.refused(retry(2, 1, Content("a")), scheduler.AddConflict, second, message.StateWaiting)
			t.refused(retry(3, 1, Content("b")), scheduler.AddConflict, second, message.StateWaiting)
		}
		second = t.take(second)
		t.refused(retry(2, 1, Content("a")), scheduler.AddConflict, second, message.StateInFlight)
		third := t.one(retry(4, 3, Content("c")))
		t.finish(message.StateDelivered, second)
		fourth := t.take(third)
		t.finish(message.StateDelivered, fourth)
		last := t.one(retry(5, 4, Content("d")))
		for _, n := range []uint32{2, 3} {
			t.refused(retry(6, n, Content("a")), scheduler.AddConflict, last, message.StateWaiting)
			t.refused(retry(7, n, Content(string(rune('a'+n-1)))), scheduler.AddDuplicate, last, message.StateWaiting)
		}
		points(t, last)
		t.pass(t.o.EndedKeep)
		t.trim(t.bucketOf(last), wide)
		t.refused(retry(7, 2, Content("b")), scheduler.AddConflict, last, message.StateWaiting) // it is forgotten
		points(t, last)
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
	{name: "after another end only a retry that was stored is a duplicate", check: func(t *trial) {
		for i, state := range []message.State{message.StateCanceled, message.StateExpired, message.StateDead} {
			name, n := Named(state.String()), 10*i
			given := func(n int, attempt uint32, with ...With) *message.Message {
				return Message(n, append(with, name, Attempt(attempt))...)
			}
			t.ended(given(n+1, 1), message.StateDelivered)
			t.ended(given(n+2, 2, Content("b")), message.StateDelivered)
			third := t.ended(given(n+3, 3, Content("a")), state)
			// Who sent it back and lost the answer sends it back again, and must learn that it need not.
			t.refused(given(n+4, 3, Content("a")), scheduler.AddDuplicate, third, state)
			t.refused(given(n+4, 2, Content("b")), scheduler.AddDuplicate, third, state)
			t.refused(given(n+4, 3, Content("b")), scheduler.AddConflict, third, state)
			t.refused(given(n+4, 4, Content("a")), scheduler.AddConflict, third, state)
			t.refused(given(n+4, 1, Content("a")), scheduler.AddConflict, third, state)
			t.gone(given(n+4, 1).UID)
		}
	}},
	{name: "a batch may hold a retry and its retry", check: func(t *trial) {
		t.ended(retry(1, 1), message.StateDelivered)
		batch := []*message.Message{retry(2, 2, Content("a")), retry(3, 3, Content("b")), retry(4, 2, Content("c")),
			retry(5, 3, Content("a"))}
		want := []scheduler.AddCode{scheduler.Added, scheduler.AddConflict, scheduler.AddConflict,
			scheduler.AddDuplicate}
		for i, r := range t.add(batch...) {
			if r.Code != want[i] || i > 0 && r.First.UID != batch[0].UID {
				t.Errorf("message %d: got %s of %s, want %s of %s", i, addWord(r.Code), r.First.UID,
					addWord(want[i]), batch[0].UID)
			}
		}
		points(t, batch[0])
	}},
}
