package scheduler_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// What the last push of a name became is the answer: a reject, unless something of the name lives or came later.
func TestGet_TellsThatTheLastPushWasRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, nil)
		journal := &rig.KeptJournal{}
		r.Journal = journal
		r.S = r.Scheduler()
		r.Serve(r.S)
		ref := scheduler.Ref{ID: "reminder", Topic: "a"}
		rejected := func() bool {
			t.Helper()
			_, err := r.S.Get(t.Context(), ref)
			why := (*scheduler.RejectedError)(nil)
			if errors.As(err, &why) && (why.Reason != "too_large: it is" || !errors.Is(err, scheduler.ErrRejected)) {
				t.Fatalf("got %v", err)
			}
			return why != nil
		}
		before := scheduler.Rejected{UID: "t-000000000000000a", ID: "reminder", Topic: "a", Reason: "too_large: it is"}
		journal.Refused = []scheduler.Rejected{before}
		if !rejected() {
			t.Error("nothing else has the name")
		}
		if _, err := r.S.Cancel(t.Context(), ref); err != nil {
			t.Errorf("a cancel is answered with %v", err)
		}
		r.Passed = func() scheduler.Passage { return scheduler.PassedSome }
		if _, err := r.S.Get(t.Context(), ref); !errors.Is(err, scheduler.ErrInIntake) {
			t.Errorf("a later push may be in the intake: %v", err)
		}
		r.Passed = nil
		first := r.Push(scheduler.Push{ID: "reminder", Topic: "a", Delay: time.Hour})
		after := before
		after.UID = "t-zzzzzzzzzzzzzzzz"
		journal.Refused = []scheduler.Rejected{after, before}
		if rejected() {
			t.Error("a living message comes first")
		}
		if result, err := r.S.Cancel(t.Context(), scheduler.Ref{UID: first.UID}); err != nil ||
			result.Code != scheduler.CancelDone {
			t.Fatalf("%s, %v", result.Code, err)
		}
		if !rejected() {
			t.Error("the push that was rejected came after the end")
		}
		journal.Refused = []scheduler.Rejected{before}
		if rejected() {
			t.Error("the push that was rejected came before the message that ended")
		}
	})
}
