package scheduler_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// The answer to a push that merges is lost, and it is delivered meanwhile. Repeated with the uid from the answer it is
// the same push: the message itself, or one that was merged into another.
func TestAccept_KnowsTheRepeatOfAMergingPushByItsUID(t *testing.T) {
	for name, merges := range map[string]bool{"a message of its own": false, "merged into another": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &rig.Shaky{After: true}
				r := rig.NewShaky(t, 1, store)
				stop := r.Lead(r.S, 1)
				push := scheduler.Push{ID: "reminder", Topic: "a", Delay: time.Minute, Merge: message.MergeReplace,
					Body: []byte("pay 100")}
				if merges {
					first := push
					first.Body = []byte("pay 50")
					r.Push(first)
				}
				store.Fail = []error{scheduler.ErrOutcomeUnknown, scheduler.ErrOutcomeUnknown, scheduler.ErrOutcomeUnknown}
				a := try(r, push)
				if !errors.Is(a.Err, scheduler.ErrOutcomeUnknown) || a.UID == "" {
					t.Fatalf("%+v", a)
				}
				time.Sleep(5 * time.Minute)
				push.UID = a.UID
				if again := try(r, push); again.Err != nil || !again.Duplicate && !again.Merged ||
					again.State != message.StateDelivered {
					t.Errorf("repeated: %+v", again)
				}
				time.Sleep(5 * time.Minute)
				if got := r.Nats.Arrived(); len(got) != 1 || string(got[0].M.Body) != "pay 100" {
					t.Errorf("%d deliveries: %+v", len(got), got)
				}
				_ = stop(rig.ErrStop)
			})
		})
	}
}

// Repeated after the timeline has forgotten it, and after its name has got a later life, it is still the same push.
func TestAccept_KnowsTheRepeatOfAMergingPushAfterALaterLifeOfItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, j := remembering(t, false)
		push := scheduler.Push{ID: "reminder", Topic: "orders", Delay: time.Second, Merge: message.MergeReplace,
			Body: []byte("old")}
		first := try(r, push)
		if result, err := r.S.Cancel(t.Context(), scheduler.Ref{UID: first.UID}); err != nil {
			t.Fatalf("%s, %v", result.Code, err)
		}
		ended := r.Info(first.UID)
		j.known = []message.Info{ended}
		time.Sleep(15 * time.Minute)
		if _, err := r.Store.Trim(t.Context(), first.UID.Bucket(2), 0, r.Clock.Milli(), 10); err != nil {
			t.Fatal(err)
		}
		next := push
		next.Delay, next.Body = time.Hour, []byte("new")
		later := try(r, next)
		push.UID = first.UID
		if a := try(r, push); a.Err != nil || !a.Duplicate || a.UID != first.UID || a.State != message.StateCanceled {
			t.Errorf("repeated: %+v; want the first, %s", a, first.UID)
		}
		if i := r.Info(later.UID); string(i.Body) != "new" || i.Version != 1 {
			t.Errorf("the later life has %q, version %d", i.Body, i.Version)
		}
	})
}
