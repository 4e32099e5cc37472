package measure

import (
	"context"
	"time"

	"github.com/tarry-mq/tarry/deploy/bench/internal/load"
	"github.com/tarry-mq/tarry/deploy/bench/internal/report"
	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
)

func (b bench) tarryPending(ctx context.Context, s *stage.Scope) (Outcome, error) {
	t, _, err := b.tarry(ctx, s)
	if err != nil {
		return Outcome{}, err
	}
	used, err := t.Redis.UsedMemory(ctx)
	if err != nil {
		return Outcome{}, err
	}
	began := time.Now()
	batches := b.batches(t, func(n int) time.Time { return began.Add(farOff(n)) })
	values, err := b.pending(ctx, t.Redis.Pid(), t.Processes(), func() (load.Sent, error) {
		return batches.Send(ctx, b.plan.Messages, time.Hour)
	})
	if err != nil {
		return Outcome{}, err
	}
	now, err := t.Redis.UsedMemory(ctx)
	if err != nil {
		return Outcome{}, err
	}
	values[report.UsedMemory] = float64(now-used) / float64(b.plan.Messages)
	values[report.Beyond] = values[report.UsedMemory] - load.BodySize
	return Outcome{Values: values}, nil
}

func (b bench) schedulesPending(ctx context.Context, s *stage.Scope) (Outcome, error) {
	c, process, err := b.schedules(ctx, s)
	if err != nil {
		return Outcome{}, err
	}
	values, err := b.pending(ctx, process.Pid, []stage.Process{process}, func() (load.Sent, error) {
		return c.Async(ctx, b.plan.Messages, time.Hour, b.scheduledFarOff)
	})
	return Outcome{Values: values}, err
}

// pending loads far-off messages and looks at what keeps them, pid, and at what all processes do meanwhile.
func (b bench) pending(ctx context.Context, pid int, processes []stage.Process,
	push func() (load.Sent, error)) (report.Values, error) {
	before, err := stage.RSS(pid)
	if err != nil {
		return nil, err
	}
	sent, err := push()
	if err != nil {
		return nil, err
	}
	if err := load.SleepUntil(ctx, time.Now().Add(b.plan.Calm)); err != nil {
		return nil, err
	}
	after, err := stage.RSS(pid)
	if err != nil {
		return nil, err
	}
	values := report.Values{report.Messages: float64(sent.Count),
		report.RSS: float64(after-before) / float64(sent.Count)}
	cost, err := stage.Watch(processes...)
	if err != nil {
		return nil, err
	}
	if err := load.SleepUntil(ctx, time.Now().Add(b.plan.Idle)); err != nil {
		return nil, err
	}
	return values, percents(values, cost)
}
