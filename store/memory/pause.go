package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
)

// pauses are the patterns that are held back, under the lock of their bucket.
type pauses struct {
	by   map[string]scheduler.Pause
	last scheduler.Milli // when the last change was
}

func newPauses() *pauses { return &pauses{by: map[string]scheduler.Pause{}} }

// change is when a change counts as made that is asked for at a time.
func (p *pauses) change(at scheduler.Milli) scheduler.Milli {
	p.last = max(p.last+1, at)
	return p.last
}

// Pauses lists what is paused, by pattern.
func (t *Timeline) Pauses(ctx context.Context) (list []scheduler.Pause, err error) {
	err = t.in(ctx, scheduler.PausesBucket, func(*bucket) error {
		list = slices.SortedFunc(maps.Values(t.paused.by), func(a, b scheduler.Pause) int {
			return cmp.Compare(a.Pattern, b.Pattern)
		})
		return nil
	})
	return list, err
}

// Pause holds back a pattern.
func (t *Timeline) Pause(ctx context.Context, p scheduler.Pause) (c scheduler.PauseChange, err error) {
	err = t.in(ctx, scheduler.PausesBucket, func(b *bucket) error {
		was, stands := t.paused.by[p.Pattern]
		switch {
		case stands && was.By == p.By && was.At >= p.At:
			p = was
		case !stands && len(t.paused.by) >= scheduler.MaxPauses:
			return scheduler.ErrTooManyPauses
		default:
			p.At = t.paused.change(p.At)
			t.paused.by[p.Pattern] = p
		}
		c = scheduler.PauseChange{Pause: p, Number: t.number(b)}
		return nil
	})
	return c, err
}

// Resume lets a pattern go on.
func (t *Timeline) Resume(ctx context.Context, pattern string,
	now scheduler.Milli) (was bool, c scheduler.PauseChange, err error) {
	err = t.in(ctx, scheduler.PausesBucket, func(b *bucket) error {
		_, was = t.paused.by[pattern]
		delete(t.paused.by, pattern)
		c = scheduler.PauseChange{Pause: scheduler.Pause{Pattern: pattern, At: t.paused.change(now)}, Resumed: true,
			Number: t.number(b)}
		return nil
	})
	return was, c, err
}

// number is the certification that a change is made under.
func (t *Timeline) number(b *bucket) uint64 {
	if t.recovering {
		return t.giving
	}
	return b.cert.Number
}
