package schedulertest

import (
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// leaderCalls lists all calls that carry a term, on bucket 0. m is claimed there.
var leaderCalls = []struct {
	name string
	call func(t *trial, term uint64, m *message.Message) error
}{
	{"begin", func(t *trial, term uint64, _ *message.Message) error {
		return t.tl.Begin(t.Context(), 0, term)
	}},
	{"sweep", func(t *trial, term uint64, _ *message.Message) error {
		_, err := t.tl.Sweep(t.Context(), 0, term, 0, 10, t.now)
		return err
	}},
	{"claim", func(t *trial, term uint64, _ *message.Message) error {
		_, err := t.tl.Claim(t.Context(), 0,
			scheduler.Claim{Term: term, Now: t.now, Limit: 10, Bytes: wide})
		return err
	}},
	{"claim from a lane", func(t *trial, term uint64, _ *message.Message) error {
		_, err := t.tl.Claim(t.Context(), 0,
			scheduler.Claim{Term: term, Now: t.now, Limit: 10, Bytes: wide, Lane: "stream"})
		return err
	}},
	{"finish", func(t *trial, term uint64, m *message.Message) error {
		err := t.tl.Finish(t.Context(), 0, term,
			[]scheduler.End{{Message: m, State: message.StateDelivered}}, t.now)
		return err
	}},
	{"return", func(t *trial, term uint64, m *message.Message) error {
		err := t.tl.Return(t.Context(), 0, term,
			[]scheduler.Back{{UID: m.UID, Claim: m.Claim, Score: m.Score()}}, t.now)
		return err
	}},
	{"return that keeps", func(t *trial, term uint64, m *message.Message) error {
		err := t.tl.Return(t.Context(), 0, term,
			[]scheduler.Back{{UID: m.UID, Claim: m.Claim, Keep: true}}, t.now)
		return err
	}},
	{"held", func(t *trial, term uint64, _ *message.Message) error {
		_, err := t.tl.Held(t.Context(), 0, term, "", 10)
		return err
	}},
	{"trim", func(t *trial, term uint64, _ *message.Message) error {
		_, err := t.tl.Trim(t.Context(), 0, term, t.now, 10)
		return err
	}},
}

// recoveryCalls lists the calls of a recovering leader, on bucket 0. It leaves out Begin and Reclaim, which raise the
// term, and Certify, which requires it to be the bucket's.
var recoveryCalls = []struct {
	name string
	call func(t *trial, r record.Recovering) error
}{
	{"restore", func(t *trial, r record.Recovering) error {
		_, err := r.Restore(t.Context(), 0,
			[]record.Record{recordOf(Message(50), message.StateWaiting, 1)}, t.now, t.now)
		return err
	}},
	{"versions", func(t *trial, r record.Recovering) error {
		_, err := r.Versions(t.Context(), 0, []message.UID{Message(1).UID})
		return err
	}},
	{"claims", func(t *trial, r record.Recovering) error {
		_, err := r.Claims(t.Context(), 0, "", 10)
		return err
	}},
	{"pauses", func(t *trial, r record.Recovering) error {
		_, _, err := r.Pauses(t.Context())
		return err
	}},
	{"pause", func(t *trial, r record.Recovering) error {
		_, err := r.Pause(t.Context(), scheduler.Pause{Pattern: "orders.>", At: t.now, By: "journal"})
		return err
	}},
	{"resume", func(t *trial, r record.Recovering) error {
		_, _, err := r.Resume(t.Context(), "orders.*", t.now)
		return err
	}},
	{"unwritten", func(t *trial, r record.Recovering) error {
		_, err := r.Unwritten(t.Context(), 0, "", 0, 10, wide)
		return err
	}},
	{"written", func(t *trial, r record.Recovering) error {
		return r.Written(t.Context(), 0, []record.Entry{{ID: "1-1"}})
	}},
	{"quarantine", func(t *trial, r record.Recovering) error {
		return r.Quarantine(t.Context(), record.Quarantined{ID: "1-1"})
	}},
	{"quarantined", func(t *trial, r record.Recovering) error {
		_, _, err := r.Quarantined(t.Context(), 0, "")
		return err
	}},
}

var termPromises = []promise{
	{name: "a lower term is refused in every call of a recovery and changes nothing", check: func(t *trial) {
		t.term = 9
		claimed := t.take(Message(1))
		old, paused := t.recovering(), scheduler.Pause{Pattern: "orders.*", At: t.now, By: "ann"}
		_, err := t.tl.Pause(t.Context(), paused)
		t.must("pause", err)
		t.term = 10
		t.must("begin", t.tl.Begin(t.Context(), 0, t.term))
		for range 2 {
			for _, c := range recoveryCalls {
				t.stale(c.name, c.call(t, old))
			}
			_, err = old.Reclaim(t.Context(), 0, 9, 10, t.now)
			t.stale("reclaim", err)
			t.stale("begin", old.Begin(t.Context(), 0, 9))
			t.stale("certify", old.Certify(t.Context(), 0, 9, record.Certification{Number: 1 << 40, Run: "0123"}))
		}
		t.gone(Message(50).UID)
		t.wantInfo(live(claimed, message.StateInFlight, message.Mark{}))
		list, _, err := t.tl.Pauses(t.Context())
		t.must("pauses", err)
		if len(list) != 1 || list[0].Pattern != paused.Pattern {
			t.Fatalf("paused are %+v", list)
		}
	}},
	{name: "an equal or higher term goes on in every call of a recovery, and does not raise it", check: func(t *trial) {
		t.take(Message(1))
		t.must("begin", t.tl.Begin(t.Context(), 0, 5))
		for _, t.term = range []uint64{5, 7} {
			r := t.recovering()
			for _, c := range recoveryCalls {
				t.must(c.name, c.call(t, r))
				t.must(c.name+" again", c.call(t, r))
			}
		}
		if got := t.heads()[0].Term; got != 5 {
			t.Fatalf("the term is %d", got)
		}
	}},
	{name: "a lower term is refused in every call and changes nothing", check: func(t *trial) {
		old := t.ended(Message(1), message.StateDelivered)
		t.term = 9
		claimed := t.take(Message(2))
		t.added(Message(3), Message(4))
		both := t.claim()
		waiting, parked := both[0], both[1]
		t.giveBack(parked, parked.Score(), message.Mark{Lane: "stream"})
		t.giveBack(waiting, waiting.Score(), message.Mark{})
		t.pass(t.o.EndedKeep)
		head := t.heads()[0]
		for _, c := range leaderCalls {
			for _, term := range []uint64{8, 1} {
				t.stale(c.name, c.call(t, term, claimed))
			}
		}
		if now := t.heads()[0]; now != head {
			t.Errorf("the head was %+v and is %+v", head, now)
		}
		t.wantInfo(remains(old, message.StateDelivered, Start, false, "the test says delivered"))
		t.wantInfo(live(claimed, message.StateInFlight, message.Mark{}))
		t.wantInfo(live(waiting, message.StateWaiting, message.Mark{}))
		t.wantInfo(live(parked, message.StateWaiting, message.Mark{Lane: "stream"}))
	}},
	{name: "a higher term is taken over in every call", check: func(t *trial) {
		m := t.take(Message(1))
		for i, c := range leaderCalls {
			term := uint64(10 * (i + 1))
			t.must(c.name, c.call(t, term, m))
			if got := t.heads()[0].Term; got != term {
				t.Errorf("after %s under %d the term is %d", c.name, term, got)
			}
			for _, other := range leaderCalls {
				t.stale(other.name+" after "+c.name, other.call(t, term-1, m))
			}
		}
	}},
	{name: "an equal term goes on in every call", check: func(t *trial) {
		m := t.take(Message(1))
		t.must("begin", t.tl.Begin(t.Context(), 0, 5))
		for _, c := range leaderCalls {
			t.must(c.name, c.call(t, 5, m))
			t.must(c.name+" again", c.call(t, 5, m))
		}
	}},
	{name: "terms up to 2^53 are distinguished", check: func(t *trial) {
		const high = 1<<53 - 1
		t.must("begin", t.tl.Begin(t.Context(), 0, high))
		t.stale("begin", t.tl.Begin(t.Context(), 0, high-1))
		t.term = high
		m := t.take(Message(1))
		if held := t.held("", 10); len(held) != 1 || held[0] != m.UID {
			t.Fatalf("held %v, want %s", held, m.UID)
		}
	}},
	{name: "any instance accepts, finds and cancels without a term", check: func(t *trial) {
		t.must("begin", t.tl.Begin(t.Context(), 0, 1<<40))
		m := t.one(Message(1, DueIn(time.Hour)))
		t.get(m.UID)
		t.canceled(m.UID, scheduler.CancelDone)
	}},
}
