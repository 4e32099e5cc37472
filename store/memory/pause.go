package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/tarry-mq/tarry/scheduler"
)

// pauses are the patterns that are held back. They belong to no bucket: who
// delivers asks for all of them.
type pauses struct {
	mu sync.Mutex
	by map[string]scheduler.Pause
}

func newPauses() *pauses { return &pauses{by: map[string]scheduler.Pause{}} }

// with runs do while nobody else looks at the pauses.
func (p *pauses) with(ctx context.Context, do func() error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", scheduler.ErrUnavailable, context.Cause(ctx))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return do()
}

// Pauses lists what is paused, by pattern.
func (t *Timeline) Pauses(ctx context.Context) (list []scheduler.Pause, err error) {
	err = t.paused.with(ctx, func() error {
		list = slices.SortedFunc(maps.Values(t.paused.by), func(a, b scheduler.Pause) int { return cmp.Compare(a.Pattern, b.Pattern) })
		return nil
	})
	return list, err
}

// Pause holds back a pattern.
func (t *Timeline) Pause(ctx context.Context, p scheduler.Pause) error {
	return t.paused.with(ctx, func() error {
		if _, stands := t.paused.by[p.Pattern]; !stands && len(t.paused.by) >= scheduler.MaxPauses {
			return scheduler.ErrTooManyPauses
		}
		t.paused.by[p.Pattern] = p
		return nil
	})
}

// Resume lets a pattern go on.
func (t *Timeline) Resume(ctx context.Context, pattern string) (was bool, err error) {
	err = t.paused.with(ctx, func() error {
		_, was = t.paused.by[pattern]
		delete(t.paused.by, pattern)
		return nil
	})
	return was, err
}
