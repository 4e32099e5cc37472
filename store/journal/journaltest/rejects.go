package journaltest

import (
	"fmt"
	"reflect"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// reject returns the change of a push that is not accepted.
func reject(m *message.Message) record.Change {
	return record.Change{UID: m.UID, At: m.Due, Rejected: &scheduler.Rejected{UID: m.UID, ID: m.ID, Topic: m.Topic,
		Reason: "invalid_delay: Tarry-Delay is wrong", Size: 1 << 20, Body: m.Body}}
}

// wantRejects compares what a reference finds, twice.
func (t *trial) wantRejects(ref scheduler.Ref, want ...*message.Message) {
	t.Helper()
	found, err := t.j.Rejects(t.Context(), ref, 20)
	t.must("rejects", err)
	var expected []scheduler.Rejected
	for _, m := range want {
		r := *reject(m).Rejected
		r.At, r.Body = m.Due, nil
		expected = append(expected, r)
	}
	if !reflect.DeepEqual(found, expected) {
		t.Fatalf("%+v has %+v, want %+v", ref, found, expected)
	}
}

var rejectPromises = []promise{
	{"a rejected push is found by its id and its uid, and is no message", func(t *trial) {
		first, second := newMessage(1, id("order-1"), topic("mail.x")), newMessage(2, id("order-1"), topic("pay.x"))
		plain, living := newMessage(3), newMessage(4, id("order-1"), topic("mail.x"))
		for range 2 {
			t.write(reject(second), accept(living), reject(first), reject(plain))
		}
		t.wantRejects(scheduler.Ref{ID: "order-1"}, second, first)
		t.wantRejects(scheduler.Ref{ID: "order-1", Topic: "mail.x"}, first)
		t.wantRejects(scheduler.Ref{ID: "order-1", Viewer: &scheduler.Viewer{Topics: []string{"pay.>"}}}, second)
		t.wantRejects(scheduler.Ref{UID: plain.UID}, plain)
		t.wantRejects(scheduler.Ref{ID: "order-2"})
		t.wantRejects(scheduler.Ref{ID: ""})
		t.wantUIDs(t.find(scheduler.Ref{ID: "order-1"}), living)
		t.wantUIDs(t.names(newMessage(9, id("order-1"), topic("pay.x")))[0])
		t.wantUIDs(t.list(record.RecordQuery{Limit: 10}), living)
		if len(t.changes(record.ChangeQuery{Limit: 10})) != 1 || len(t.history(plain.UID)) != 0 {
			t.Fatal("a rejected push has changes")
		}
	}},
	{"a push that is rejected, and accepted later, is both", func(t *trial) {
		m := newMessage(1, id("order-1"))
		t.write(reject(m))
		if known, err := t.j.Versions(t.Context(), []message.UID{m.UID}); err != nil || len(known) > 0 {
			t.Fatalf("the versions are %v, %v", known, err)
		}
		t.write(accept(m))
		t.wantRejects(scheduler.Ref{ID: "order-1"}, m)
		t.wantRecords(t.records(m.UID), recorded(accept(m)))
	}},
	{"rejected pushes are pruned like ends, a few at a time", func(t *trial) {
		var all []*message.Message
		for i := range 5 {
			m := newMessage(i, id(fmt.Sprint("order-", i)), due(time.Duration(i)*time.Second))
			all = append(all, m)
			t.write(reject(m))
		}
		for _, want := range []int{2, 1, 0} {
			n, err := t.j.Prune(t.Context(), start+3000, 2)
			if t.must("prune", err); n != want {
				t.Fatalf("%d pruned, want %d", n, want)
			}
		}
		t.wantRejects(scheduler.Ref{ID: "order-2"})
		t.wantRejects(scheduler.Ref{ID: "order-3"}, all[3])
	}},
}
