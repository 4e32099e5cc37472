package journaltest

import (
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

func (t *trial) prune(before message.Milli, limit, want int) {
	t.Helper()
	n, err := t.j.Prune(t.Context(), before, limit)
	if t.must("prune", err); n != want {
		t.Fatalf("prune before %d, up to %d: got %d, want %d", before, limit, n, want)
	}
}

var prunePromises = []promise{
	{"what ended before a time is deleted with its changes, the first ends first", func(t *trial) {
		var all []*message.Message
		for i := range 20 {
			m := newMessage(19-i, id("of 20"))
			all = append(all, m)
			t.write(accept(m), became(m, 2, message.StateDelivered, start+message.Milli(i)))
		}
		t.prune(start, 100, 0)
		t.prune(start+1, 100, 1)
		t.prune(start+1, 100, 0)
		t.prune(start+10, 4, 4)
		t.prune(start+10, 0, 0)
		for i, m := range all {
			want := i >= 5
			if got := len(t.records(m.UID)) == 1 && len(t.history(m.UID)) == 2; got != want {
				t.Fatalf("message %d is there: %v, want %v", i, got, want)
			}
			if n := len(t.records(m.UID)) + len(t.history(m.UID)); !want && n != 0 {
				t.Fatalf("%d rows of message %d are left", n, i)
			}
		}
		if found := t.find(scheduler.Ref{ID: "of 20"}); len(found) != 15 {
			t.Fatalf("%d are found by their id, want 15", len(found))
		}
		t.prune(start+10, 100, 5)
		t.prune(start+1000, 100, 10)
		t.wantChanges(t.changes(record.ChangeQuery{Limit: 100}))
	}},
	{"what has not ended is never touched, nor what is dead until it is dealt with", func(t *trial) {
		var changes, live []record.Change
		var want []record.Record
		for i := range 60 {
			m := newMessage(i)
			of := accepted(m)
			of[0].At, of[0].Due = 1, 1
			switch i % 3 {
			case 1:
				of = append(of, became(m, 2, message.StateWaiting, 2))
			case 2:
				of = append(of, became(m, 2, message.StateDead, 3))
				if i%2 == 0 { // purged
					of = append(of, became(m, 3, message.StateCanceled, 4))
				}
			}
			changes = append(changes, of...)
			if !of[len(of)-1].State.Ended() || of[len(of)-1].State == message.StateDead {
				live, want = append(live, of...), append(want, recorded(of...))
			}
		}
		revived := newMessage(100)
		back := []record.Change{accept(revived), became(revived, 2, message.StateDead, 4),
			became(revived, 3, message.StateWaiting, 5)}
		t.write(append(changes, back...)...)
		t.prune(start*2, 1000, 10)
		t.prune(start*2, 1000, 0)
		uids := []message.UID{revived.UID}
		for _, c := range changes {
			uids = append(uids, c.UID)
		}
		t.wantRecords(t.records(uids...), append(want, recorded(back...))...)
		for i, c := range live {
			if i == 0 || live[i-1].UID != c.UID {
				if n := len(t.history(c.UID)); uint64(n) < c.Version {
					t.Fatalf("%s has %d changes left", c.UID, n)
				}
			}
		}
		t.wantChanges(t.history(revived.UID), back...)
	}},
}
