package lead_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// What the intake was handed back while the journal was away comes again when it is there, and is the same push only as
// long as its end is remembered.
func TestRun_RemembersEndsUntilTheJournalHasBeenThereForAWhile(t *testing.T) {
	for what, away := range map[string]func(r *rig.Rig) *atomic.Bool{
		"the journal": func(r *rig.Rig) *atomic.Bool {
			j := &rig.KeptJournal{}
			r.Journal = j
			return &j.Away
		},
		"the consumer of the intake": func(r *rig.Rig) *atomic.Bool {
			var away atomic.Bool
			r.Intake = func(context.Context) error {
				if away.Load() {
					return scheduler.ErrUnavailable
				}
				return nil
			}
			return &away
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t, 1, nil)
				gone := away(r)
				stop := r.Lead(r.Scheduler(), 1)
				a := r.Push(scheduler.Push{})
				knows := func() bool {
					found, err := r.Store.Find(t.Context(), scheduler.Ref{UID: a.UID})
					if err != nil {
						t.Fatal(err)
					}
					return len(found) == 1
				}
				time.Sleep(5 * time.Minute)
				gone.Store(true)
				time.Sleep(15 * time.Minute) // longer than ends are remembered
				if !knows() {
					t.Error("the end was forgotten while it was away")
				}
				gone.Store(false)
				time.Sleep(80 * time.Second)
				if !knows() {
					t.Error("the end was forgotten before the intake had sent everything again")
				}
				time.Sleep(20 * time.Second)
				if knows() {
					t.Error("the end is never forgotten")
				}
				gone.Store(true)
				a = r.Push(scheduler.Push{})
				time.Sleep(time.Minute)
				_ = stop(rig.ErrStop)
				r.Halt()
				time.Sleep(23 * time.Hour)
				defer r.Lead(r.Scheduler(), 2)(rig.ErrStop)
				time.Sleep(49 * time.Minute)
				if !knows() {
					t.Error("the end was forgotten within a day")
				}
				time.Sleep(20 * time.Minute)
				if knows() {
					t.Error("the end was remembered for more than a day")
				}
			})
		})
	}
}
