package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/election"
	"github.com/tarry-mq/tarry/scheduler"
)

// lead is the one joint between election and scheduler: what runs while this
// instance leads, and no longer.
func (a *App) lead(ctx context.Context, term uint64) error {
	lease := func() time.Duration {
		if left, bounded := election.Remaining(ctx); bounded {
			return left
		}
		return unbounded
	}
	a.lease.set(lease)
	defer a.lease.set(nil)
	log := a.log.With().Uint64("term", term).Logger()
	log.Info().Msg("leading")
	err := a.rule(ctx, term, lease)
	log.Info().AnErr("why", err).Msg("no longer leading")
	if errors.Is(err, scheduler.ErrStaleTerm) {
		return fmt.Errorf("lead: %w", err)
	}
	return nil
}

// rule dispatches until the leadership ends. A bucket begins when it is whole, and
// anew when its server has changed.
func (a *App) rule(ctx context.Context, term uint64, lease func() time.Duration) error {
	m := &mender{a: a, term: term, kick: make(chan struct{}, 1), recovered: make(chan struct{}, 1),
		waiting: map[int]chan struct{}{}}
	a.mending.Store(m)
	group, groupCtx := errgroup.WithContext(ctx)
	beside, stop := context.WithCancel(groupCtx) // it ends with the dispatching
	defer stop()
	group.Go(func() error { return m.run(beside) })
	if a.desk != nil {
		group.Go(func() error { return a.audit(beside, m.recovered) })
	}
	group.Go(func() error {
		defer stop()
		return a.scheduler.Run(groupCtx, term, lease)
	})
	return group.Wait()
}

// unbounded is the lease of a leadership that nobody can take away: Solo's.
const unbounded = time.Hour

// leaseBox holds the lease of the leadership under way, for parts that outlive it.
type leaseBox struct {
	current atomic.Pointer[func() time.Duration]
}

func (b *leaseBox) set(lease func() time.Duration) {
	if lease == nil {
		b.current.Store(nil)
		return
	}
	b.current.Store(&lease)
}

// remaining is how much of the lease is left, 0 when this instance does not lead.
func (b *leaseBox) remaining() time.Duration {
	if lease := b.current.Load(); lease != nil {
		return (*lease)()
	}
	return 0
}
