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
