package tarry

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
)

// maxCalls bounds the pushes by request that wait for their answer.
const maxCalls = 256

// calls holds the asynchronous pushes by request. Each has a goroutine that lives as long as its request, which
// [WithTimeout] bounds. PublishAsyncComplete waits for the calls, and CleanupPublisher ends them.
type calls struct {
	slots   chan struct{} // holds one for each call
	stalled error         // the error of a publish that finds no free slot in time

	mu   sync.Mutex
	idle chan struct{} // closed when the last call leaves; nil while nothing waits for that
	ctx  context.Context
	end  context.CancelCauseFunc
}

func newCalls(stalled error) *calls {
	c := &calls{slots: make(chan struct{}, maxCalls), stalled: stalled}
	c.ctx, c.end = context.WithCancelCause(context.Background())
	return c
}

// future is the PubAckFuture of a push by request; A is the PubAck of either JetStream package.
type future[A any] struct {
	msg *nats.Msg
	ok  chan *A
	err chan error
}

func (f *future[A]) Ok() <-chan *A     { return f.ok }
func (f *future[A]) Err() <-chan error { return f.err }
func (f *future[A]) Msg() *nats.Msg    { return f.msg }

// start pushes by request and returns the future. If too many calls are waiting, it first waits for one of them, as
// nats.go does.
func start[A any](c *calls, client *Client, out *outgoing, ack func(Stored) *A) (*future[A], error) {
	ctx, cancel, err := c.enter(client)
	if err != nil {
		return nil, err
	}
	f := &future[A]{msg: out.msg, ok: make(chan *A, 1), err: make(chan error, 1)}
	go func() {
		defer c.leave()
		defer cancel()
		s, err := client.push(ctx, out)
		switch cause := context.Cause(ctx); {
		case err == nil:
			f.ok <- ack(s)
		case cause != nil && ctx.Err() == context.Canceled:
			f.err <- cause
		default:
			f.err <- err
		}
	}()
	return f, nil
}

// enter takes a slot.
func (c *calls) enter(client *Client) (context.Context, context.CancelFunc, error) {
	c.mu.Lock()
	parent := c.ctx
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(parent, client.timeout)
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		cancel()
		return nil, nil, c.stalled
	}
	return ctx, cancel, nil
}

func (c *calls) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	<-c.slots
	if len(c.slots) == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

func (c *calls) pending() int { return len(c.slots) }

// with returns a channel that is closed when both the calls and the other channel are done. Its goroutine ends once
// both are closed.
func (c *calls) with(other <-chan struct{}) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.slots) == 0 {
		return other
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle, both := c.idle, make(chan struct{})
	go func() {
		<-idle
		<-other
		close(both)
	}()
	return both
}

// cancelAll ends the running calls. Later calls are not affected.
func (c *calls) cancelAll(cause error) {
	c.mu.Lock()
	end := c.end
	c.ctx, c.end = context.WithCancelCause(context.Background())
	c.mu.Unlock()
	end(cause)
}

// prepareAsync checks a message and decides its route. Only the very first call waits for a look-up.
func (c *Client) prepareAsync(m *nats.Msg) (*outgoing, Route, error) {
	out, err := c.rewrite(m)
	if err != nil {
		return nil, undecided, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	route, err := c.route.decide(ctx)
	return out, route, err
}
