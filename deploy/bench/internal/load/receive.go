package load

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	stall  = 15 * time.Second       // without a message for so long, the rest is lost
	settle = 500 * time.Millisecond // after the last message, for repeats to show
	ahead  = 4096                   // messages the consumer asks for in advance
)

// Receive enters every message on a subject of a stream in the ledger, from the stream's first one, with an ordered
// consumer: it acknowledges nothing, and costs the server no more than it must. stop ends it.
func (c *Client) Receive(ctx context.Context, stream, subject string, ledger *Ledger) (stop func(), err error) {
	consumer, err := c.JS.OrderedConsumer(ctx, stream,
		jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}})
	if err != nil {
		return nil, fmt.Errorf("make a consumer: %w", err)
	}
	running, err := consumer.Consume(func(m jetstream.Msg) {
		ledger.Receive(m.Data(), time.Now())
	}, jetstream.PullMaxMessages(ahead))
	if err != nil {
		return nil, fmt.Errorf("consume: %w", err)
	}
	return func() {
		running.Stop()
		<-running.Closed()
	}, nil
}

// Wait returns when all messages have arrived and no repeat followed at once, or when nothing has arrived for long: the
// ledger then shows what is lost. from is when the first was to arrive.
func (l *Ledger) Wait(ctx context.Context, from time.Time) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	count, moved := 0, from
	for {
		select {
		case <-l.All():
			return SleepUntil(ctx, time.Now().Add(settle))
		case <-ctx.Done():
			return context.Cause(ctx)
		case now := <-tick.C:
			if n := l.Received(); n != count {
				count, moved = n, now
			} else if now.Sub(moved) > stall {
				return nil
			}
		}
	}
}
