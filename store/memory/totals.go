package memory

import (
	"context"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Totals counts in every bucket.
func (t *Timeline) Totals(ctx context.Context, now message.Milli) ([]scheduler.Total, error) {
	totals := make([]scheduler.Total, len(t.buckets))
	for n := range t.Buckets() {
		err := t.in(ctx, n, func(b *bucket) error {
			total := scheduler.Total{InFlight: len(b.claimed), Dead: len(b.dead)}
			overdue := b.due.upTo(message.ScoreNow(now), scheduler.MaxOverdue)
			total.Waiting[message.HoldNone] = scheduler.Waiting{Count: len(b.due), Overdue: overdue,
				Oldest: head(b.due)}
			for name, lane := range b.lanes {
				held := &total.Waiting[name.Kind().Hold()]
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
