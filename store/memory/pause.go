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
	mu   sync.Mutex
	by   map[string]scheduler.Pause
	last scheduler.Milli // when the last change was
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

// change is when a change counts as made that is asked for at a time.
func (p *pauses) change(at scheduler.Milli) scheduler.Milli {
	p.last = max(p.last+1, at)
	return p.last
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
func (t *Timeline) Pause(ctx context.Context, p scheduler.Pause) (since scheduler.Milli, err error) {
	err = t.paused.with(ctx, func() error {
		was, stands := t.paused.by[p.Pattern]
		switch {
		case stands && was.By == p.By && was.At >= p.At:
			since = was.At
			return nil
		case !stands && len(t.paused.by) >= scheduler.MaxPauses:
			return scheduler.ErrTooManyPauses
		}
		p.At = t.paused.change(p.At)
		t.paused.by[p.Pattern], since = p, p.At
		return nil
	})
	return since, err
}

// Resume lets a pattern go on.
func (t *Timeline) Resume(ctx context.Context, pattern string, now scheduler.Milli) (was bool, at scheduler.Milli, err error) {
	err = t.paused.with(ctx, func() error {
		_, was = t.paused.by[pattern]
		delete(t.paused.by, pattern)
		at = t.paused.change(now)
		return nil
	})
	return was, at, err
}
