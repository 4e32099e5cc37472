package scheduler_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// sentAfter counts the messages of a topic that were handed over after a moment.
func sentAfter(r *rig.Rig, topic string, moment time.Time) (n int) {
	for _, a := range r.Nats.Arrived() {
		if a.M.Topic == topic && a.At.After(moment) {
			n++
		}
	}
	return n
}

func TestPause_AtAStandbyAnswersWhenTheLeaderHasTakenItOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, nil)
		r.Ask = func(ctx context.Context) error {
			time.Sleep(20 * time.Millisecond) // the way there
			if leads, err := r.S.ReadPauses(ctx); err != nil || !leads {
				return errors.Join(err, errors.New("it does not lead"))
			}
			return nil
		}
		standby := r.Scheduler()
		stop := r.Lead(r.S, 1)
		defer func() { _ = stop(rig.ErrStop) }()
		for i := range 4000 { // one a millisecond, for four seconds
			r.Push(scheduler.Push{Topic: "orders.a", Delay: time.Duration(i) * time.Millisecond})
		}
		time.Sleep(1100 * time.Millisecond)
		inEffect, err := standby.Pause(t.Context(), "orders.>", "ops")
		if err != nil || !inEffect {
			t.Fatalf("pause: %t, %v", inEffect, err)
		}
		paused := time.Now()
		time.Sleep(1500 * time.Millisecond)
		if n := sentAfter(r, "orders.a", paused); n > 0 {
			t.Errorf("%d messages left after the answer", n)
		}
		was, inEffect, err := standby.Resume(t.Context(), "orders.>")
		if err != nil || !was || !inEffect {
			t.Fatalf("resume: %t, %t, %v", was, inEffect, err)
		}
		resumed := time.Now()
		time.Sleep(100 * time.Millisecond)
		if n := sentAfter(r, "orders.a", resumed.Add(-1)); n < 1000 {
			t.Errorf("%d messages left within a tenth of a second of the resume", n)
		}
	})
}

func TestPause_SaysWhenTheLeaderHasNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		r.Ask = func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		standby := r.Scheduler()
		stop := r.Lead(r.S, 1)
		defer func() { _ = stop(rig.ErrStop) }()
		for i := range 4000 {
			r.Push(scheduler.Push{Topic: "orders.a", Delay: time.Duration(i) * time.Millisecond})
		}
		time.Sleep(300 * time.Millisecond)
		asked := time.Now()
		inEffect, err := standby.Pause(t.Context(), "orders.>", "ops")
		if err != nil || inEffect || time.Since(asked) > 2*time.Second {
			t.Fatalf("pause: in effect %t, %v, after %s", inEffect, err, time.Since(asked))
		}
		time.Sleep(time.Until(asked.Add(1050 * time.Millisecond)))
		if n := sentAfter(r, "orders.a", asked.Add(1050*time.Millisecond)); n > 0 {
			t.Errorf("%d messages left more than a second after the pause", n)
		}
		if was, inEffect, err := standby.Resume(t.Context(), "orders.>"); !was || inEffect || err != nil {
			t.Errorf("resume: %t, in effect %t, %v", was, inEffect, err)
		}
	})
}

func TestPause_WaitsForWhatIsBeingHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		r.Nats.Hands = func() { time.Sleep(50 * time.Millisecond) }
		stop := r.Lead(r.S, 1)
		defer func() { _ = stop(rig.ErrStop) }()
		for range 10 {
			r.Push(scheduler.Push{Topic: "orders.a", Delay: 100 * time.Millisecond})
		}
		time.Sleep(200 * time.Millisecond) // they are being handed over
		if inEffect, err := r.S.Pause(t.Context(), "orders.>", "ops"); err != nil || !inEffect {
			t.Fatalf("pause: %t, %v", inEffect, err)
		}
		paused := time.Now()
		time.Sleep(5 * time.Second)
		if n := sentAfter(r, "orders.a", paused); n > 0 {
			t.Errorf("%d messages left after the answer", n)
		}
	})
}
