package scheduler_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// keptJournal keeps everything, while it is there.
type keptJournal struct{ away atomic.Bool }

func (j *keptJournal) Ready() error {
	if j.away.Load() {
		return scheduler.ErrUnavailable
	}
	return nil
}

func (*keptJournal) Await(context.Context, []scheduler.Recorded) error { return nil }

func (*keptJournal) Find(context.Context, scheduler.Ref) ([]message.Info, error) { return nil, nil }

func (*keptJournal) Remembered(_ context.Context, pushes []*message.Message) ([][]message.Info, error) {
	return make([][]message.Info, len(pushes)), nil
}

func (*keptJournal) WritePause(context.Context, scheduler.PauseChange) error { return nil }

// What the intake was handed back while the journal was away comes again when it is there, and is the same push only as
// long as its end is remembered.
func TestRun_RemembersEndsUntilTheJournalHasBeenThereForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, nil)
		j := &keptJournal{}
		r.journal = j
		stop := r.lead(r.scheduler(), 1)
		defer stop(errStop)
		a := r.push(scheduler.Push{})
		knows := func() bool {
			found, err := r.store.Find(t.Context(), scheduler.Ref{UID: a.UID})
			if err != nil {
				t.Fatal(err)
			}
			return len(found) == 1
		}
		time.Sleep(5 * time.Minute)
		j.away.Store(true)
		time.Sleep(15 * time.Minute) // longer than ends are remembered
		if !knows() {
			t.Error("the end was forgotten while the journal was away")
		}
		j.away.Store(false)
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
