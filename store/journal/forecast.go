package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/tarry-mq/tarry/scheduler"
)

// Forecast counts what waits and falls due from the given time until another,
// by steps, from an index alone.
func (s *SQL) Forecast(ctx context.Context, topic string, from, until, step scheduler.Milli) (found []scheduler.Forecast, err error) {
	if step <= 0 {
		return nil, errors.New("forecast: want steps of at least a millisecond")
	}
	index, w := "messages_state", where{}
	if topic != "" {
		index, w = "messages_topic", s.andText(w, "topic", topic)
	}
	w = w.and("state = ?", int64(scheduler.StateWaiting)).and("due >= ?", int64(from)).and("due < ?", int64(until))
	query := "SELECT (due - ?) " + s.kind.div + " ? AS step, COUNT(*) FROM messages" + s.kind.index(index) + " WHERE " + w.clause + " GROUP BY step ORDER BY step"
	err = each(ctx, s.read, query, append([]any{int64(from), int64(step)}, w.args...), func(row scanner) error {
		var n scheduler.Milli
		var f scheduler.Forecast
		err := row.Scan(&n, &f.Count)
		f.From = from + n*step
		found = append(found, f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("forecast: %w", err)
	}
	return found, nil
}
