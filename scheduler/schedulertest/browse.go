package schedulertest

import (
	"errors"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// browse reads all pages of a browse.
func (t *trial) browse(bucket message.Bucket, q scheduler.Browse) []message.Info {
	t.Helper()
	all, err := browseAll(bucket, q, func(q scheduler.Browse) (scheduler.Browsed, error) {
		return t.tl.Browse(t.Context(), bucket, q)
	})
	t.must("browse", err)
	return all
}

// wantBrowsed checks that a browse returns these messages in this order, whatever the size of a page.
func (t *trial) wantBrowsed(bucket message.Bucket, q scheduler.Browse, want ...*message.Message) {
	t.Helper()
	for _, limit := range []int{1, 2, 3, 7, 1000} {
		q.Limit = limit
		var got []message.UID
		for _, i := range t.browse(bucket, q) {
			got = append(got, i.UID)
		}
		if !slices.Equal(got, uids(want)) {
			t.Fatalf("in pages of %d: got %v\nwant %v", limit, got, uids(want))
		}
	}
}

var browsePromises = []promise{
	{name: "what waits is browsed by due, priority and acceptance", check: func(t *trial) {
		all := t.added(Message(1, DueIn(time.Minute)), Message(2, DueIn(time.Second)),
			Message(3, DueIn(time.Minute), Priority(1)), Message(4, DueIn(time.Minute)))
		t.one(Message(5, In(1)))
		t.wantBrowsed(0, scheduler.Browse{}, all[1], all[2], all[0], all[3])
		t.wantBrowsed(2, scheduler.Browse{})
	}},
	{name: "lanes follow the bucket, by name", check: func(t *trial) {
		for i := range 7 {
			t.one(Message(i, DueIn(time.Duration(-i)*time.Second)))
		}
		all := t.claim()
		slices.SortFunc(all, func(a, b *message.Message) int { return int(a.Due - b.Due) })
		for i, lane := range []message.Lane{"b", "a", "", "b", "c", "a", ""} {
			t.giveBack(all[i], all[i].Score(), message.Mark{Lane: lane})
		}
		t.wantBrowsed(0, scheduler.Browse{}, all[2], all[6], all[1], all[5], all[0], all[3], all[4])
		t.wantBrowsed(0, scheduler.Browse{Lane: "a"}, all[1], all[5])
		t.wantBrowsed(0, scheduler.Browse{Lane: "c", From: all[4].Due, To: all[4].Due}, all[4])
		t.wantBrowsed(0, scheduler.Browse{Lane: "none"})
		pulled := Message(20, ForPull(), DueIn(time.Hour))
		t.added(pulled)
		t.wantBrowsed(0, scheduler.Browse{Pull: true}, pulled)
		t.wantBrowsed(0, scheduler.Browse{Pull: true, To: Start.Add(time.Minute)})
	}},
	{name: "a message is shown as it stands, without headers and body", check: func(t *trial) {
		m := t.take(Message(1, Named("order-1"), Keyed("k"), Headers("A", "b"), TTL(time.Minute), Priority(3),
			Retrying(1, time.Second)))
		mark := message.Mark{Uncertain: true, Refusals: 2, Lane: "stream"}
		t.giveBack(m, m.Score(), mark)
		want := live(m, message.StateWaiting, mark)
		want.Headers, want.Body = nil, nil
		if got := t.browse(t.bucketOf(m), scheduler.Browse{Limit: 10}); len(got) != 1 ||
			describe(got[0]) != describe(want) {
			t.Fatalf("got %s\nwant %s", describeAll(got), describe(want))
		}
		t.finish(message.StateDead, t.claimFrom(t.bucketOf(m), "stream", 1, wide).Messages...)
		want = t.get(m.UID)
		want.Headers, want.Body = nil, nil
		if got := t.browse(t.bucketOf(m), scheduler.Browse{Dead: true, Limit: 10}); len(got) != 1 ||
			describe(got[0]) != describe(want) || got[0].State != message.StateDead {
			t.Fatalf("got %s\nwant %s", describeAll(got), describe(want))
		}
	}},
	{name: "times bound what is browsed, both inclusive", check: func(t *trial) {
		var all []*message.Message
		for i := range 6 {
			all = append(all, Message(i, DueIn(time.Duration(i)*time.Millisecond), Priority(uint8(i*50))))
		}
		t.added(all...)
		t.now = Start.Add(time.Hour)
		parked := t.claimFrom(0, "", 2, wide).Messages
		for _, m := range parked {
			t.giveBack(m, m.Score(), message.Mark{Lane: "stream"})
		}
		t.wantBrowsed(0, scheduler.Browse{From: Start + 1, To: Start + 4}, all[2], all[3], all[4], all[1])
		t.wantBrowsed(0, scheduler.Browse{From: Start + 3}, all[3:]...)
		t.wantBrowsed(0, scheduler.Browse{To: Start + 2}, all[2], all[0], all[1])
		t.wantBrowsed(0, scheduler.Browse{From: Start + 6})
		t.wantBrowsed(0, scheduler.Browse{From: Start + 3, To: Start + 2})
	}},
	{name: "what is dead is browsed by when it died", check: func(t *trial) {
		var died []*message.Message
		for i, n := range []int{5, 3, 4} {
			t.now = Start.Add(time.Duration(i) * time.Second)
			died = append(died, t.dead(Message(n, Priority(uint8(n)))))
		}
		t.added(Message(10), Message(11)) // due at one time, dead at one time
		t.finish(message.StateDead, t.claim()...)
		died = append(died, Message(10), Message(11))
		t.wantBrowsed(0, scheduler.Browse{Dead: true}, died...)
		t.wantBrowsed(0, scheduler.Browse{Dead: true, From: Start.Add(time.Second)}, died[1:]...)
		t.wantBrowsed(0, scheduler.Browse{Dead: true, To: Start.Add(time.Second)}, died[:2]...)
		t.wantBrowsed(0, scheduler.Browse{Dead: true, From: Start + 1, To: Start.Add(time.Second)}, died[1])
		t.wantBrowsed(1, scheduler.Browse{Dead: true})
		t.purge(0, []message.UID{died[1].UID}, []message.UID{died[1].UID})
		t.requeue(died[3].UID, Message(20, On(died[3].Topic)), scheduler.RequeueDone)
		t.wantBrowsed(0, scheduler.Browse{Dead: true}, died[0], died[2], died[4])
		t.wantBrowsed(0, scheduler.Browse{}, Message(20))
	}},
	{name: "a restored dead message is browsed by when it died", check: func(t *trial) {
		first := recordOf(Message(2), message.StateDead, 2)
		first.EndedAt = Start.Add(-time.Hour)
		t.pass(time.Minute)
		second := t.dead(Message(1))
		t.restored([]record.RestoreCode{added}, first)
		t.wantBrowsed(0, scheduler.Browse{Dead: true}, &first.Message, second)
		t.wantBrowsed(0, scheduler.Browse{Dead: true, To: Start}, &first.Message)
	}},
	{name: "what is neither added nor gone is met once, whatever else changes between pages", check: func(t *trial) {
		var all []*message.Message
		for i := range 20 {
			all = append(all, Message(i, DueIn(time.Duration(i)*time.Second)))
		}
		t.added(all...)
		var got []message.UID
		q := scheduler.Browse{Limit: 3}
		for n := 100; ; n++ {
			page, err := t.tl.Browse(t.Context(), 0, q)
			t.must("browse", err)
			for _, i := range page.Messages {
				got = append(got, i.UID)
			}
			if len(page.Messages) > 0 {
				t.canceled(page.Messages[len(page.Messages)-1].UID, scheduler.CancelDone) // where the page ends
			}
			t.one(Message(n, DueIn(-time.Second))) // before all
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		if !slices.Equal(got, uids(all)) {
			t.Fatalf("met %v\nwant %v", got, uids(all))
		}
	}},
	{name: "a lane that is gone by the next page is passed over", check: func(t *trial) {
		t.added(Message(1), Message(2), Message(3))
		all := t.claim()
		for i, lane := range []message.Lane{"a", "b", "c"} {
			t.giveBack(all[i], all[i].Score(), message.Mark{Lane: lane})
		}
		page, err := t.tl.Browse(t.Context(), 0, scheduler.Browse{Limit: 1})
		t.must("browse", err)
		if len(page.Messages) != 1 || page.Messages[0].UID != all[0].UID || page.Next == "" {
			t.Fatalf("got %d messages and next %q", len(page.Messages), page.Next)
		}
		t.canceled(all[0].UID, scheduler.CancelDone)
		t.canceled(all[1].UID, scheduler.CancelDone)
		t.wantBrowsed(0, scheduler.Browse{After: page.Next}, all[2])
	}},
	{name: "a cursor that no page returned is refused", check: func(t *trial) {
		t.added(Message(1), Message(2))
		t.dead(Message(3))
		t.added(Message(4), Message(5))
		page, err := t.tl.Browse(t.Context(), 0, scheduler.Browse{Limit: 1})
		t.must("browse", err)
		bad := []string{"x", "\x00", "!!!!", "a cursor", "0:0", "{}", page.Next[:len(page.Next)/2]}
		for _, after := range bad {
			for _, dead := range []bool{false, true} {
				page, err := t.tl.Browse(t.Context(), 0, scheduler.Browse{Dead: dead, After: after, Limit: 1})
				if !errors.Is(err, scheduler.ErrBadCursor) {
					t.Errorf("%q (dead %t): %d messages, %v", after, dead, len(page.Messages), err)
				}
			}
		}
		if _, err := t.tl.Browse(t.Context(), 0, scheduler.Browse{Dead: true, After: page.Next, Limit: 1}); !errors.Is(
			err, scheduler.ErrBadCursor) {
			t.Errorf("a cursor of what waits, for what is dead: %v", err)
		}
	}},
}
