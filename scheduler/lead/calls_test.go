package lead_test

import (
	"context"
	"fmt"
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
	now message.Milli) error {
	a.finishes.Add(1)
	return a.Timeline.Finish(ctx, bucket, term, ends, now)
}

// While nothing is due a leader reads the heads, all in one call, and asks a bucket alone every 5 s.
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
		if n := a.leases.Load() - leases; n > 4*13 {
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

// What is held back is in flight for no longer than one beat of what failed.
func TestRun_PutsAsideAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		stop := r.Lead(r.S, 1)
		if _, err := r.S.Pause(t.Context(), "a", "somebody"); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			a := r.Push(scheduler.Push{Topic: "a", Delay: 13 * time.Millisecond})
			time.Sleep(22 * time.Millisecond)
			if i := r.Info(a.UID); i.State != message.StateWaiting || i.Mark.Lane == "" {
				t.Errorf("9 ms after it was due it is %s in the lane %q", i.State, i.Mark.Lane)
			}
		}
		_ = stop(rig.ErrStop)
	})
}

// A window smaller than what is ended together does not wait for the end of the pause.
func TestRun_EndsAFullWindowAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		r.Window = 50
		s := r.Scheduler()
		stop := r.Lead(s, 1)
		for range 1000 {
			r.Push(scheduler.Push{Topic: "a", Delay: time.Second})
		}
		time.Sleep(time.Second + 150*time.Millisecond)
		if n := len(r.Nats.Arrived()); n != 1000 {
			t.Errorf("%d of 1000 arrived in 150 ms, 50 at a time", n)
		}
		_ = stop(rig.ErrStop)
	})
}

// slowTrim is a timeline that takes the whole time of a call to forget nothing.
type slowTrim struct{ scheduler.Timeline }

func (s slowTrim) Trim(ctx context.Context, _ message.Bucket, _ uint64, _ message.Milli, _ int) (int, error) {
	<-ctx.Done()
	return 0, scheduler.ErrUnavailable
}

// What is forgotten slowly holds up no lease that is over.
func TestRun_EndsLeasesWhileItForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 4, nil)
		s := r.Over(slowTrim{r.Store}, r.Nats)
		stop := r.Lead(s, 1)
		for n := range 20 {
			topic := fmt.Sprint("work", n)
			a := r.Push(scheduler.Push{Topic: topic, Deliver: scheduler.DeliverPull})
			found, err := r.S.Pull(t.Context(), scheduler.Poll{Topic: topic, Max: 1, Bytes: 1 << 20, Lease: time.Second})
			if err != nil || len(found) != 1 {
				t.Fatalf("pulled %d: %v", len(found), err)
			}
			time.Sleep(time.Second + lapseLook)
			if i := r.Info(a.UID); i.State == message.StateInFlight {
				t.Errorf("%s after its lease was over it is %s", lapseLook, i.State)
			}
			time.Sleep(770 * time.Millisecond)
		}
		_ = stop(rig.ErrStop)
	})
}
