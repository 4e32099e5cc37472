package schedulertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

var settlePromises = []promise{
	{name: "a finish twice ends once, and the first end stays", check: func(t *trial) {
		m := t.take(Message(1, Named("order-1")))
		t.finish(message.StateDelivered, m)
		at := t.now
		t.pass(time.Minute)
		t.finish(message.StateDelivered, m)
		t.finish(message.StateExpired, m)
		t.finish(message.StateDead, m)
		t.wantInfo(remains(m, message.StateDelivered, at, false, "the test says delivered"))
		t.wantHead(t.bucketOf(m), scheduler.Head{})
	}},
	{name: "only what is claimed is finished", check: func(t *trial) {
		waiting, parked := t.take(Message(2)), t.take(Message(4))
		t.giveBack(waiting, int64(t.now.Add(time.Hour))<<8, message.Mark{Uncertain: true, Refusals: 2})
		t.giveBack(parked, parked.Score(), message.Mark{Uncertain: true, Lane: "stream"})
		claimed := t.take(Message(1))
		t.finish(message.StateDelivered, waiting, Message(3), claimed, parked)
		t.wantInfo(live(waiting, message.StateWaiting, message.Mark{Uncertain: true, Refusals: 2}))
		t.wantInfo(live(parked, message.StateWaiting, message.Mark{Uncertain: true, Lane: "stream"}))
		t.gone(Message(3).UID)
		t.wantInfo(remains(claimed, message.StateDelivered, t.now, false, "the test says delivered"))
	}},
	{name: "only the claim that is named is finished", check: func(t *trial) {
		earlier := *t.take(Message(1))
		t.giveBack(&earlier, earlier.Score(), message.Mark{})
		later := t.claim()[0]
		t.finish(message.StateDead, &earlier)
		t.wantInfo(live(later, message.StateInFlight, message.Mark{}))
		// Of a batch, the stale claim alone is skipped, whichever comes first.
		for i, stale := range []int{0, 1} {
			batch := []*message.Message{t.take(Message(10 + i))}
			other := batch[0]
			t.finish(message.StateExpired, slices.Insert(batch, stale, &earlier)...)
			t.wantInfo(live(later, message.StateInFlight, message.Mark{}))
			t.wantInfo(remains(other, message.StateExpired, t.now, false, "the test says expired"))
		}
		t.term = 5
		t.finish(message.StateDead, later)
		t.wantInfo(live(later, message.StateInFlight, message.Mark{}))
	}},
	{name: "a finish sets the uncertain mark as asked", check: func(t *trial) {
		t.added(Message(1), Message(2))
		all := t.claim()
		t.end(0, scheduler.End{Message: all[0], State: message.StateExpired, Uncertain: true},
			scheduler.End{Message: all[1], State: message.StateExpired})
		t.wantInfo(remains(all[0], message.StateExpired, t.now, true, ""))
		t.wantInfo(remains(all[1], message.StateExpired, t.now, false, ""))
	}},
	{name: "a return replaces the mark, and the next claim hands it out", check: func(t *trial) {
		m := t.take(Message(1))
		for _, mark := range []message.Mark{{}, {Uncertain: true, Refusals: 3}, {Uncertain: true, Refusals: 3},
			{Uncertain: true, Refusals: 3, Lane: "stream"}, {Refusals: 1}, {}} {
			t.giveBack(m, m.Score(), mark)
			t.wantInfo(live(m, message.StateWaiting, mark))
			m = t.claimFrom(0, mark.Lane, wide, wide).Messages[0]
			if mark.Lane = ""; m.Mark != mark {
				t.Fatalf("claimed with mark %+v, want %+v", m.Mark, mark)
			}
			t.wantInfo(live(m, message.StateInFlight, mark))
		}
		t.term++
		t.sweep(0, wide)
		if m = t.claim()[0]; !m.Mark.Uncertain {
			t.Fatal("swept and claimed, it is certain")
		}
	}},
	{name: "a return twice gives back once", check: func(t *trial) {
		m := t.take(Message(1))
		t.giveBack(m, m.Score(), message.Mark{Refusals: 1})
		t.giveBack(m, m.Score(), message.Mark{Refusals: 2, Lane: "stream"})
		t.wantInfo(live(m, message.StateWaiting, message.Mark{Refusals: 1}))
		t.wantHead(0, scheduler.Head{Due: m.Due, Waiting: 1})
		t.wantLanes(0)
		last := t.claim()
		t.finish(message.StateDelivered, last...)
		t.giveBack(m, m.Score(), message.Mark{})
		t.wantInfo(remains(last[0], message.StateDelivered, t.now, false, "the test says delivered"))
	}},
	{name: "a return of an earlier claim leaves a later one alone", check: func(t *trial) {
		first := t.take(Message(1))
		t.giveBack(first, first.Score(), message.Mark{})
		second := t.take(Message(1))
		if second.Claim == first.Claim {
			t.Fatalf("both claims have the number %d", first.Claim)
		}
		for _, keep := range []bool{false, true} {
			// Redis may execute a return late, from a dead connection.
			t.back(first, scheduler.Back{Claim: first.Claim, Score: first.Score(), Keep: keep})
			t.wantInfo(live(first, message.StateInFlight, message.Mark{}))
			t.canceled(first.UID, scheduler.CancelInFlight)
		}
		t.giveBack(second, second.Score(), message.Mark{})
		t.wantInfo(live(first, message.StateWaiting, message.Mark{}))
		third := t.take(Message(1))
		t.term++ // the same number under another term is another claim too
		t.giveBack(third, third.Score(), message.Mark{})
		t.wantInfo(live(first, message.StateInFlight, message.Mark{}))
	}},
	{name: "a return with a later score waits until then, in the bucket or a lane", check: func(t *trial) {
		for i, lane := range []message.Lane{"", "stream"} {
			m := t.take(Message(i))
			later, mark := t.now.Add(3*time.Second), message.Mark{Refusals: 1, Lane: lane}
			t.giveBack(m, int64(later)<<8|m.Score()&255, mark)
			if h := t.heads()[0]; lane == "" && h.Due != later {
				t.Fatalf("head is %d, want %d", h.Due, later)
			}
			if c := t.claimFrom(0, lane, wide, wide); len(c.Messages) != 0 || c.Head != later {
				t.Fatalf("lane %q: got %d messages, head %d; want none, %d", lane, len(c.Messages), c.Head, later)
			}
			t.wantInfo(live(m, message.StateWaiting, mark)) // its own due stays what it was
			t.now = later
			t.wantUIDs(t.claimFrom(0, lane, wide, wide).Messages, []*message.Message{m})
		}
	}},
	{name: "a return that keeps takes its own place and leaves the mark", check: func(t *trial) {
		m := t.take(Message(1, Priority(9)))
		later := int64(t.now.Add(time.Second))<<8 | 255
		t.giveBack(m, later, message.Mark{Uncertain: true, Refusals: 2, Lane: "stream"})
		t.pass(time.Second)
		m = t.claimFrom(0, "stream", wide, wide).Messages[0]
		t.back(m, scheduler.Back{Claim: m.Claim, Score: later << 1, Mark: message.Mark{Refusals: 9, Lane: "other"},
			Keep: true})
		t.wantInfo(live(m, message.StateWaiting, message.Mark{Uncertain: true, Refusals: 2}))
		t.wantHead(0, scheduler.Head{Due: m.Due, Waiting: 1})
		t.wantLanes(0)
	}},
	{name: "parked messages wait in their lane, in order, and are claimed from there", check: func(t *trial) {
		all := t.added(Message(1), Message(2), Message(3), Message(4))
		claimed := t.claim()
		back := make([]scheduler.Back, len(claimed))
		for i, m := range claimed {
			back[i] = scheduler.Back{UID: m.UID, Claim: m.Claim, Score: m.Score(),
				Mark: message.Mark{Lane: []message.Lane{"ORDERS", "core:a.b"}[i%2]}}
		}
		t.returned(0, back...)
		t.wantInfo(live(all[0], message.StateWaiting, message.Mark{Lane: "ORDERS"}))
		t.wantLanes(0, "ORDERS", "core:a.b")
		if c := t.claimFrom(0, "", wide, wide); len(c.Messages) != 0 || c.Head != 0 {
			t.Fatalf("claimed %v, head %d", uids(c.Messages), c.Head)
		}
		t.wantHead(0, scheduler.Head{})
		c := t.claimFrom(0, "ORDERS", 1, wide)
		t.wantUIDs(c.Messages, all[:1])
		if c.Head != Start || c.Messages[0].Mark.Lane != "" {
			t.Fatalf("head %d, lane %q: one is left, and a claimed message has no lane", c.Head,
				c.Messages[0].Mark.Lane)
		}
		t.wantInfo(live(all[0], message.StateInFlight, message.Mark{}))
		c = t.claimFrom(0, "ORDERS", wide, wide)
		t.wantUIDs(c.Messages, all[2:3])
		if c.Head != 0 {
			t.Fatalf("head %d of an empty lane", c.Head)
		}
		if c := t.claimFrom(0, "nobody", wide, wide); len(c.Messages) != 0 || c.Head != 0 {
			t.Fatal("a lane that does not exist has messages")
		}
		t.wantLanes(0, "core:a.b")
	}},
	{name: "a thousand lanes are listed by name", check: func(t *trial) {
		var batch []*message.Message
		for i := range 1000 {
			batch = append(batch, Message(i))
		}
		t.added(batch...)
		back := make([]scheduler.Back, len(batch))
		want := make([]message.Lane, len(batch))
		for i, m := range t.claim() {
			want[i] = message.LaneCore.Lane(fmt.Sprintf("%04d", i*7%1000))
			back[i] = scheduler.Back{UID: m.UID, Claim: m.Claim, Score: m.Score(), Mark: message.Mark{Lane: want[i]}}
		}
		t.returned(0, back...)
		slices.Sort(want)
		t.wantLanes(0, want...)
	}},
	{name: "a sweep gives back what lower terms had claimed, uncertain and out of its lane", check: func(t *trial) {
		all := t.added(Message(1), Message(2))
		for _, m := range t.claim() {
			t.giveBack(m, int64(t.now.Add(time.Second))<<8, message.Mark{Refusals: 2, Lane: "stream"})
		}
		t.pass(time.Second)
		t.claimFrom(0, "stream", wide, wide)
		t.term = 4
		mine := t.take(Message(3))
		if n := t.sweep(0, 100); n != 2 {
			t.Fatalf("swept %d, want 2", n)
		}
		for _, m := range all {
			t.wantInfo(live(m, message.StateWaiting, message.Mark{Uncertain: true, Refusals: 2, Changes: 1}))
		}
		t.wantInfo(live(mine, message.StateInFlight, message.Mark{}))
		t.wantHead(0, scheduler.Head{Due: Start, Waiting: 2, Claimed: 1}) // at their own due time
		t.wantUIDs(t.claim(), all)
	}},
	{name: "a sweep is bounded, goes on when repeated, and ends with nothing left", check: func(t *trial) {
		for i := range 5 {
			t.term = uint64(i + 1)
			t.take(Message(i))
		}
		t.term = 5
		for i, want := range []int{3, 1, 0, 0} {
			if n := t.sweep(0, 3); n != want {
				t.Fatalf("sweep %d moved %d, want %d", i, n, want)
			}
		}
		t.wantInfo(live(Message(4), message.StateInFlight, message.Mark{})) // of the term itself
	}},
	{name: "a sweep gives back this term's claims up to a number, and none after it", check: func(t *trial) {
		first, second := t.take(Message(1)), t.take(Message(2))
		third := t.take(Message(3))
		for _, want := range []int{2, 0} {
			n, err := t.tl.Sweep(t.Context(), 0, t.term, second.Claim, 10, t.now)
			t.must("sweep", err)
			if n != want {
				t.Fatalf("swept %d, want %d", n, want)
			}
		}
		for _, m := range []*message.Message{first, second} {
			t.wantInfo(live(m, message.StateWaiting, message.Mark{Uncertain: true, Changes: 1}))
		}
		t.wantInfo(live(third, message.StateInFlight, message.Mark{}))
		t.unsent(first) // too late
		t.wantInfo(live(first, message.StateWaiting, message.Mark{Uncertain: true, Changes: 1}))
	}},
	{name: "held lists what this very term has claimed, page by page", check: func(t *trial) {
		t.take(Message(1))
		t.term = 3
		var want []*message.Message
		for i := range 5 {
			want = append(want, Message(10+i))
		}
		t.added(want...)
		t.claim()
		if got := t.held("", 100); !slices.Equal(got, uids(want)) {
			t.Fatalf("got %v, want %v", got, uids(want))
		}
		if got := t.held("", 2); !slices.Equal(got, uids(want[:2])) {
			t.Fatalf("first page %v, want %v", got, uids(want[:2]))
		}
		if got := t.held(want[1].UID, 2); !slices.Equal(got, uids(want[2:4])) {
			t.Fatalf("second page %v, want %v", got, uids(want[2:4]))
		}
		if got := t.held(want[4].UID, 2); len(got) != 0 {
			t.Fatalf("after the last: %v", got)
		}
	}},
}
