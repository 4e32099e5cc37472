package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/tarry-mq/tarry/deploy/bench/internal/load"
	"github.com/tarry-mq/tarry/deploy/bench/internal/report"
	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
)

// oneMachine loads far-off messages over HTTP, weighs the process that keeps them, kills and starts it, and pushes by
// tag.
func (b bench) oneMachine(ctx context.Context, s *stage.Scope) (Outcome, error) {
	t := s.OneMachine(b.program)
	empty, err := stage.RSS(t.Pid())
	if err != nil {
		return Outcome{}, err
	}
	began := time.Now()
	batches := b.batches(t, func(n int) time.Time { return began.Add(farOff(n)) })
	batches.Size = 100 // of which each waits for a commit: a larger one may wait longer than a call may take
	sent, err := batches.Send(ctx, b.plan.Messages, time.Hour)
	if err != nil {
		return Outcome{}, err
	}
	values := pushed(sent)
	if err := load.SleepUntil(ctx, time.Now().Add(b.plan.Calm)); err != nil {
		return Outcome{}, err
	}
	full, err := stage.RSS(t.Pid())
	if err != nil {
		return Outcome{}, err
	}
	values[report.RSS] = float64(full-empty) / float64(sent.Count)
	bytes, err := t.FileBytes()
	if err != nil {
		return Outcome{}, err
	}
	values[report.JournalBytes] = float64(bytes) / float64(sent.Count)
	took, err := t.Again(ctx, restartPatience)
	if err != nil {
		return Outcome{}, err
	}
	values[report.Seconds] = took.Seconds()

	c, err := dial(s, t.NATSURL(), inFlight)
	if err != nil {
		return Outcome{}, err
	}
	tagged, err := c.Async(ctx, b.plan.Messages/10, b.plan.Limit, b.delayed)
	if err != nil {
		return Outcome{}, err
	}
	at, err := t.Accepted(ctx, tagged.Count) // counted from its start
	if err != nil {
		return Outcome{}, fmt.Errorf("by tag: %w", err)
	}
	values[report.Of(report.ByTag, report.Kept)] = float64(tagged.Count) / max(
		at.Sub(tagged.Began), tagged.Elapsed).Seconds()
	return Outcome{Values: values}, nil
}

const restartPatience = 5 * time.Minute
