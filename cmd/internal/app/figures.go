package app

import (
	"context"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// figures reads how many messages wait, in the store and before it. Scrapes and viewers of a second share one reading,
// so it costs nothing while nobody looks. It needs no leader: every instance reads the same.
type figures struct {
	a *App

	mu   sync.Mutex
	when time.Time // of the last reading
	last reading
}

// reading is what was read. What could not be read is nil.
type reading struct {
	at  message.Milli
	sum *scheduler.Total
	// disputed is for how many seconds a message has been due by one clock and, because they disagree, not by the one that
	// decides.
	disputed float64
	held     *intake.Held
}

// figuresKeep is how long a reading is shared.
const figuresKeep = time.Second

// read returns the figures, or those read a moment ago.
func (f *figures) read(ctx context.Context) reading {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.when) > figuresKeep {
		// One viewer that goes away does not spoil it for the others. The bound is below the usual time-out of scrapers.
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.a.callTimeout())
		f.last = f.look(call)
		f.when = time.Now()
		cancel()
	}
	return f.last
}

// look reads the store and NATS side by side.
func (f *figures) look(ctx context.Context) (r reading) {
	var wait ops.Together
	wait.Go(func() {
		if held, err := f.a.contents.Held(ctx); err == nil {
			r.held = &held
		}
	})
	at := f.a.clock.Milli()
	sum, disputed := f.totals(ctx, at), 0.0
	if sum != nil {
		disputed = f.disputed(ctx, at, sum)
	}
	wait.Wait()
	r.at, r.sum, r.disputed = at, sum, disputed
	return r
}

// totals returns what is due at a time, nil if that cannot be read.
func (f *figures) totals(ctx context.Context, at message.Milli) *scheduler.Total {
	if f.a.gate.admit() != nil {
		return nil
	}
	totals, err := f.a.store.Totals(ctx, at)
	if err != nil {
		return nil
	}
	sum := new(scheduler.Total)
	for _, t := range totals {
		sum.Add(t)
	}
	return sum
}

func (f *figures) disputed(ctx context.Context, now message.Milli, due *scheduler.Total) float64 {
	latest := message.Milli(f.a.clock.Latest().UnixMilli())
	if latest-now < clockDispute {
		return 0
	}
	sum := f.totals(ctx, latest)
	if sum == nil {
		return 0
	}
	by := sum.Waiting[message.HoldNone]
	if by.Overdue <= due.Waiting[message.HoldNone].Overdue {
		return 0
	}
	return float64(latest-max(by.Oldest, now)) / 1000
}

// clockDispute is how far the clocks must be apart before messages count as held by them, in ms.
const clockDispute message.Milli = 100
