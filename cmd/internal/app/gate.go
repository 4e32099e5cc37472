package app

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/tarry-mq/tarry/scheduler"
)

// gate stands before the scheduler until the store is prepared, and while it is
// not the leader's: nothing may be written to, nor anything be answered from, a
// store that may be the wrong one.
type gate struct {
	service *scheduler.Scheduler
	open    atomic.Bool
	same    *sameStore
}

func (g *gate) isClosed() bool { return !g.open.Load() || g.same.other.Load() }

func (g *gate) closed() error {
	if g.same.other.Load() {
		return errOtherStore
	}
	return fmt.Errorf("%w: starting, see /readyz", scheduler.ErrUnavailable)
}

// AcceptAll pushes a batch.
func (g *gate) AcceptAll(ctx context.Context, batch []*scheduler.Push) []scheduler.Accepted {
	if !g.isClosed() {
		return g.service.AcceptAll(ctx, batch)
	}
	results := make([]scheduler.Accepted, len(batch))
	for i, p := range batch {
		results[i] = scheduler.Accepted{UID: p.UID, ID: p.ID, Err: g.closed()}
	}
	return results
}

// Accept queues a push.
func (g *gate) Accept(p *scheduler.Push, done func(scheduler.Accepted)) {
	if g.isClosed() {
		done(scheduler.Accepted{UID: p.UID, ID: p.ID, Err: g.closed()})
		return
	}
	g.service.Accept(p, done)
}

// Get finds one message.
func (g *gate) Get(ctx context.Context, ref scheduler.Ref) (scheduler.Info, error) {
	if g.isClosed() {
		return scheduler.Info{}, g.closed()
	}
	return g.service.Get(ctx, ref)
}

// Resolve finds the one message that a change would mean.
func (g *gate) Resolve(ctx context.Context, ref scheduler.Ref) (scheduler.Info, error) {
	if g.isClosed() {
		return scheduler.Info{}, g.closed()
	}
	return g.service.Resolve(ctx, ref)
}

// Cancel ends a waiting message.
func (g *gate) Cancel(ctx context.Context, ref scheduler.Ref) (scheduler.CancelResult, error) {
	if g.isClosed() {
		return scheduler.CancelResult{}, g.closed()
	}
	return g.service.Cancel(ctx, ref)
}
