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
