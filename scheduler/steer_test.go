package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
)

// mute answers no look-up.
type mute struct{ scheduler.Timeline }

func (mute) Find(context.Context, scheduler.Ref) ([]scheduler.Info, error) {
	return nil, fmt.Errorf("%w: no reply", scheduler.ErrOutcomeUnknown)
}

func TestSteer_ALookUpWithoutAReplyIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { return mute{tl} })
		a := r.push(scheduler.Push{Delay: time.Hour})
		_, err := r.s.Get(t.Context(), scheduler.Ref{UID: a.UID})
		_, cancelErr := r.s.Cancel(t.Context(), scheduler.Ref{UID: a.UID})
		for _, err := range []error{err, cancelErr} {
			if !errors.Is(err, scheduler.ErrUnavailable) || errors.Is(err, scheduler.ErrOutcomeUnknown) {
				t.Errorf("got %v; nothing was changed, so there is no outcome", err)
			}
		}
	})
}
