package load

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// patience is how long one acknowledgement may take before a test is given up.
const patience = 10 * time.Second

// Client is one connection to NATS with JetStream on it, as producers and consumers have one.
type Client struct {
	JS jetstream.JetStream

	conn   *nats.Conn
	failed atomic.Int64
	reason atomic.Pointer[error]
}

// Dial connects. pending is how many asynchronous publishes may await their acknowledgement.
func Dial(url string, pending int) (*Client, error) {
	conn, err := nats.Connect(url, nats.Name("bench"), nats.Timeout(patience))
	if err != nil {
		return nil, fmt.Errorf("connect to nats: %w", err)
	}
	c := &Client{conn: conn}
	c.JS, err = jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(pending),
		jetstream.WithPublishAsyncTimeout(patience),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) {
			c.failed.Add(1)
			c.reason.CompareAndSwap(nil, &err)
		}), jetstream.WithDefaultTimeout(patience))
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	return c, nil
}

// URL is where it is connected.
func (c *Client) URL() string { return c.conn.ConnectedUrl() }

// Close ends the connection.
func (c *Client) Close() { c.conn.Close() }

// Sent is the outcome of a push: messages 0 to Count-1 were acknowledged.
type Sent struct {
	Count   int
	Began   time.Time
	Elapsed time.Duration
}

// Rate is messages a second.
func (s Sent) Rate() float64 { return float64(s.Count) / s.Elapsed.Seconds() }

// Message makes message n.
type Message func(n int) *nats.Msg

// Sync publishes messages 0 to want-1 from producers that each wait for one acknowledgement at a time. It stops early
// at the limit. Any refusal is an error.
func (c *Client) Sync(ctx context.Context, producers, want int, limit time.Duration, message Message) (Sent, error) {
	return oneByOne(ctx, producers, want, limit, func(ctx context.Context, n int) error {
		_, err := c.JS.PublishMsg(ctx, message(n))
		return err
	})
}

// oneByOne makes calls 0 to want-1 from producers that each make one at a time. It stops early at the limit.
func oneByOne(ctx context.Context, producers, want int, limit time.Duration,
	call func(ctx context.Context, n int) error) (Sent, error) {
	began := time.Now()
	return together(ctx, producers, want, began, func(ctx context.Context, next func() int) error {
		for time.Since(began) < limit {
			n := next()
			if n >= want {
				return nil
			}
			if err := call(ctx, n); err != nil {
				return fmt.Errorf("push or call %d: %w", n, err)
			}
		}
		return nil
	})
}

// Async publishes messages 0 to want-1 from one producer with as many in flight as Dial allows.
func (c *Client) Async(ctx context.Context, want int, limit time.Duration, message Message) (Sent, error) {
	sent := Sent{Began: time.Now()}
	for sent.Count < want && time.Since(sent.Began) < limit && ctx.Err() == nil {
		if _, err := c.JS.PublishMsgAsync(message(sent.Count), jetstream.WithStallWait(patience)); err != nil {
			return sent, fmt.Errorf("publish message %d: %w", sent.Count, err)
		}
		sent.Count++
	}
	select {
	case <-c.JS.PublishAsyncComplete():
	case <-ctx.Done():
		return sent, context.Cause(ctx)
	}
	sent.Elapsed = time.Since(sent.Began)
	if failed := c.failed.Load(); failed > 0 {
		return sent, fmt.Errorf("publish: %d of %d were not acknowledged, the first: %w", failed, sent.Count,
			*c.reason.Load())
	}
	return sent, nil
}

// Paced publishes want messages at a rate, from producers that each wait for one acknowledgement at a time. Message n
// has its moment, n/rate after the start; a producer that is behind sends at once. message may wait.
func (c *Client) Paced(ctx context.Context, producers, want int, rate float64, message Message) (Sent, error) {
	began := time.Now()
	return together(ctx, producers, want, began, func(ctx context.Context, next func() int) error {
		for {
			n := next()
			if n >= want {
				return nil
			}
			if err := SleepUntil(ctx, began.Add(time.Duration(float64(n)/rate*float64(time.Second)))); err != nil {
				return err
			}
			if _, err := c.JS.PublishMsg(ctx, message(n)); err != nil {
				return fmt.Errorf("publish message %d: %w", n, err)
			}
		}
	})
}
