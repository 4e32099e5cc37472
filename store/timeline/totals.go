package timeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/tarry-mq/tarry/scheduler"
)

// Totals counts in every bucket, in one pipeline. It looks at every lane that
// holds messages, and at no message.
func (t *Redis) Totals(ctx context.Context, now scheduler.Milli) ([]scheduler.Total, error) {
	totals := make([]scheduler.Total, len(t.keys))
	i := -1
	args := func(k *keys) ([]string, []any) {
		a := []any{k.parked, scheduler.ScoreNow(now)}
		for hold, prefixes := range scheduler.HoldPrefixes() {
			for _, prefix := range prefixes {
				a = append(a, prefix, int(hold))
			}
		}
		return []string{k.due, k.claimed, k.dead, k.lanes}, a
	}
	err := t.ask(ctx, t.allBuckets(), t.scripts.totals, args, func(v any) error {
		i++
		f, err := texts(v)
		if err != nil || len(f) != 2+3*int(scheduler.Holds) {
			return errAnswer("totals", len(f), err)
		}
		return readTotal(f, &totals[i])
	})
	return totals, err
}

func readTotal(f []string, t *scheduler.Total) error {
	var errs [2]error
	t.InFlight, errs[0] = strconv.Atoi(f[0])
	t.Dead, errs[1] = strconv.Atoi(f[1])
	err := errors.Join(errs[:]...)
	for hold := range t.Waiting {
		w, f := &t.Waiting[hold], f[2+3*hold:]
		var errs [3]error
		w.Count, errs[0] = strconv.Atoi(f[0])
		w.Overdue, errs[1] = strconv.Atoi(f[1])
		w.Oldest, errs[2] = headOf(f[2])
		err = errors.Join(err, errors.Join(errs[:]...))
	}
	if err != nil {
		return fmt.Errorf("totals: %w", err)
	}
	return nil
}
