package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/deploy/bench/internal/load"
	"github.com/tarry-mq/tarry/deploy/bench/internal/report"
	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
)

func (b bench) tarryLate(rate, viewers int) run {
	return func(ctx context.Context, s *stage.Scope) (Outcome, error) {
		t, c, err := b.tarry(ctx, s)
		if err != nil {
			return Outcome{}, err
		}
		looking, leave := context.WithCancel(ctx)
		defer leave()
		saw := make(chan error, viewers)
		for range viewers {
			go func() { saw <- view(looking, t.URL) }()
		}
		o, err := b.late(ctx, s, c, rate, t.Processes(), b.tagged)
		leave()
		for range viewers {
			err = errors.Join(err, <-saw)
		}
		return o, err
	}
}

// view asks what a console that shows its Overview asks, as often, until ctx ends.
func view(ctx context.Context, url string) error {
	asks := []struct {
		path  string
		every time.Duration
		next  time.Time
	}{{path: "overview", every: 2 * time.Second}, {path: "events?limit=6", every: 5 * time.Second},
		{path: "series", every: 10 * time.Second}, {path: "forecast?by=topic&top=5", every: 15 * time.Second}}
	for ctx.Err() == nil {
		for i := range asks {
			ask := &asks[i]
			if time.Now().Before(ask.next) {
				continue
			}
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/"+ask.path, nil)
			if err != nil {
				return fmt.Errorf("view: %w", err)
			}
			answer, err := http.DefaultClient.Do(r)
			if err == nil {
				_, err = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
				if err == nil && answer.StatusCode != http.StatusOK {
					return fmt.Errorf("view %s: %s", ask.path, answer.Status)
				}
			}
			if err != nil && ctx.Err() == nil {
				return fmt.Errorf("view %s: %w", ask.path, err)
			}
			ask.next = time.Now().Add(ask.every)
		}
		_ = load.SleepUntil(ctx, time.Now().Add(100*time.Millisecond))
	}
	return nil
}

func (b bench) schedulesLate(rate int) run {
	return func(ctx context.Context, s *stage.Scope) (Outcome, error) {
		c, process, err := b.schedules(ctx, s)
		if err != nil {
			return Outcome{}, err
		}
		return b.late(ctx, s, c, rate, []stage.Process{process, stage.This()}, b.scheduled)
	}
}

// bareLate is what no scheduler can be below: a producer's own timer, one publish, one delivery.
func (b bench) bareLate(rate int) run {
	return func(ctx context.Context, s *stage.Scope) (Outcome, error) {
		c, process, err := b.bare(ctx, s, inFlight)
		if err != nil {
			return Outcome{}, err
		}
		began := time.Now()
		return b.lateness(ctx, s, c, rate, []stage.Process{process, stage.This()}, func(n int) (time.Time, *nats.Msg) {
			due := began.Add(200*time.Millisecond + time.Duration(
				float64(n)/float64(rate)*float64(time.Second))).Truncate(time.Millisecond)
			_ = load.SleepUntil(ctx, due) // the pace is the same; this is the rest until the whole millisecond
			return due, b.plain(n)
		})
	}
}

// late pushes at a rate while it receives. Both systems get the same moments, in whole milliseconds, by one clock.
func (b bench) late(ctx context.Context, s *stage.Scope, c *load.Client, rate int, processes []stage.Process,
	message func(int, time.Time) *nats.Msg) (Outcome, error) {
	return b.lateness(ctx, s, c, rate, processes, func(n int) (time.Time, *nats.Msg) {
		due := time.UnixMilli(time.Now().Add(b.delay(n)).UnixMilli())
		return due, message(n, due)
	})
}

// lateness asks for a message and its due time when its turn to be published has come.
func (b bench) lateness(ctx context.Context, s *stage.Scope, c *load.Client, rate int, processes []stage.Process,
	next func(int) (time.Time, *nats.Msg)) (Outcome, error) {
	want := int(float64(rate) * b.plan.For.Seconds())
	dues := make([]atomic.Int64, want)
	ledger := load.NewLedger(b.bodies, want, func(n int) time.Time { return time.UnixMilli(dues[n].Load()) })
	stop, err := b.receive(ctx, s, c, ledger)
	if err != nil {
		return Outcome{}, err
	}
	defer stop()
	cost, err := stage.Watch(processes...)
	if err != nil {
		return Outcome{}, err
	}
	sent, err := c.Paced(ctx, producers, want, float64(rate), func(n int) *nats.Msg {
		due, msg := next(n)
		dues[n].Store(due.UnixMilli())
		return msg
	})
	if err != nil {
		return Outcome{}, err
	}
	if err := ledger.Wait(ctx, time.Now().Add(b.plan.Longest)); err != nil {
		return Outcome{}, err
	}
	values := report.Values{report.Rate: sent.Rate(), report.Messages: float64(want)}
	lateness(values, ledger.Lateness())
	if err := percents(values, cost); err != nil {
		return Outcome{}, err
	}
	o, err := b.judged(ctx, c, ledger, values)
	if fault, ok := b.plan.paced(sent); !ok {
		o.Faults = append(o.Faults, fault)
	}
	return o, err
}

// delay is how long message n of a lateness test waits.
func (b bench) delay(n int) time.Duration {
	return b.plan.Shortest + time.Duration(load.Spread(n)*float64(b.plan.Longest-b.plan.Shortest))
}
