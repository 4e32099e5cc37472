package lead_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// What the intake was handed back while the journal was away comes again when it is there, and is the same push only as
// long as its end is remembered.
func TestRun_RemembersEndsUntilTheJournalHasBeenThereForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		j := &rig.KeptJournal{}
		r.Journal = j
		stop := r.Lead(r.Scheduler(), 1)
		defer stop(rig.ErrStop)
		a := r.Push(scheduler.Push{})
		knows := func() bool {
			found, err := r.Store.Find(t.Context(), scheduler.Ref{UID: a.UID})
			if err != nil {
				t.Fatal(err)
			}
			return len(found) == 1
		}
		time.Sleep(5 * time.Minute)
		j.Away.Store(true)
		time.Sleep(15 * time.Minute) // longer than ends are remembered
		if !knows() {
			t.Error("the end was forgotten while the journal was away")
		}
		j.Away.Store(false)
		time.Sleep(80 * time.Second)
		if !knows() {
			t.Error("the end was forgotten before the intake had sent everything again")
		}
		time.Sleep(20 * time.Second)
		if knows() {
			t.Error("the end is never forgotten")
		}
	})
}
