package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// slowCancel takes its time for a cancel, and knows the outcome only while the caller waits for it. From the n-th on it
// does fails, which may be nil.
type slowCancel struct {
	scheduler.Timeline
	begun atomic.Int64
	n     int64
	fails func(nth int64) error
}

func (s *slowCancel) Cancel(ctx context.Context, ref scheduler.Ref,
	now message.Milli) (scheduler.CancelResult, error) {
	nth := s.begun.Add(1)
	time.Sleep(10 * time.Millisecond)
	if s.fails != nil && nth >= s.n {
		return scheduler.CancelResult{}, s.fails(nth)
	}
	result, err := s.Timeline.Cancel(context.WithoutCancel(ctx), ref, now)
	if ctx.Err() != nil {
		return scheduler.CancelResult{}, fmt.Errorf("%w: %w", scheduler.ErrOutcomeUnknown, context.Cause(ctx))
	}
	return result, err
}

// canceling is a rig over such a store that holds 400 messages.
func canceling(t *testing.T, store *slowCancel) (r *rig.Rig, waiting func() int) {
	t.Helper()
	r = rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
	for range 400 {
		r.Push(scheduler.Push{Delay: time.Hour})
	}
	return r, func() int {
		count, err := r.S.TopicCount(t.Context(), "orders")
		if err != nil {
			t.Fatalf("count: %v", err)
		}
		return count.Waiting
	}
}

func TestMany_ThatIsEndedReportsWhatWasDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowCancel{}
		r, waiting := canceling(t, store)
		ctx, end := context.WithCancelCause(t.Context())
		time.AfterFunc(35*time.Millisecond, func() { end(scheduler.ErrStopping) })
		report, err := r.S.CancelMany(ctx, scheduler.Selection{}, nil)
		if !errors.Is(err, scheduler.ErrStopping) || errors.Is(err, scheduler.ErrOutcomeUnknown) {
			t.Errorf("it ended with %v", err)
		}
		if left := waiting(); report.Done == 0 || report.Done != 400-left || report.Failed > 0 ||
			report.Matched != 400 {
			t.Errorf("%+v, and %d wait", report, left)
		}
		if n := int(store.begun.Load()); n != report.Done {
			t.Errorf("%d were begun, %d were done", n, report.Done)
		}
	})
}

func TestMany_BeginsNoMoreOnceTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowCancel{n: 100, fails: func(nth int64) error {
			if nth == 100 {
				return scheduler.ErrOutcomeUnknown
			}
			return scheduler.ErrUnavailable
		}}
		r, waiting := canceling(t, store)
		report, err := r.S.CancelMany(t.Context(), scheduler.Selection{}, nil)
		if !errors.Is(err, scheduler.ErrOutcomeUnknown) { // what may have happened is reported before what has not
			t.Errorf("it ended with %v", err)
		}
		// The one that got no reply was asked for twice.
		if n := int(store.begun.Load()) - 1; n > 99+64 || report.Done+report.Failed != n || report.Done != 99 ||
			report.Done != 400-waiting() {
			t.Errorf("%d were begun: %+v", n, report)
		}
	})
}

// What is in flight during a cancel of many, and comes back, waits where the walk has been already.
func TestMany_LooksAgainAtWhatWasInFlight(t *testing.T) {
	for dry, want := range map[bool]scheduler.Report{
		false: {Looked: 1, Matched: 4, Done: 2, Ended: 1, InFlight: 1}, true: {Looked: 1, Matched: 4, InFlight: 3},
	} {
		t.Run(fmt.Sprint("dry run ", dry), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t, 1, nil)
				for _, topic := range []string{"orders", "orders", "orders", "mail"} {
					r.Push(scheduler.Push{Topic: topic})
				}
				r.Push(scheduler.Push{Topic: "orders", Delay: time.Hour})
				if err := r.Store.Begin(t.Context(), 0, 1); err != nil {
					t.Fatal(err)
				}
				claimed, err := r.Store.Claim(t.Context(), 0,
					scheduler.Claim{Term: 1, Number: 1, Now: r.Clock.Milli(), Limit: 4, Bytes: 1 << 20})
				if err != nil || len(claimed.Messages) != 4 {
					t.Fatalf("%+v, %v", claimed, err)
				}
				orders := claimed.Messages[:0:0]
				for _, m := range claimed.Messages {
					if m.Topic == "orders" {
						orders = append(orders, m)
					}
				}
				time.AfterFunc(time.Second, func() {
					err := r.Store.Return(context.Background(), 0, 1,
						[]scheduler.Back{{UID: orders[0].UID, Claim: 1, Keep: true}}, r.Clock.Milli())
					err2 := r.Store.Finish(context.Background(), 0, 1,
						[]scheduler.End{{Message: orders[1], State: message.StateDelivered}}, r.Clock.Milli())
					if err := errors.Join(err, err2); err != nil {
						t.Error(err)
					}
				})
				r.Passed = func() scheduler.Passage { return scheduler.PassedSome }
				report, err := r.S.CancelMany(t.Context(), scheduler.Selection{Topic: "orders", DryRun: dry}, nil)
				want.IntakeUnknown = true
				if err != nil || report != want {
					t.Errorf("%+v, %v; want %+v", report, err, want)
				}
			})
		})
	}
}
