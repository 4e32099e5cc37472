package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// pauses holds the paused patterns, guarded by the lock of their bucket.
type pauses struct {
	by   map[string]scheduler.Pause
	last atomic.Int64 // time of the last change; Lease reads it under the lock of another bucket
}

func newPauses() *pauses { return &pauses{by: map[string]scheduler.Pause{}} }

// change returns the time at which a change requested at the given time counts as made.
func (p *pauses) change(at message.Milli) message.Milli {
	p.last.Store(max(p.last.Load()+1, int64(at)))
	return message.Milli(p.last.Load())
}

// Pauses lists the paused patterns in order.
func (t *Timeline) Pauses(ctx context.Context) (list []scheduler.Pause, changed message.Milli, err error) {
	err = t.in(ctx, scheduler.PausesBucket, func(*bucket) error {
		list = slices.SortedFunc(maps.Values(t.paused.by), func(a, b scheduler.Pause) int {
			return cmp.Compare(a.Pattern, b.Pattern)
		})
		changed = message.Milli(t.paused.last.Load())
		return nil
	})
	return list, changed, err
}

// Pause pauses a pattern.
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

// Resume resumes a pattern.
func (t *Timeline) Resume(ctx context.Context, pattern string,
	now message.Milli) (was bool, c scheduler.PauseChange, err error) {
	err = t.in(ctx, scheduler.PausesBucket, func(b *bucket) error {
		_, was = t.paused.by[pattern]
		delete(t.paused.by, pattern)
		c = scheduler.PauseChange{Pause: scheduler.Pause{Pattern: pattern, At: t.paused.change(now)}, Resumed: true,
			Number: t.number(b)}
		return nil
	})
	return was, c, err
}

// number returns the certification under which a change is made.
func (t *Timeline) number(b *bucket) uint64 {
	if t.recovering {
		return t.giving
	}
	return b.cert.Number
}
