package scheduler_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// A push that was acknowledged by the intake and is asked for at once is waited for; what is known pays nothing (P4).
func TestSteer_WaitsForTheIntakeBeforeAnIDIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, nil)
		waits := 0
		arrive := func(id string) {
			r.Passed = func() bool {
				waits++
				r.Push(scheduler.Push{ID: id, Topic: "a", Delay: time.Hour})
				return true
			}
		}
		arrive("got")
		if info, err := r.S.Get(t.Context(), scheduler.Ref{ID: "got"}); err != nil || info.ID != "got" || waits != 1 {
			t.Errorf("get: %+v, %v after %d waits", info, err, waits)
		}
		arrive("canceled")
		result, err := r.S.Cancel(t.Context(), scheduler.Ref{ID: "canceled"})
		if err != nil || result.Code != scheduler.CancelDone || waits != 2 {
			t.Errorf("cancel: %s, %v after %d waits", result.Code, err, waits)
		}
		arrive("moved")
		moved, err := r.S.Reschedule(t.Context(), scheduler.Ref{ID: "moved"}, scheduler.Edit{Run: true})
		if err != nil || moved.Code != scheduler.AmendDone || waits != 3 {
			t.Errorf("reschedule: %s, %v after %d waits", moved.Code, err, waits)
		}

		// What is known by now, and a uid, which nobody learns before its message is accepted.
		for _, ref := range []scheduler.Ref{{ID: "got"}, {ID: "canceled"}, {UID: "t-000000000000000a"}} {
			_, _ = r.S.Get(t.Context(), ref)
			_, _ = r.S.Reschedule(t.Context(), ref, scheduler.Edit{Run: true})
			_, _ = r.S.Cancel(t.Context(), ref)
		}
		if waits != 3 {
			t.Errorf("%d waits, want none for these", waits-3)
		}

		// Nothing came, or there was no waiting: unknown.
		for _, again := range []bool{true, false} {
			r.Passed = func() bool { waits++; return again }
			before := waits
			if _, err := r.S.Get(t.Context(), scheduler.Ref{ID: "nobody"}); !errors.Is(err, scheduler.ErrUnknownID) {
				t.Errorf("get: %v", err)
			}
			if result, err := r.S.Cancel(t.Context(), scheduler.Ref{ID: "nobody"}); err != nil ||
				result.Code != scheduler.CancelUnknown {
				t.Errorf("cancel: %s, %v", result.Code, err)
			}
			if waits != before+2 {
				t.Errorf("%d waits, want one for each call", waits-before)
			}
		}
	})
}
