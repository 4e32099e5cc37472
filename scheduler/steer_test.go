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

// A consumer's retry stands beside the attempt before it while that one may
// still be published again: cancel by the name ends both, and says so (P4).
func TestCancel_ByNameEndsEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, nil)
		r.nats.answer = func(_ *scheduler.Message, nth int) scheduler.Outcome {
			return scheduler.Outcome{Kind: scheduler.Unknown, Err: errors.New("no reply")}
		}
		stop := r.lead(r.s, 1)
		byName := scheduler.Ref{ID: "order-1"}
		first := r.push(scheduler.Push{ID: "order-1", Delay: time.Second})
		time.Sleep(2 * time.Second)
		_ = stop(errStop)
		if i := r.info(first.UID); i.State != scheduler.StateWaiting || !i.Mark.Uncertain {
			t.Fatalf("the first is %s, uncertain %t", i.State, i.Mark.Uncertain)
		}
		second := r.push(scheduler.Push{ID: "order-1", Attempt: 2, Delay: time.Hour})
		if second.UID == first.UID || second.Duplicate {
			t.Fatalf("the retry is %+v", second)
		}
		if info, err := r.s.Get(t.Context(), byName); err != nil || info.UID != second.UID {
			t.Fatalf("the name finds %s, %v; want the retry %s", info.UID, err, second.UID)
		}
		for range 2 { // the second answer stays what the first was
			c, err := r.s.Cancel(t.Context(), byName)
			if err != nil || c.Code != scheduler.CancelMaybe || c.Info.UID != second.UID || !c.Info.Mark.Uncertain {
				t.Fatalf("cancel: %s of %s, %v; want maybe_delivered", c.Code, c.Info.UID, err)
			}
		}
		for _, uid := range []scheduler.UID{first.UID, second.UID} {
			if s := r.info(uid).State; s != scheduler.StateCanceled {
				t.Errorf("%s is %s", uid, s)
			}
		}
		before := len(r.nats.arrived())
		stop = r.lead(r.s, 2)
		time.Sleep(2 * time.Hour)
		_ = stop(errStop)
		if got := len(r.nats.arrived()); got != before {
			t.Errorf("%d more came after the cancel", got-before)
		}
	})
}

func TestCancel_ByNameWaitsForTheAttemptInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, nil)
		byName := scheduler.Ref{ID: "order-1"}
		first := r.push(scheduler.Push{ID: "order-1", At: 1, HasAt: true})
		claim := func(term uint64) []*scheduler.Message {
			c, err := r.store.Claim(t.Context(), 0, scheduler.Claim{Term: term, Number: term, Now: r.clock.Milli(), Limit: 10, Bytes: 1 << 20})
			if err != nil || len(c.Messages) != 1 {
				t.Fatalf("claimed %d, %v", len(c.Messages), err)
			}
			return c.Messages
		}
		taken := claim(1)
		second := r.push(scheduler.Push{ID: "order-1", Attempt: 2, Delay: time.Hour})
		for range 2 {
			c, err := r.s.Cancel(t.Context(), byName)
			if err != nil || c.Code != scheduler.CancelInFlight || c.Info.UID != first.UID {
				t.Fatalf("cancel: %s of %s, %v; want in_flight of the first", c.Code, c.Info.UID, err)
			}
		}
		if s := r.info(second.UID).State; s != scheduler.StateWaiting {
			t.Fatalf("the retry is %s although in_flight changes nothing", s)
		}
		if err := r.store.Finish(t.Context(), 0, 1, []scheduler.End{{Message: taken[0], State: scheduler.StateDelivered}}, r.clock.Milli()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			c, err := r.s.Cancel(t.Context(), byName)
			if err != nil || c.Code != scheduler.CancelDone || c.Info.UID != second.UID {
				t.Fatalf("cancel: %s of %s, %v; want the retry canceled for certain", c.Code, c.Info.UID, err)
			}
		}
	})
}
