package scheduler

import (
	"context"
	"time"
)

// Signal sends on a channel of capacity 1, unless a signal waits there.
func Signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// Sleep waits for d. It returns early, with the cause, once ctx has ended.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Turn is a lock that is held over a call of a server. A caller in line leaves when its context ends.
type Turn chan struct{}

// NewTurn returns a Turn that nobody has.
func NewTurn() Turn { return make(Turn, 1) }

// Take returns when the turn is the caller's, or, with the cause, once ctx has ended.
func (t Turn) Take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Leave gives the turn to the next.
func (t Turn) Leave() { <-t }
