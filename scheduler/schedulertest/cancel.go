package schedulertest

import (
	"fmt"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

var cancelPromises = []promise{
	{name: "what waits is canceled and never comes, and the answer says whether it may have come before",
		check: func(t *trial) {
			for i, way := range append([]comesBack{{name: "accepted"}}, waysBack...) {
				m := t.one(Message(i, Named(fmt.Sprintf("order-%d", i))))
				if way.do != nil {
					way.do(t, t.take(m))
				}
				stood := t.get(m.UID)
				want := remains(&stood.Message, message.StateCanceled, t.now, way.uncertain, "")
				code := scheduler.CancelDone
				if way.uncertain {
					code = scheduler.CancelMaybe
				}
				for range 3 {
					info := t.canceled(m.UID, code)
					if info.State != want.State || info.EndedAt != want.EndedAt || info.Version != want.Version ||
						info.Due != want.Due || info.Mark.Uncertain != want.Mark.Uncertain {
						t.Fatalf("%s: cancel answers with %s", way.name, describe(info))
					}
					t.wantInfo(want)
					t.pass(time.Second)
				}
				t.wantHead(t.bucketOf(m), scheduler.Head{})
				t.wantLanes(t.bucketOf(m))
				t.wantUIDs(t.claimFrom(t.bucketOf(m), "", wide, wide).Messages, nil)
			}
		}},
	{name: "what is in flight or has ended is shown as it stands, and not canceled", check: func(t *trial) {
		for i, s := range []message.State{message.StateInFlight, message.StateDelivered, message.StateExpired,
			message.StateDead} {
			m, code := Message(i), scheduler.CancelEnded
			if s == message.StateInFlight {
				code = scheduler.CancelInFlight
			}
			t.brought(m, s)
			stands := t.get(m.UID)
			t.pass(time.Second)
			for range 2 {
				if info := t.canceled(m.UID, code); info.State != s || info.EndedAt != stands.EndedAt ||
					info.Version != stands.Version || info.Due != m.Due {
					t.Errorf("cancel of a message that is %s answers with %s", s, describe(info))
				}
			}
			t.wantInfo(stands)
		}
	}},
	{name: "a cancel takes one message and leaves its neighbours", check: func(t *trial) {
		all := t.added(Message(1), Message(2), Message(3))
		t.canceled(all[1].UID, scheduler.CancelDone)
		t.wantUIDs(t.claim(), []*message.Message{all[0], all[2]})
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
		t.wantLanes(0, "stream") // the one that still holds a message
		t.wantUIDs(t.claimFrom(0, "stream", wide, wide).Messages, all[1:2])
		t.wantUIDs(t.claimFrom(0, "core:orders.3", wide, wide).Messages, nil)
	}},
	{name: "a uid that nobody has is unknown, and stays so", check: func(t *trial) {
		m := Message(1)
		t.canceled(m.UID, scheduler.CancelUnknown)
		t.canceled(m.UID, scheduler.CancelUnknown)
		t.gone(m.UID)
		t.one(m) // a cancel by uid leaves nothing behind
	}},
}
