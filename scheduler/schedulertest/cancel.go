package schedulertest

import (
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

var cancelPromises = []promise{
	{name: "a waiting message is canceled, and nobody sees it", check: func(t *trial) {
		plain, named := t.one(Message(1)), t.one(Message(2, Named("order-1")))
		info := t.canceled(plain.UID, scheduler.CancelDone)
		if info.State != message.StateCanceled || info.EndedAt != t.now || info.Due != plain.Due ||
			info.Version != 2 || info.Mark.Uncertain {
			t.Fatalf("cancel answers with %s", describe(info))
		}
		t.canceled(named.UID, scheduler.CancelDone)
		t.wantInfo(remains(plain, message.StateCanceled, t.now, false, ""))
		t.wantInfo(remains(named, message.StateCanceled, t.now, false, ""))
		for b, h := range t.heads() {
			if h.Due != 0 || h.Waiting != 0 {
				t.Errorf("bucket %d: head is %+v", b, h)
			}
			if got := t.claimFrom(b, "", wide, wide).Messages; len(got) != 0 {
				t.Errorf("bucket %d gave %v", b, uids(got))
			}
		}
	}},
	{name: "a cancel takes one message and leaves its neighbours", check: func(t *trial) {
		all := t.added(Message(1), Message(2), Message(3))
		t.canceled(all[1].UID, scheduler.CancelDone)
		t.wantUIDs(t.claim(), []*message.Message{all[0], all[2]})
	}},
	{name: "a cancel repeated answers as the first did", check: func(t *trial) {
		m := t.one(Message(1))
		t.canceled(m.UID, scheduler.CancelDone)
		first := t.now
		t.pass(time.Minute)
		if info := t.canceled(m.UID, scheduler.CancelDone); info.EndedAt != first ||
			info.State != message.StateCanceled {
			t.Fatalf("the repeat answers with %s, want the end at %d", describe(info), first)
		}
		t.wantInfo(remains(m, message.StateCanceled, first, false, ""))
	}},
	{name: "a message in flight is not canceled", check: func(t *trial) {
		m := t.take(Message(1))
		for range 2 {
			if info := t.canceled(m.UID, scheduler.CancelInFlight); info.State != message.StateInFlight ||
				info.Due != m.Due {
				t.Fatalf("cancel answers with %s", describe(info))
			}
		}
		t.wantInfo(live(m, message.StateInFlight, message.Mark{}))
		t.finish(message.StateDelivered, m)
		t.wantInfo(remains(m, message.StateDelivered, t.now, false, "the test says delivered"))
	}},
	{name: "an uncertain message is canceled as maybe delivered, again and again", check: func(t *trial) {
		m := t.take(Message(1, Named("order-1")))
		t.giveBack(m, m.Score(), message.Mark{Uncertain: true, Refusals: 4})
		at := t.now
		for range 3 {
			info := t.canceled(m.UID, scheduler.CancelMaybe)
			if info.State != message.StateCanceled || !info.Mark.Uncertain || info.EndedAt != at {
				t.Fatalf("cancel answers with %s", describe(info))
			}
			t.pass(time.Second)
		}
		t.wantInfo(remains(m, message.StateCanceled, at, true, ""))
		if got := t.claimFrom(t.bucketOf(m), "", wide, wide).Messages; len(got) != 0 {
			t.Fatal("it was tried again")
		}
	}},
	{name: "a message swept from a dead leader is canceled as maybe delivered", check: func(t *trial) {
		m := t.take(Message(1))
		t.term++
		t.sweep(0, 10)
		t.canceled(m.UID, scheduler.CancelMaybe)
		m.Mark.Changes++ // the sweep
		t.wantInfo(remains(m, message.StateCanceled, t.now, true, ""))
	}},
	{name: "a message that was returned unsent is canceled for certain", check: func(t *trial) {
		m := t.take(Message(1))
		t.must(
			"return",
			t.tl.Return(t.Context(), 0, scheduler.Leader(t.term),
				[]scheduler.Back{{UID: m.UID, Claim: m.Claim, Keep: true}}, t.now),
		)
		t.canceled(m.UID, scheduler.CancelDone)
	}},
	{name: "a parked message is canceled by its uid alone", check: func(t *trial) {
		t.added(Message(1), Message(2), Message(3))
		all := t.claim()
		t.giveBack(all[0], all[0].Score(), message.Mark{Lane: "stream"})
		t.giveBack(all[1], all[1].Score(), message.Mark{Lane: "stream"})
		t.giveBack(all[2], all[2].Score(), message.Mark{Lane: "core:orders.3", Uncertain: true})
		t.canceled(all[0].UID, scheduler.CancelDone)
		t.canceled(all[2].UID, scheduler.CancelMaybe)
		t.wantInfo(remains(all[0], message.StateCanceled, t.now, false, ""))
		t.wantInfo(remains(all[2], message.StateCanceled, t.now, true, ""))
		if lanes := t.lanes(0); len(lanes) != 1 || lanes[0] != "stream" {
			t.Fatalf("lanes are %q, want only the one that still holds a message", lanes)
		}
		t.wantUIDs(t.claimFrom(0, "stream", wide, wide).Messages, all[1:2])
		t.wantUIDs(t.claimFrom(0, "core:orders.3", wide, wide).Messages, nil)
	}},
	{name: "a message that ended otherwise is shown as it ended", check: func(t *trial) {
		for i, s := range []message.State{message.StateDelivered, message.StateExpired, message.StateDead} {
			m := t.ended(Message(i), s)
			at := t.now
			t.pass(time.Second)
			for range 2 {
				if info := t.canceled(m.UID, scheduler.CancelEnded); info.State != s || info.EndedAt != at ||
					info.Version != 2 {
					t.Errorf("cancel of a %s message answers with %s", s, describe(info))
				}
			}
			if got := t.get(m.UID).State; got != s {
				t.Errorf("the %s message is %s after a cancel", s, got)
			}
		}
	}},
	{name: "a uid that nobody has is unknown, and stays so", check: func(t *trial) {
		m := Message(1)
		t.canceled(m.UID, scheduler.CancelUnknown)
		t.canceled(m.UID, scheduler.CancelUnknown)
		t.gone(m.UID)
		t.one(m) // a cancel by uid leaves nothing behind
	}},
	{name: "a canceled message is not accepted again under its uid", check: func(t *trial) {
		m := t.one(Message(1))
		t.canceled(m.UID, scheduler.CancelDone)
		t.pass(time.Second)
		if first := t.refused(m, scheduler.AddDuplicate, m, message.StateCanceled); first.EndedAt != Start ||
			first.Version != 2 {
			t.Fatalf("the duplicate answers with %s", describe(first))
		}
		if got := t.claim(); len(got) != 0 {
			t.Fatal("it came back to life")
		}
	}},
}
