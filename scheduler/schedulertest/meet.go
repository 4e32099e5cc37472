package schedulertest

import (
	"fmt"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// comesBack is a way in which a claimed message returns to waiting.
type comesBack struct {
	name string
	// uncertain reports whether the message is uncertain then.
	uncertain bool
	do        func(*trial, *message.Message)
}

var waysBack = []comesBack{
	{"returned", false, func(t *trial, m *message.Message) { t.giveBack(m, m.Score(), m.Mark) }},
	{"returned uncertain, to a lane", true, func(t *trial, m *message.Message) {
		t.giveBack(m, m.Score(), message.Mark{Uncertain: true, Lane: "stream", Changes: m.Mark.Changes})
	}},
	{"returned after an attempt", false, func(t *trial, m *message.Message) {
		mark := m.Mark
		mark.Changes++
		t.back(m, scheduler.Back{Claim: m.Claim, Score: m.Score(), Mark: mark, Message: m, Reason: "refused"})
	}},
	{"returned unsent", false, (*trial).unsent},
	{"swept", true, func(t *trial, m *message.Message) {
		t.term++
		if n := t.sweep(t.bucketOf(m), 10); n != 1 {
			t.Fatalf("%d were swept, want 1", n)
		}
	}},
	{"reclaimed", true, func(t *trial, m *message.Message) {
		t.wantReclaimed(t.recovering(), t.bucketOf(m), 1)
	}},
}

// both adds a message under the name order-1, claims it, and adds the next one.
func both(t *trial, n int, how message.Merge, with ...With) (earlier, later *message.Message) {
	t.Helper()
	earlier = t.take(push(n, message.MergeReject, append([]With{Content("a")}, with...)...))
	return earlier, t.one(push(n+1, how, append([]With{Content("b"), DueIn(time.Hour)}, with...)...))
}

var meetPromises = []promise{
	{name: "a push that merges is the next under the name while that is in flight", check: func(t *trial) {
		for i, how := range mergeModes {
			earlier, later := both(t, 10*i, how, Keyed(fmt.Sprint(i)))
			t.wantInfo(live(earlier, message.StateInFlight, changed(0)))
			t.wantInfo(live(later, message.StateWaiting, changed(0)))
			t.wantFound(scheduler.Ref{ID: "order-1", Key: later.Key, Keyed: true}, earlier.UID, later.UID)
			// Further pushes merge into the later message.
			t.merged(push(10*i+2, message.MergeKeep, Keyed(later.Key)),
				live(later, message.StateWaiting, changed(1)))
			t.refused(push(10*i+3, message.MergeReject, Keyed(later.Key), Content("b")), scheduler.AddDuplicate,
				later, message.StateWaiting)
			t.finish(message.StateDelivered, earlier)
			t.wantInfo(live(later, message.StateWaiting, changed(1)))
			t.take(later)
		}
	}},
	{name: "a push that keeps is the next where a consumer may have the message already", check: func(t *trial) {
		first := t.take(push(1, message.MergeReject))
		mark := message.Mark{Uncertain: true, Refusals: 1, Lane: "stream"}
		t.giveBack(first, first.Score(), mark)
		later := t.one(push(2, message.MergeKeep))
		points(t, first, later)
		t.wantInfo(live(first, message.StateWaiting, mark))
		t.wantInfo(live(later, message.StateWaiting, changed(0)))
	}},
	{name: "what may have been delivered is not replaced, and the push is not kept", check: func(t *trial) {
		first := t.take(push(1, message.MergeReject))
		mark := message.Mark{Uncertain: true}
		t.giveBack(first, first.Score(), mark)
		for i, how := range replacing {
			by := push(2+i, how, Content("b"))
			for range 2 {
				t.refused(by, scheduler.AddUncertain, first, message.StateWaiting)
				t.gone(by.UID)
			}
		}
		t.wantInfo(live(first, message.StateWaiting, mark))
		points(t, first)
	}},
	{name: "an earlier message that comes back gives way to what replaces it", check: func(t *trial) {
		n := 0
		for _, how := range replacing {
			for _, way := range waysBack {
				key := fmt.Sprint(n)
				earlier, later := both(t, n, how, Keyed(key))
				t.pass(time.Second)
				way.do(t, earlier)
				t.wantInfo(remains(earlier, message.StateCanceled, t.now, way.uncertain, ReasonGaveWay))
				want := scheduler.CancelDone
				if way.uncertain {
					want = scheduler.CancelMaybe
				}
				t.canceled(earlier.UID, want)
				t.wantInfo(live(later, message.StateWaiting, changed(0)))
				if h := t.heads()[t.bucketOf(later)]; h.Claimed != 0 || len(t.lanes(t.bucketOf(later))) > 0 {
					t.Fatalf("%s: head is %+v", way.name, h)
				}
				t.now = max(t.now, later.Due)
				claimed := t.claimFrom(t.bucketOf(later), "", wide, wide).Messages
				t.wantUIDs(claimed, []*message.Message{later})
				t.finish(message.StateDelivered, claimed[0])
				n += 10
			}
		}
	}},
	{name: "an earlier message that comes back ends the later that only kept", check: func(t *trial) {
		for n, way := range waysBack {
			key := fmt.Sprint(n)
			earlier, later := both(t, 10*n, message.MergeKeep, Keyed(key))
			t.pass(time.Second)
			way.do(t, earlier)
			at := t.now
			t.wantInfo(remains(later, message.StateCanceled, at, false, ReasonMerged))
			got := t.get(earlier.UID)
			if got.State != message.StateWaiting || got.Mark.Uncertain != way.uncertain {
				t.Fatalf("%s: the earlier is %s", way.name, describe(got))
			}
			// The name belongs to the earlier message again.
			t.wantFound(scheduler.Ref{ID: "order-1", Key: key, Keyed: true}, earlier.UID)
			t.refused(push(10*n+2, message.MergeReject, Keyed(key), Content("a")), scheduler.AddDuplicate, earlier,
				message.StateWaiting)
			t.refused(later, scheduler.AddDuplicate, later, message.StateCanceled)
			if !way.uncertain {
				t.merged(push(10*n+3, message.MergeKeep, Keyed(key)),
					live(earlier, message.StateWaiting, changed(got.Mark.Changes+1)))
			}
			claimed := t.claimFrom(t.bucketOf(earlier), got.Mark.Lane, wide, wide).Messages
			t.wantUIDs(claimed, []*message.Message{earlier})
			t.finish(message.StateDelivered, claimed...)
			t.pass(t.o.EndedKeep)
			t.trim(t.bucketOf(earlier), wide)
			t.gone(later.UID)
			t.one(push(10*n+4, message.MergeReject, Keyed(key), Content("c")))
			t.canceled(push(10*n+4, message.MergeReject, Keyed(key), Content("c")).UID, scheduler.CancelDone)
		}
	}},
	{name: "a later message that waits uncertain ends so", check: func(t *trial) {
		earlier := t.take(push(1, message.MergeReject))
		later := t.take(push(2, message.MergeKeep))
		t.giveBack(later, later.Score(), message.Mark{Uncertain: true, Lane: "stream"})
		t.giveBack(earlier, earlier.Score(), message.Mark{})
		t.wantInfo(remains(later, message.StateCanceled, t.now, true, ReasonMerged))
		t.wantInfo(live(earlier, message.StateWaiting, changed(0)))
		t.wantLanes(t.bucketOf(later))
	}},
	{name: "a later message that does not wait is left alone, and the earlier gives way all the same",
		check: func(t *trial) {
			for i, s := range everyState[1:] {
				for j, how := range []message.Merge{message.MergeKeep, message.MergeReplace} {
					n := 100*i + 10*j
					earlier := t.take(push(n, message.MergeReject, Keyed(fmt.Sprint(n))))
					later := push(n+1, how, Keyed(earlier.Key))
					t.brought(later, s)
					t.giveBack(earlier, earlier.Score(), message.Mark{})
					if how == message.MergeKeep {
						t.wantInfo(live(earlier, message.StateWaiting, changed(0)))
						t.take(earlier)
					} else {
						t.wantInfo(remains(earlier, message.StateCanceled, t.now, false, ReasonGaveWay))
					}
					t.wantState(later.UID, s)
				}
			}
		}},
	{name: "two messages of a name meet once", check: func(t *trial) {
		first := t.take(push(1, message.MergeReject))
		later := t.take(push(2, message.MergeKeep))
		t.giveBack(first, first.Score(), message.Mark{}) // the later is in flight: both go on
		t.giveBack(later, later.Score(), message.Mark{})
		again := t.claimFrom(t.bucketOf(first), "", 1, wide).Messages
		t.wantUIDs(again, []*message.Message{first})
		t.giveBack(again[0], first.Score(), message.Mark{})
		t.wantInfo(live(first, message.StateWaiting, changed(0)))
		t.wantInfo(live(later, message.StateWaiting, changed(0)))
	}},
	{name: "three messages of a name meet two by two", check: func(t *trial) {
		first := t.take(push(1, message.MergeReject))
		second := t.take(push(2, message.MergeReplace))
		third := t.one(push(3, message.MergeKeep))
		points(t, first, second, third)
		t.giveBack(second, second.Score(), message.Mark{})
		t.wantInfo(remains(third, message.StateCanceled, t.now, false, ReasonMerged))
		t.giveBack(first, first.Score(), message.Mark{})
		t.wantInfo(remains(first, message.StateCanceled, t.now, false, ReasonGaveWay))
		t.wantUIDs(t.claimFrom(t.bucketOf(first), "", wide, wide).Messages, []*message.Message{second})
	}},
	{name: "what replaces the later replaces the earlier too", check: func(t *trial) {
		for i, how := range replacing {
			earlier, later := both(t, 10*i, message.MergeKeep, Keyed(fmt.Sprint(i)))
			by := push(10*i+2, how, Keyed(later.Key), Content("c"))
			t.merged(by, live(taken(later, by), message.StateWaiting, changed(1)))
			t.merged(push(10*i+3, message.MergeKeep, Keyed(later.Key)),
				live(taken(later, by), message.StateWaiting, changed(2)))
			t.giveBack(earlier, earlier.Score(), message.Mark{})
			t.wantInfo(remains(earlier, message.StateCanceled, t.now, false, ReasonGaveWay))
			t.wantInfo(live(taken(later, by), message.StateWaiting, changed(2)))
		}
	}},
	{name: "what only keeps leaves to the later how it meets the earlier", check: func(t *trial) {
		earlier, later := both(t, 1, message.MergeReplace)
		t.merged(push(3, message.MergeKeep), live(later, message.StateWaiting, changed(1)))
		t.giveBack(earlier, earlier.Score(), message.Mark{})
		t.wantInfo(remains(earlier, message.StateCanceled, t.now, false, ReasonGaveWay))
	}},
	{name: "the last that lives under a name is the one that a push meets", check: func(t *trial) {
		earlier, later := both(t, 1, message.MergeKeep)
		t.canceled(later.UID, scheduler.CancelDone)
		third := t.one(push(3, message.MergeReplace)) // the earlier is in flight
		points(t, earlier, third)
		t.giveBack(earlier, earlier.Score(), message.Mark{})
		t.wantInfo(remains(earlier, message.StateCanceled, t.now, false, ReasonGaveWay))
		t.wantInfo(live(third, message.StateWaiting, changed(0)))
	}},
	{name: "two messages of a name meet after one was restored too", check: func(t *trial) {
		for i, how := range []message.Merge{message.MergeKeep, message.MergeReplace} {
			// The earlier message has the higher uid, because the stream's order is not the order of arrival.
			earlier := t.take(push(10*i+5, message.MergeReject, Keyed(fmt.Sprint(i)), Content("a")))
			if how == message.MergeKeep {
				t.giveBack(earlier, earlier.Score(), message.Mark{Uncertain: true})
			}
			later := t.one(push(10*i, how, Keyed(earlier.Key), Content("b"), DueIn(time.Hour)))
			if how == message.MergeKeep {
				higher := *earlier
				higher.Mark.Uncertain = true
				t.restored([]record.RestoreCode{raised}, recordOf(&higher, message.StateWaiting, 3))
				t.refused(push(10*i+6, message.MergeReject, Keyed(earlier.Key), Content("b")), scheduler.AddDuplicate,
					later, message.StateWaiting)
				earlier = t.take(earlier)
			}
			t.restored([]record.RestoreCode{raised}, recordOf(later, message.StateWaiting, 2))
			t.giveBack(earlier, earlier.Score(), earlier.Mark)
			ended, lives := later, earlier
			if how == message.MergeReplace {
				ended, lives = earlier, later
			}
			t.wantState(ended.UID, message.StateCanceled)
			t.wantState(lives.UID, message.StateWaiting)
		}
	}},
	{name: "an end of the earlier ends the matter", check: func(t *trial) {
		for i, s := range []message.State{message.StateDelivered, message.StateExpired, message.StateDead} {
			for j, how := range mergeModes {
				n := 100*i + 10*j
				earlier, later := both(t, n, how, Keyed(fmt.Sprint(n)))
				t.finish(s, earlier)
				t.wantInfo(live(later, message.StateWaiting, changed(0)))
				t.canceled(later.UID, scheduler.CancelDone)
			}
		}
	}},
	{name: "a return that came late lets nobody meet", check: func(t *trial) {
		earlier, later := both(t, 1, message.MergeReplace)
		t.back(earlier, scheduler.Back{Claim: earlier.Claim + 7, Keep: true})
		t.wantInfo(live(earlier, message.StateInFlight, changed(0)))
		t.wantInfo(live(later, message.StateWaiting, changed(0)))
		for range 2 { // and a return sent twice is one
			t.giveBack(earlier, earlier.Score(), message.Mark{})
			t.wantInfo(remains(earlier, message.StateCanceled, t.now, false, ReasonGaveWay))
		}
	}},
	{name: "a push that a tombstone covers replaces nothing", check: func(t *trial) {
		t.bury(scheduler.Ref{ID: "order-1", Topic: "content"}, 100)
		earlier := t.take(push(1, message.MergeReject))
		canceledAtOnce(t, push(2, message.MergeReplace, Stored(50)))
		t.giveBack(earlier, earlier.Score(), message.Mark{})
		t.wantInfo(live(earlier, message.StateWaiting, changed(0)))
	}},
	{name: "the journal records who gave way", recorded: true, check: func(t *trial) {
		n := 0
		for _, how := range []message.Merge{message.MergeReplace, message.MergeKeep} {
			for _, way := range []comesBack{waysBack[0], waysBack[4]} {
				earlier, later := both(t, n, how, Keyed(fmt.Sprint(n)))
				t.forgetRecorded()
				way.do(t, earlier)
				change := record.Change{Version: 2, State: message.StateCanceled, At: t.now,
					Bucket: t.bucketOf(later), Term: t.term}
				ended, reason, uncertain := earlier, ReasonGaveWay, way.uncertain
				if how == message.MergeKeep {
					ended, reason, uncertain = later, ReasonMerged, false
				}
				change.UID, change.Due, change.Reason, change.Uncertain = ended.UID, ended.Due, reason, uncertain
				all := []record.Change{change}
				if how == message.MergeKeep && way.name == "swept" {
					all = append(all, record.Change{UID: earlier.UID, Version: 2, State: message.StateWaiting,
						At: t.now, Bucket: t.bucketOf(later), Term: t.term,
						Due: earlier.Due, Uncertain: true,
						Reason: "the leader that had claimed it is gone; it may have been delivered"})
				}
				t.wantRecorded(all...)
				n += 10
			}
		}
	}},
}
