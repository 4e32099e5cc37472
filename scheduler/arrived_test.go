package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// A push that was acknowledged by the intake and is asked for at once is waited for; what is known pays nothing (P4).
func TestSteer_WaitsForTheIntakeBeforeAnIDIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, nil)
		waits := 0
		arrive := func(id string) {
			r.Passed = func() scheduler.Passage {
				waits++
				r.Push(scheduler.Push{ID: id, Topic: "a", Delay: time.Hour})
				return scheduler.PassedAll
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

		// What lives is known, and nobody learns a uid before its message is accepted.
		for _, ref := range []scheduler.Ref{{ID: "got"}, {UID: "t-000000000000000a"}} {
			_, _ = r.S.Get(t.Context(), ref)
			_, _ = r.S.Reschedule(t.Context(), ref, scheduler.Edit{Run: true})
			_, _ = r.S.Cancel(t.Context(), ref)
		}
		if waits != 3 {
			t.Errorf("%d waits, want none for these", waits-3)
		}

		// Nothing came, or there was no waiting: unknown.
		for _, passed := range []scheduler.Passage{scheduler.PassedNothing, scheduler.PassedAll, scheduler.PassedSome,
			scheduler.PassedUnknown} {
			r.Passed = func() scheduler.Passage { waits++; return passed }
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

// A name that is used again has an earlier life that has ended. An answer about that life, while the next push is in
// the intake, would let the push through that the caller meant.
func TestSteer_WaitsForTheNextPushOfANameThatEnded(t *testing.T) {
	calls := map[string]func(*rig.Rig, scheduler.Ref) (message.Info, error){
		"get": func(r *rig.Rig, ref scheduler.Ref) (message.Info, error) { return r.S.Get(r.T.Context(), ref) },
		"reschedule": func(r *rig.Rig, ref scheduler.Ref) (message.Info, error) {
			result, err := r.S.Reschedule(r.T.Context(), ref, scheduler.Edit{Run: true})
			return result.Info, err
		},
		"cancel": func(r *rig.Rig, ref scheduler.Ref) (message.Info, error) {
			result, err := r.S.Cancel(r.T.Context(), ref)
			return result.Info, err
		},
	}
	for name, call := range calls {
		for passed, comes := range map[scheduler.Passage]bool{scheduler.PassedAll: true, scheduler.PassedSome: true,
			scheduler.PassedUnknown: false} {
			t.Run(fmt.Sprint(name, passed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := rig.New(t, 2, nil)
					push := scheduler.Push{ID: "reminder", Topic: "a", Delay: time.Hour, Merge: message.MergeReplace}
					first := r.Push(push)
					if _, err := r.S.Cancel(t.Context(), scheduler.Ref{UID: first.UID}); err != nil {
						t.Fatal(err)
					}
					r.Passed = func() scheduler.Passage {
						if comes {
							r.Push(push)
						}
						return passed
					}
					info, err := call(r, scheduler.Ref{ID: "reminder", Topic: "a"})
					if err != nil || (info.UID != first.UID) != comes || info.IntakeUnknown == comes {
						t.Errorf("it is about %s, the first was %s; unknown: %v; %v", info.UID, first.UID, info.IntakeUnknown,
							err)
					}
				})
			})
		}
	}
}

// endedLife is a journal that remembers one delivered message by its name.
type endedLife struct {
	rig.KeptJournal
	info message.Info
}

func (j *endedLife) Find(_ context.Context, ref scheduler.Ref) ([]message.Info, error) {
	if ref.ID == j.info.ID {
		return []message.Info{j.info}, nil
	}
	return nil, nil
}

// A cancel that says "already delivered" cancels nothing: not the next push either, which the intake still holds.
func TestCancel_OfANameThatTheJournalRemembersCancelsNoLaterPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delivered := message.Info{Message: message.Message{UID: "t-000000000000000a", ID: "reminder", Topic: "a"},
			State: message.StateDelivered}
		r := rig.New(t, 2, nil)
		r.Journal = &endedLife{info: delivered}
		r.S = r.Scheduler()
		r.Serve(r.S)
		r.Backlog, r.Passed = 7, func() scheduler.Passage { return scheduler.PassedSome }
		result, err := r.S.Cancel(t.Context(), scheduler.Ref{ID: "reminder", Topic: "a"})
		if err != nil || result.Code != scheduler.CancelEnded || !result.Info.IntakeUnknown || result.Buried {
			t.Fatalf("%s, unknown: %v, buried: %v, %v", result.Code, result.Info.IntakeUnknown, result.Buried, err)
		}
		next := r.Push(scheduler.Push{ID: "reminder", Topic: "a", Delay: time.Hour, Stored: 7})
		if next.State != message.StateWaiting {
			t.Errorf("the next push was accepted as %s", next.State)
		}
	})
}
