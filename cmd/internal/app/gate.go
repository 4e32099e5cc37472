package app

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/tarry-mq/tarry/scheduler"
)

// gate stands before the scheduler until the store is prepared: nothing may be
// written, nor anything be answered from, a store that may be the wrong one.
type gate struct {
	service *scheduler.Scheduler
	open    atomic.Bool
}

func (g *gate) isClosed() bool { return !g.open.Load() }

func (g *gate) closed() error {
	return fmt.Errorf("%w: starting, see /readyz", scheduler.ErrUnavailable)
}

// AcceptAll pushes a batch.
func (g *gate) AcceptAll(ctx context.Context, batch []*scheduler.Push) []scheduler.Accepted {
	if g.open.Load() {
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
	if !g.open.Load() {
		done(scheduler.Accepted{UID: p.UID, ID: p.ID, Err: g.closed()})
		return
	}
	g.service.Accept(p, done)
}

// Get finds one message.
func (g *gate) Get(ctx context.Context, ref scheduler.Ref) (scheduler.Info, error) {
	if !g.open.Load() {
		return scheduler.Info{}, g.closed()
	}
	return g.service.Get(ctx, ref)
}

// Cancel ends a waiting message.
func (g *gate) Cancel(ctx context.Context, ref scheduler.Ref) (scheduler.CancelResult, error) {
	if !g.open.Load() {
		return scheduler.CancelResult{}, g.closed()
	}
	return g.service.Cancel(ctx, ref)
}
