package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/election"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/store/journal"
)

// lead is the only connection between election and scheduler: it runs while this instance leads, and no longer. The
// lease belongs to the leadership and is passed with its context, since the publisher outlives the leadership and may
// serve several.
func (a *App) lead(ctx context.Context, term uint64) error {
	lease := func() time.Duration {
		if left, bounded := election.Remaining(ctx); bounded {
			return left
		}
		return unbounded
	}
	ctx = context.WithValue(ctx, leaseKey{}, lease)
	log := a.log.With().Uint64("term", term).Logger()
	log.Info().Msg("leading")
	a.events.Tell(scheduler.Event{Kind: scheduler.EventLeader, Detail: fmt.Sprintf("leads, term %d", term)})
	err := a.rule(ctx, term, lease)
	log.Info().AnErr("why", err).Msg("no longer leading")
	over := fmt.Sprintf("no longer leads, term %d", term)
	if err != nil {
		over += ": " + err.Error()
	}
	a.events.Tell(scheduler.Event{Kind: scheduler.EventLeader, Detail: over})
	if errors.Is(err, scheduler.ErrStaleTerm) {
		return fmt.Errorf("lead: %w", err)
	}
	return nil
}

// rule dispatches until the leadership ends. A bucket starts when it is whole, and again when its server has changed.
func (a *App) rule(ctx context.Context, term uint64, lease func() time.Duration) error {
	recovered := make(chan struct{}, 1) // some bucket was not whole
	m := journal.NewMender(a.recovery, term, a.store.Buckets(), func(restored record.RestoreReport) {
		scheduler.Signal(recovered)
		a.roster.regained(restored.Added + restored.Raised)
	})
	a.mending.Store(m)
	group, groupCtx := errgroup.WithContext(ctx)
	beside, stop := context.WithCancel(groupCtx) // it ends with the dispatching
	defer stop()
	group.Go(func() error { return m.Run(beside) })
	if a.journalAPI != nil {
		group.Go(func() error { return a.audit(beside, recovered) })
	}
	if a.cfg.Dead.Keep > 0 {
		group.Go(func() error { a.scheduler.PurgeOld(beside); return nil })
	}
	group.Go(func() error {
		defer stop()
		return a.leader.Run(groupCtx, term, lease)
	})
	return group.Wait()
}

// whole implements Whole of lead.Config.
func (a *App) whole(ctx context.Context, term uint64, bucket message.Bucket) error {
	m := a.mending.Load()
	if m == nil || m.Term() != term {
		return fmt.Errorf("%w: nobody makes buckets whole under term %d", scheduler.ErrStaleTerm, term)
	}
	return m.Whole(ctx, bucket)
}

// unbounded is the lease of Solo, whose leadership cannot be lost.
const unbounded = time.Hour

// leaseKey carries a leadership's lease inside its context.
type leaseKey struct{}

// leaseLeft returns how long the leadership of ctx is still certain, or 0 without a leadership.
func leaseLeft(ctx context.Context) time.Duration {
	if lease, ok := ctx.Value(leaseKey{}).(func() time.Duration); ok {
		return lease()
	}
	return 0
}
