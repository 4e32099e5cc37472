package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/deploy/bench/internal/load"
	"github.com/tarry-mq/tarry/deploy/bench/internal/report"
	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
)

const (
	ready  = 200 * time.Millisecond // before the due time, processor time is counted from here
	margin = 100 * time.Millisecond // more, by which loading has ended at the latest
)

func (b bench) tarryDrain(ctx context.Context, s *stage.Scope) (Outcome, error) {
	t, c, err := b.tarry(ctx, s)
	if err != nil {
		return Outcome{}, err
	}
	return b.drainOf(ctx, s, t, c)
}

// drainOf loads and drains a tarry.
func (b bench) drainOf(ctx context.Context, s *stage.Scope, t *stage.Tarry, c *load.Client) (Outcome, error) {
	due := b.drainAt()
	sent, err := b.batches(t, func(int) time.Time { return due }).Send(ctx, b.plan.Messages, b.plan.lead())
	if err != nil {
		return Outcome{}, err
	}
	return b.drain(ctx, s, c, b.ledger(due), due, sent, t.Processes(), func() error {
		_, err := t.Delivered(ctx, b.plan.Messages)
		return err
	})
}

func (b bench) schedulesDrain(ctx context.Context, s *stage.Scope) (Outcome, error) {
	c, process, err := b.schedules(ctx, s)
	if err != nil {
		return Outcome{}, err
	}
	due := b.drainAt()
	sent, err := c.Async(ctx, b.plan.Messages, b.plan.lead(), b.scheduledFor(due))
	if err != nil {
		return Outcome{}, err
	}
	return b.drain(ctx, s, c, b.ledger(due), due, sent, []stage.Process{process, stage.This()}, func() error {
		return nil
	})
}

// drainAt is the instant at which everything is due.
func (b bench) drainAt() time.Time { return time.UnixMilli(time.Now().Add(b.plan.lead()).UnixMilli()) }

// ledger expects everything at one instant.
func (b bench) ledger(due time.Time) *load.Ledger {
	return load.NewLedger(b.bodies, b.plan.Messages, func(int) time.Time { return due })
}

// drain receives what was loaded for one instant. settled waits until the system itself takes all for done.
func (b bench) drain(ctx context.Context, s *stage.Scope, c *load.Client, ledger *load.Ledger, due time.Time,
	sent load.Sent, processes []stage.Process, settled func() error) (Outcome, error) {
	want := b.plan.Messages
	if fault, ok := b.plan.loaded(sent, due); !ok {
		return Outcome{Faults: []string{fault}}, nil
	}
	stop, err := b.receive(ctx, s, c, ledger)
	if err != nil {
		return Outcome{}, err
	}
	defer stop()
	if err := load.SleepUntil(ctx, due.Add(-ready)); err != nil {
		return Outcome{}, err
	}
	cost, err := stage.Watch(processes...)
	if err != nil {
		return Outcome{}, err
	}
	if err := ledger.Wait(ctx, due); err != nil {
		return Outcome{}, err
	}
	if err := settled(); err != nil {
		return Outcome{}, err
	}
	values := drained(ledger, due)
	if err := micros(values, cost, want); err != nil {
		return Outcome{}, err
	}
	return b.judged(ctx, c, ledger, values)
}

// drained are the figures of a drain that began at from.
func drained(ledger *load.Ledger, from time.Time) report.Values {
	first, last := ledger.Span()
	return report.Values{
		report.Rate:     float64(ledger.Received()) / last.Sub(from).Seconds(),
		report.First:    float64(first.Sub(from).Microseconds()) / 1000,
		report.Messages: float64(ledger.Received()),
	}
}

// bareDrain is the bound: the messages are published when they are due, and received by the same consumer.
func (b bench) bareDrain(ctx context.Context, s *stage.Scope) (Outcome, error) {
	c, process, err := b.bare(ctx, s, forwarding)
	if err != nil {
		return Outcome{}, err
	}
	cost, err := stage.Watch(process, stage.This())
	if err != nil {
		return Outcome{}, err
	}
	ledger := load.NewLedger(b.bodies, b.plan.Messages, func(int) time.Time { return time.Time{} })
	stop, err := b.receive(ctx, s, c, ledger)
	if err != nil {
		return Outcome{}, err
	}
	defer stop()
	sent, err := c.Async(ctx, b.plan.Messages, time.Hour, b.plain)
	if err != nil {
		return Outcome{}, err
	}
	if err := ledger.Wait(ctx, time.Now()); err != nil {
		return Outcome{}, err
	}
	values := drained(ledger, sent.Began)
	if err := micros(values, cost, b.plan.Messages); err != nil {
		return Outcome{}, err
	}
	return b.judged(ctx, c, ledger, values)
}

// receive begins to receive what is due, on a connection of its own.
func (b bench) receive(ctx context.Context, s *stage.Scope, c *load.Client,
	ledger *load.Ledger) (stop func(), err error) {
	consumer, err := dial(s, c.URL(), inFlight)
	if err != nil {
		return nil, err
	}
	return consumer.Receive(ctx, dueStream, b.arrives, ledger)
}

// judged adds what is wrong with what was received. The stream is asked too: it shows a repeat that came too late for
// the consumer.
func (b bench) judged(ctx context.Context, c *load.Client, ledger *load.Ledger, values report.Values) (Outcome, error) {
	o := Outcome{Values: values, Faults: ledger.Faults()}
	stream, err := c.JS.Stream(ctx, dueStream)
	if err != nil {
		return o, fmt.Errorf("look up the stream that messages are due on: %w", err)
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(b.arrives))
	if err != nil {
		return o, fmt.Errorf("look up the stream that messages are due on: %w", err)
	}
	stored := uint64(0)
	for _, n := range info.State.Subjects {
		stored += n
	}
	if stored != uint64(ledger.Want()) {
		o.Faults = append(o.Faults, fmt.Sprintf("the stream has stored %d messages, not %d", stored, ledger.Want()))
	}
	return o, nil
}
