package measure

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/deploy/bench/internal/load"
	"github.com/tarry-mq/tarry/deploy/bench/internal/report"
	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
)

type run = func(context.Context, *stage.Scope) (Outcome, error)

func (b bench) tarrySync(producers int) run {
	return func(ctx context.Context, s *stage.Scope) (Outcome, error) {
		t, c, err := b.tarry(ctx, s)
		if err != nil {
			return Outcome{}, err
		}
		return byTag(ctx, t, func() (load.Sent, error) {
			return c.Sync(ctx, producers, b.plan.Messages, b.plan.Limit, b.delayed)
		})
	}
}

func (b bench) tarryAsync(ctx context.Context, s *stage.Scope) (Outcome, error) {
	t, c, err := b.tarry(ctx, s)
	if err != nil {
		return Outcome{}, err
	}
	return byTag(ctx, t, func() (load.Sent, error) {
		return c.Async(ctx, b.plan.Messages, b.plan.Limit, b.delayed)
	})
}

// doorSync pushes through the direct door as the Go library does; the answer is sent when Redis has the message.
func (b bench) doorSync(producers int) run {
	return b.door(func(ctx context.Context, c *load.Client) (load.Sent, error) {
		return c.LibrarySync(ctx, producers, b.plan.Messages, b.plan.Limit, b.libraryPush)
	})
}

func (b bench) doorAsync(ctx context.Context, s *stage.Scope) (Outcome, error) {
	return b.door(func(ctx context.Context, c *load.Client) (load.Sent, error) {
		return c.DoorAsync(ctx, inFlight, b.plan.Messages, b.plan.Limit, b.doorPush)
	})(ctx, s)
}

func (b bench) door(push func(context.Context, *load.Client) (load.Sent, error)) run {
	return func(ctx context.Context, s *stage.Scope) (Outcome, error) {
		t, c, err := b.tarry(ctx, s)
		if err != nil {
			return Outcome{}, err
		}
		cost, err := stage.Watch(t.Processes()...)
		if err != nil {
			return Outcome{}, err
		}
		sent, err := push(ctx, c)
		if err != nil {
			return Outcome{}, err
		}
		values := pushed(sent)
		values[report.Kept] = sent.Rate()
		return Outcome{Values: values}, micros(values, cost, sent.Count)
	}
}

// byTag pushes, and waits until tarry has accepted what NATS has acknowledged.
func byTag(ctx context.Context, t *stage.Tarry, push func() (load.Sent, error)) (Outcome, error) {
	cost, err := stage.Watch(t.Processes()...)
	if err != nil {
		return Outcome{}, err
	}
	sent, err := push()
	if err != nil {
		return Outcome{}, err
	}
	accepted, err := t.Metric(ctx, stage.AcceptedMetric)
	if err != nil {
		return Outcome{}, err
	}
	at, err := t.Accepted(ctx, sent.Count)
	if err != nil {
		return Outcome{}, err
	}
	values := pushed(sent)
	values[report.Kept] = float64(sent.Count) / max(at.Sub(sent.Began), sent.Elapsed).Seconds()
	values[report.Backlog] = max(0, float64(sent.Count)-accepted)
	return Outcome{Values: values}, micros(values, cost, sent.Count)
}

func (b bench) tarryBatches(ctx context.Context, s *stage.Scope) (Outcome, error) {
	return b.batchesWith(nil, nil)(ctx, s)
}

// batchesWith pushes with options, and merged says how many of a batch go into messages that wait; nil for none.
func (b bench) batchesWith(options func(to []byte, n int) []byte, merged func(from, to int) int) run {
	return func(ctx context.Context, s *stage.Scope) (Outcome, error) {
		t, _, err := b.tarry(ctx, s)
		if err != nil {
			return Outcome{}, err
		}
		cost, err := stage.Watch(t.Processes()...)
		if err != nil {
			return Outcome{}, err
		}
		began := time.Now()
		batches := load.Batches{URL: t.URL, Size: batchSize, Connections: connections, Merged: merged,
			Item: func(to []byte, n int) []byte {
				return b.item(to, n, dueSubject, began.Add(farOff(n)), options)
			}}
		sent, err := batches.Send(ctx, b.plan.Messages, b.plan.Limit)
		if err != nil {
			return Outcome{}, err
		}
		values := pushed(sent)
		values[report.Kept] = sent.Rate() // the answer is sent when Redis has it
		return Outcome{Values: values}, micros(values, cost, sent.Count)
	}
}

func (b bench) schedulesSync(producers int) run {
	return func(ctx context.Context, s *stage.Scope) (Outcome, error) {
		c, _, err := b.schedules(ctx, s)
		if err != nil {
			return Outcome{}, err
		}
		sent, err := c.Sync(ctx, producers, b.plan.Messages, b.plan.Limit, b.scheduledFarOff)
		return Outcome{Values: pushed(sent)}, err
	}
}

func (b bench) schedulesAsync(ctx context.Context, s *stage.Scope) (Outcome, error) {
	c, _, err := b.schedules(ctx, s)
	if err != nil {
		return Outcome{}, err
	}
	sent, err := c.Async(ctx, b.plan.Messages, b.plan.Limit, b.scheduledFarOff)
	return Outcome{Values: pushed(sent)}, err
}

// bareSync is the round trip that an acknowledged publish cannot go below.
func (b bench) bareSync(producers int) run {
	return func(ctx context.Context, s *stage.Scope) (Outcome, error) {
		c, _, err := b.bare(ctx, s, inFlight)
		if err != nil {
			return Outcome{}, err
		}
		sent, err := c.Sync(ctx, producers, b.plan.Messages, b.plan.Limit, func(n int) *nats.Msg {
			return &nats.Msg{Subject: dueSubject, Data: b.body(n)}
		})
		return Outcome{Values: pushed(sent)}, err
	}
}
