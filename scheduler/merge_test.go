package scheduler_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
)

func TestMerge_AnswersForTheMessageThatAPushWentInto(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, nil)
		first := r.push(scheduler.Push{ID: "a", Delay: time.Hour, Body: []byte("1"), Merge: scheduler.MergeReplace})
		second := r.push(scheduler.Push{UID: "", ID: "a", Delay: time.Minute, Body: []byte("2"), Merge: scheduler.MergeReplace})
		if !second.Merged || second.UID != first.UID || second.Version != 2 || second.Due >= first.Due {
			t.Fatalf("second: %+v, first %+v", second, first)
		}
		stop := r.lead(r.s, 1)
		time.Sleep(2 * time.Minute)
		if got := r.nats.arrived(); len(got) != 1 || string(got[0].m.Body) != "2" {
			t.Errorf("arrived: %+v", got)
		}
		third := r.push(scheduler.Push{ID: "a", Body: []byte("3"), Merge: scheduler.MergeReplace})
		if third.Merged || third.UID == first.UID {
			t.Errorf("after the delivery: %+v", third)
		}
		_ = stop(errStop)
	})
}

// A push that says its own uid, as one from the intake does, is not told canceled because it went into another.
func TestMerge_ACancelByThePushesOwnUIDIsHonest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, nil)
		uid, err := scheduler.IntakeUID(7, time.Now(), "a", "")
		if err != nil {
			t.Fatal(err)
		}
		first := r.push(scheduler.Push{ID: "a", Merge: scheduler.MergeReplace, Body: []byte("1")})
		if merged := r.push(scheduler.Push{UID: uid, Stored: 7, ID: "a", Merge: scheduler.MergeReplace, Body: []byte("2")}); !merged.Merged {
			t.Fatalf("it was not merged: %+v", merged)
		}
		if i := r.info(uid); i.UID != first.UID || i.State != scheduler.StateWaiting {
			t.Errorf("it is %s, %s", i.UID, i.State)
		}
		stop := r.lead(r.s, 1)
		time.Sleep(time.Second)
		if c, err := r.s.Cancel(t.Context(), scheduler.Ref{UID: uid}); err != nil || c.Code != scheduler.CancelEnded || c.Info.State != scheduler.StateDelivered {
			t.Errorf("cancel after delivery: %s, %s, %v", c.Code, c.Info.State, err)
		}
		_ = stop(errStop)
	})
}
