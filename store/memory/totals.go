package memory

import (
	"context"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
)

// Totals counts in every bucket.
func (t *Timeline) Totals(ctx context.Context, now scheduler.Milli) ([]scheduler.Total, error) {
	totals := make([]scheduler.Total, len(t.buckets))
	for n := range totals {
		err := t.in(ctx, n, func(b *bucket) error {
			total := scheduler.Total{InFlight: len(b.claimed), Dead: len(b.dead)}
			overdue := b.due.upTo(scheduler.ScoreNow(now), scheduler.MaxOverdue)
			total.Waiting[scheduler.HoldNone] = scheduler.Waiting{Count: len(b.due), Overdue: overdue,
				Oldest: head(b.due)}
			for name, lane := range b.lanes {
				held := &total.Waiting[holdOf(name)]
				held.Add(scheduler.Waiting{Count: len(lane.order), Overdue: len(lane.order), Oldest: head(lane.order)})
				held.Add(scheduler.Waiting{Oldest: head(lane.behind)})
			}
			totals[n] = total
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return totals, nil
}

// holdOf is the hold that a lane stands for.
func holdOf(lane string) scheduler.Hold {
	for hold, prefixes := range scheduler.HoldPrefixes() {
		for _, prefix := range prefixes {
			if strings.HasPrefix(lane, prefix) {
				return hold
			}
		}
	}
	return scheduler.HoldParked
}
