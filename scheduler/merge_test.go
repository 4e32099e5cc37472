package scheduler_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

func TestMerge_AnswersForTheMessageThatAPushWentInto(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, nil)
		first := r.Push(scheduler.Push{ID: "a", Delay: time.Hour, Body: []byte("1"), Merge: message.MergeReplace})
		second := r.Push(
			scheduler.Push{UID: "", ID: "a", Delay: time.Minute, Body: []byte("2"), Merge: message.MergeReplace})
		if !second.Merged || second.UID != first.UID || second.Version != 2 || second.Due >= first.Due {
			t.Fatalf("second: %+v, first %+v", second, first)
		}
		stop := r.Lead(r.S, 1)
		time.Sleep(2 * time.Minute)
		if got := r.Nats.Arrived(); len(got) != 1 || string(got[0].M.Body) != "2" {
			t.Errorf("arrived: %+v", got)
		}
		third := r.Push(scheduler.Push{ID: "a", Body: []byte("3"), Merge: message.MergeReplace})
		if third.Merged || third.UID == first.UID {
			t.Errorf("after the delivery: %+v", third)
		}
		_ = stop(rig.ErrStop)
	})
}

// The bound of debounce holds for the first push too: one that comes again unchanged moves nothing forward.
func TestMerge_MaxWaitBoundsTheFirstPushToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		later := scheduler.Push{ID: "a", Delay: 10 * time.Second, Merge: message.MergeDebounce,
			MaxWait: 4 * time.Second}
		bound := message.CeilMilli(time.Now().Add(later.MaxWait))
		first := r.Push(later)
		time.Sleep(time.Second)
		if again := r.Push(later); first.Due != bound || again.Due != bound || !again.Merged {
			t.Errorf("due %d, and again %+v, want %d", first.Due, again, bound)
		}
		waited := later // in the intake, before it was read
		waited.ID, waited.Age = "b", 3*time.Second
		at := later
		at.ID, at.HasAt, at.At = "c", true, message.CeilMilli(time.Now().Add(time.Hour))
		sooner := later
		sooner.ID, sooner.Delay = "d", 2*time.Second
		for want, p := range map[time.Duration]scheduler.Push{time.Second: waited, 4 * time.Second: at,
			2 * time.Second: sooner} {
			if got := r.Push(p); got.Due != message.CeilMilli(time.Now().Add(want)) {
				t.Errorf("%s is due in %s, want %s", p.ID, time.Until(got.Due.Time()), want)
			}
		}
	})
}

// A push that names its own uid, as one from the intake does, is not answered as canceled because it was merged into
// another.
func TestMerge_ACancelByThePushesOwnUIDIsHonest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		uid, err := message.IntakeUID(7, time.Now(), "a", "")
		if err != nil {
			t.Fatal(err)
		}
		first := r.Push(scheduler.Push{ID: "a", Merge: message.MergeReplace, Body: []byte("1")})
		merged := r.Push(scheduler.Push{UID: uid, Stored: 7, ID: "a", Merge: message.MergeReplace, Body: []byte("2")})
		if !merged.Merged {
			t.Fatalf("it was not merged: %+v", merged)
		}
		if i := r.Info(uid); i.UID != first.UID || i.State != message.StateWaiting {
			t.Errorf("it is %s, %s", i.UID, i.State)
		}
		stop := r.Lead(r.S, 1)
		time.Sleep(time.Second)
		if c, err := r.S.Cancel(t.Context(), scheduler.Ref{UID: uid}); err != nil || c.Code != scheduler.CancelEnded ||
			c.Info.State != message.StateDelivered {
			t.Errorf("cancel after delivery: %s, %s, %v", c.Code, c.Info.State, err)
		}
		_ = stop(rig.ErrStop)
	})
}

// NATS's clock is an hour slow all the time: the longest wait of a debounce still counts from when the first push was
// stored.
func TestAccept_DebounceByAStampThatIsSlowIsNotDueEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		push := func(n uint64) time.Duration {
			uid, err := message.IntakeUID(n, r.Clock.Now().Add(-time.Hour), "cart", "")
			if err != nil {
				t.Fatal(err)
			}
			a := r.Push(scheduler.Push{UID: uid, Stored: n, ID: "cart", Topic: "a", Delay: 30 * time.Minute,
				Merge: message.MergeDebounce, MaxWait: 40 * time.Minute})
			return a.Due.Time().Sub(r.Clock.Now())
		}
		push(1)
		time.Sleep(time.Second)
		if wait := push(2); wait < 30*time.Minute-time.Second {
			t.Errorf("it is due in %s", wait)
		}
		time.Sleep(25 * time.Minute)
		if wait := push(3); wait < 14*time.Minute || wait > 16*time.Minute {
			t.Errorf("after 25 of 40 minutes it is due in %s", wait)
		}
	})
}

// A push that is read as soon as it is stored is the later one, however slow the clock is that stamped it.
func TestMerge_WhatIsReadAtOnceIsTheLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		pay := func(body string) scheduler.Push {
			return scheduler.Push{ID: "reminder", Topic: "pay", Merge: message.MergeReplace, Body: []byte(body),
				Delay: time.Minute}
		}
		r.Push(pay("pay 100"))
		time.Sleep(time.Second)
		uid, err := message.IntakeUID(7, r.Clock.Now().Add(-5*time.Second), "reminder", "")
		if err != nil {
			t.Fatal(err)
		}
		later := pay("pay 50")
		later.UID, later.Stored, later.Since, later.Aged = uid, 7, 1, true
		if i := r.Info(r.Push(later).UID); string(i.Body) != "pay 50" {
			t.Errorf("it says %q", i.Body)
		}
	})
}

// The intake is read after a push by another door went into the message: the older push changes nothing, whether NATS
// shows its clock or, as before 2.10 and after a step of it, does not.
func TestMerge_WhatWaitedInTheIntakeIsTheOlder(t *testing.T) {
	for name, known := range map[string]bool{"age known": true, "age unknown": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t, 1, nil)
				stored := r.Clock.Now()
				uid, err := message.IntakeUID(7, stored, "reminder", "")
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Second)
				pay := func(body string) scheduler.Push {
					return scheduler.Push{ID: "reminder", Topic: "pay", Merge: message.MergeReplace, Body: []byte(body),
						Delay: time.Minute}
				}
				r.Push(pay("pay 50"))
				time.Sleep(time.Second)
				first := pay("pay 100")
				first.UID, first.Stored, first.Since = uid, 7, 1
				if known {
					first.Age, first.Aged = r.Clock.Now().Sub(stored), true
				}
				if i := r.Info(r.Push(first).UID); string(i.Body) != "pay 50" {
					t.Errorf("it says %q", i.Body)
				}
			})
		})
	}
}

// What a refusal says helps does help, whatever became of the message that has the name.
func TestAccept_SaysWhatHelpsAgainstATakenName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		push := func(id, body string, merge message.Merge, ttl time.Duration) scheduler.Accepted {
			return r.S.AcceptAll(t.Context(), []*scheduler.Push{{ID: id, Topic: "a", Delay: time.Minute, Body: []byte(body),
				Merge: merge, TTL: ttl}})[0]
		}
		for _, id := range []string{"waits", "canceled", "delivered"} {
			push(id, "1", message.MergeReject, 0)
		}
		if _, err := r.S.Cancel(t.Context(), scheduler.Ref{ID: "canceled"}); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"waits", "canceled", "delivered"} {
			if id == "delivered" {
				stop := r.Lead(r.S, 1)
				time.Sleep(2 * time.Minute)
				_ = stop(rig.ErrStop)
			}
			got := push(id, "2", message.MergeReject, 0)
			if !errors.Is(got.Err, scheduler.ErrDuplicateID) ||
				!strings.Contains(got.Err.Error(), "what helps is another id") ||
				!strings.Contains(got.Err.Error(), "on_duplicate replace") {
				t.Errorf("%s: %v", id, got.Err)
			}
			if got := push(id, "2", message.MergeReplace, 0); got.Err != nil || got.State != message.StateWaiting {
				t.Errorf("%s, with on_duplicate replace: %+v", id, got)
			}
			if got := push(id+"-2", "2", message.MergeReject, 0); got.Err != nil {
				t.Errorf("%s, under another id: %v", id, got.Err)
			}
		}
	})
}
