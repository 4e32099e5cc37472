package app

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/lead"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/steer"
)

// gate guards the scheduler until the store is prepared, and while the store is not the leader's: nothing may be
// written to, or answered from, a store that may be the wrong one. It blocks the calls rather than an API's routes:
// some routes answer from the journal while the store is unreachable, and need the store only for a part of their
// answer.
type gate struct {
	open atomic.Bool
	same *sameStore
}

// admit returns why a call may not reach the store, or nil if it may.
func (g *gate) admit() error {
	switch {
	case g.same.other.Load():
		return errOtherStore
	case !g.open.Load():
		return fmt.Errorf("%w: starting, see /readyz", scheduler.ErrUnavailable)
	}
	return nil
}

// instance is what the APIs ask: what any instance does, and what only the leader knows.
type instance struct {
	*steer.Scheduler
	*lead.Leader
	store store // nil without a journal
	// led returns an error if nobody leads, or if that is not known.
	led func(context.Context) error
}

// Get finds one message, with the reason why it is held back, and with whether the journal could not record it.
func (i instance) Get(ctx context.Context, ref scheduler.Ref) (message.Info, error) {
	info, err := i.Scheduler.Get(ctx, ref)
	if err == nil {
		i.Explain(ctx, &info, i.Why, i.led)
	}
	if err == nil && i.store != nil {
		info.Bare = i.bare(ctx, info.UID)
	}
	return info, err
}

// bare reports whether an entry with this message is quarantined.
func (i instance) bare(ctx context.Context, uid message.UID) bool {
	for after := ""; ; {
		list, next, err := i.store.Quarantined(ctx, uid.Bucket(i.store.Buckets()), after)
		if err != nil || len(list) == 0 {
			return false
		}
		for _, q := range list {
			if slices.Contains(q.UIDs, uid) {
				return true
			}
		}
		after = next
	}
}
