package lead_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// asked counts the calls of a timeline that a leader makes again and again.
type asked struct {
	scheduler.Timeline
	heads, leases, trims, finishes atomic.Int64
}

func (a *asked) Heads(ctx context.Context) ([]scheduler.Head, error) {
	a.heads.Add(1)
	return a.Timeline.Heads(ctx)
}

func (a *asked) Leases(ctx context.Context, bucket message.Bucket, q scheduler.LeaseQuery,
	now message.Milli) (scheduler.LeasePage, error) {
	a.leases.Add(1)
	return a.Timeline.Leases(ctx, bucket, q, now)
}

func (a *asked) Trim(ctx context.Context, bucket message.Bucket, term uint64, now message.Milli,
	limit int) (int, error) {
	a.trims.Add(1)
	return a.Timeline.Trim(ctx, bucket, term, now, limit)
}

func (a *asked) Finish(ctx context.Context, bucket message.Bucket, term uint64, ends []scheduler.End,
	now message.Milli) (scheduler.Effect, error) {
	a.finishes.Add(1)
	return a.Timeline.Finish(ctx, bucket, term, ends, now)
}

// While nothing is due a leader reads the heads, all in one call, and asks no bucket alone.
func TestRun_AsksLittleWhileNothingIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 4, nil)
		a := &asked{Timeline: r.Store}
		s := r.Over(a, r.Nats)
		stop := r.Lead(s, 1)
		r.Push(scheduler.Push{Topic: "a", Delay: time.Hour})
		time.Sleep(time.Minute)
		heads, leases, trims := a.heads.Load(), a.leases.Load(), a.trims.Load()
		time.Sleep(time.Minute)
		if n := a.heads.Load() - heads; n > 61 {
			t.Errorf("the heads were read %d times in a minute", n)
		}
		if n := a.leases.Load() - leases; n > 0 {
			t.Errorf("leases that are over were looked for %d times", n)
		}
		if n := a.trims.Load() - trims; n > 4*13 {
			t.Errorf("four buckets were trimmed %d times, while nothing had ended", n)
		}
		_ = stop(rig.ErrStop)
	})
}

// Deliveries that come one by one are ended together.
func TestRun_EndsDeliveriesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		a := &asked{Timeline: r.Store}
		s := r.Over(a, r.Nats)
		stop := r.Lead(s, 1)
		const messages = 500
		last := scheduler.Accepted{}
		for i := range messages {
			last = r.Push(scheduler.Push{Topic: "a", Delay: time.Second + time.Duration(i)*time.Millisecond})
		}
		time.Sleep(time.Second + (messages+30)*time.Millisecond)
		if i := r.Info(last.UID); i.State != message.StateDelivered {
			t.Errorf("the last is %s", i.State)
		}
		if n := a.finishes.Load(); n > messages/20+2 {
			t.Errorf("%d messages in %d ms were ended by %d calls", messages, messages, n)
		}
		_ = stop(rig.ErrStop)
	})
}
