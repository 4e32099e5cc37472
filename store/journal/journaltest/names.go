package journaltest

import (
	"fmt"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// names looks up the names and uids of pushes.
func (t *trial) names(pushes ...*message.Message) [][]record.Record {
	t.Helper()
	found, err := t.j.Names(t.Context(), pushes)
	t.must("names", err)
	if len(found) != len(pushes) {
		t.Fatalf("%d answers for %d pushes", len(found), len(pushes))
	}
	return found
}

var namesPromises = []promise{
	{"a push finds what has its name, and what has its uid", func(t *trial) {
		first, again := newMessage(1, id("order-1"), topic("mail.x"), key("a")),
			newMessage(2, id("order-1"), topic("mail.x"), key("a"))
		pay, plain := newMessage(3, id("order-1"), topic("payments.x"), key("a")), newMessage(4)
		other := newMessage(5, id("order-1"), topic("mail.x"))
		t.write(accepted(first, again, pay, plain, other)...)
		renamed := *pay
		renamed.ID = "order-9"
		asked := func(n int, with ...func(*message.Message)) *message.Message { return newMessage(n, with...) }
		found := t.names(asked(10, id("order-1"), topic("mail.x"), key("a")),
			asked(11, id("order-1"), topic("payments.x"), key("a")),
			asked(12, id("order-1"), topic("payments.x")), asked(13, id("order-2")), asked(14), plain,
			asked(2, id("order-1"), topic("mail.x"), key("a")), &renamed)
		for i, want := range [][]*message.Message{{again, first}, {pay}, {}, {}, {}, {plain}, {again, first}, {pay}} {
			t.wantUIDs(found[i], want...)
		}
		end := became(first, 2, message.StateDelivered, start)
		t.write(end)
		t.wantRecords(t.names(first)[0][1:], without(recorded(accept(first), end)))
		t.wantUIDs(slices.Concat(t.names()...))
	}},
	{"a delivery that is written before its acceptance has its name", func(t *trial) {
		m := newMessage(1, id("order-1"), topic("mail.x"), key("a"))
		claimed := *m
		claimed.ClaimedAt = message.CeilMilli(m.UID.Time()).Add(time.Second)
		end := record.Ended(&scheduler.End{Message: &claimed, State: message.StateDelivered})
		end.At = claimed.ClaimedAt
		t.write(end)
		repeat := newMessage(2, id("order-1"), topic("mail.x"), key("a"))
		for range 2 {
			found := t.names(repeat)[0]
			if t.wantUIDs(found, m); found[0].State != message.StateDelivered || found[0].Digest != m.Digest {
				t.Fatalf("the journal has %+v", found[0])
			}
			t.write(accept(m))
		}
		if whole := t.records(m.UID)[0]; string(whole.Body) != string(m.Body) {
			t.Fatalf("the body is %q", whole.Body)
		}
	}},
	{"what a name has had is bounded, the latest stay", func(t *trial) {
		var all []*message.Message
		for i := range scheduler.MaxRemembered + 5 {
			all = append(all, newMessage(i, id("again")))
		}
		t.write(accepted(all...)...)
		found := t.names(newMessage(100, id("again")), all[0])
		slices.Reverse(all)
		t.wantUIDs(found[0], all[:scheduler.MaxRemembered]...)
		t.wantUIDs(found[1], append(slices.Clone(all[:scheduler.MaxRemembered]), all[len(all)-1])...)
	}},
	{"an id that many messages share hides none of them", func(t *trial) {
		own := newMessage(1, id("reminder"), topic("payments.x"))
		all := []*message.Message{own}
		for i := range 4100 {
			all = append(all, newMessage(2+i, id("reminder"), topic(fmt.Sprint("mail.", i))))
		}
		for part := range slices.Chunk(all, 500) {
			t.write(accepted(part...)...)
		}
		found := t.names(newMessage(9000, id("reminder"), topic("payments.x")),
			newMessage(9001, id("reminder"), topic("mail.7")), newMessage(9002, id("reminder"), topic("none")))
		t.wantUIDs(found[0], own)
		t.wantUIDs(found[1], all[8])
		t.wantUIDs(found[2])
	}},
}
