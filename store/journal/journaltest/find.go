package journaltest

import (
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

var findPromises = []promise{
	{"a name is looked up in all keys, or in one", func(t *trial) {
		plain, a, b := newMessage(1, id("order-1")), newMessage(2, id("order-1"), key("a")),
			newMessage(3, id("order-1"), key("b"))
		other := newMessage(4, id("order-2"), key("a"))
		t.write(accepted(plain, a, b, other)...)
		t.wantUIDs(t.find(scheduler.Ref{ID: "order-1"}), b, a, plain)
		t.wantUIDs(t.find(scheduler.Ref{ID: "order-1", Keyed: true}), plain)
		t.wantUIDs(t.find(scheduler.Ref{ID: "order-1", Key: "a", Keyed: true}), a)
		t.wantUIDs(t.find(scheduler.Ref{ID: "order-1", Key: "c", Keyed: true}))
		t.wantUIDs(t.find(scheduler.Ref{ID: "order-3"}))
		t.wantUIDs(t.find(scheduler.Ref{}))
		t.wantUIDs(t.find(scheduler.Ref{Key: "a", Keyed: true}))
	}},
	{"a name is looked up on all topics, on one, or on those that the viewer may see", func(t *trial) {
		mail, pay := newMessage(1, id("order-1"), topic("mail.x")),
			newMessage(2, id("order-1"), topic("payments.x"), key("a"))
		again := newMessage(3, id("order-1"), topic("mail.x"))
		t.write(accepted(mail, pay, again)...)
		t.wantUIDs(t.find(scheduler.Ref{ID: "order-1"}), again, pay, mail)
		t.wantUIDs(t.find(scheduler.Ref{ID: "order-1", Topic: "mail.x"}), again, mail)
		t.wantUIDs(t.find(scheduler.Ref{ID: "order-1", Topic: "mail.x", Key: "a", Keyed: true}))
		t.wantUIDs(t.find(scheduler.Ref{ID: "order-1", Topic: "payments.x", Key: "a", Keyed: true}), pay)
		t.wantUIDs(t.find(scheduler.Ref{ID: "order-1", Topic: "mail"}))
		t.wantUIDs(t.find(scheduler.Ref{UID: mail.UID, Topic: "mail.x"}), mail)
		t.wantUIDs(t.find(scheduler.Ref{UID: mail.UID, Topic: "payments.x"}))
		viewer := &scheduler.Viewer{Topics: []string{"payments.>", "x"}}
		t.wantUIDs(t.find(scheduler.Ref{ID: "order-1", Viewer: viewer}), pay)
		t.wantUIDs(t.find(scheduler.Ref{ID: "order-1", Topic: "mail.x", Viewer: viewer}))
		t.wantUIDs(t.find(scheduler.Ref{UID: mail.UID, Viewer: viewer}))
		t.wantUIDs(t.find(scheduler.Ref{ID: "order-1", Viewer: &scheduler.Viewer{}}))
	}},
	{"what the viewer may not see takes none of the room", func(t *trial) {
		own := newMessage(1, id("again"), topic("payments.x"))
		all := []*message.Message{own}
		for i := range 1200 {
			all = append(all, newMessage(2+i, id("again"), topic("mail.x")))
		}
		t.write(accepted(all...)...)
		found, err := t.j.Find(t.Context(),
			scheduler.Ref{ID: "again", Viewer: &scheduler.Viewer{Topics: []string{"payments.*"}}}, 3)
		t.must("find", err)
		t.wantUIDs(found, own)
	}},
	{"a uid is looked up alone", func(t *trial) {
		m := newMessage(1, id("order-1"))
		t.write(accepted(m, newMessage(2, id("order-1")))...)
		t.wantUIDs(t.find(scheduler.Ref{UID: m.UID}), m)
		for _, uid := range []message.UID{newMessage(3).UID, m.UID + " ", m.UID[:17], "'", "t-"} {
			t.wantUIDs(t.find(scheduler.Ref{UID: uid}))
		}
	}},
	{"what is found comes without headers and body", func(t *trial) {
		m := newMessage(1, id("order-1"))
		end := became(m, 2, message.StateDelivered, start)
		t.write(accept(m), end)
		t.wantRecords(t.find(scheduler.Ref{ID: "order-1"}), without(recorded(accept(m), end)))
		t.wantRecords(t.find(scheduler.Ref{UID: m.UID}), without(recorded(accept(m), end)))
	}},
	{"the latest accepted come first, up to a limit", func(t *trial) {
		var all []*message.Message
		for i := range 9 {
			all = append(all, newMessage(i, id("again")))
		}
		t.write(accepted(all[4], all[0], all[8], all[5], all[1], all[7], all[6], all[2], all[3])...)
		found, err := t.j.Find(t.Context(), scheduler.Ref{ID: "again"}, 3)
		t.must("find", err)
		t.wantUIDs(found, all[8], all[7], all[6])
		found, err = t.j.Find(t.Context(), scheduler.Ref{ID: "again"}, 0)
		t.must("find", err)
		t.wantUIDs(found)
	}},
}
