package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
)

// Forecast counts what waits and falls due, by steps: from an index alone, but for a
// pattern, which no index knows: there each row of the span is looked at. The database
// counts what matches; of the patterns that it cannot judge it counts each topic.
func (s *SQL) Forecast(ctx context.Context, q scheduler.ForecastQuery) ([]scheduler.Forecast, error) {
	if q.Step <= 0 {
		return nil, errors.New("forecast: want steps of at least a millisecond")
	}
	index, w := "messages_state", where{}
	if q.Topic != "" {
		index, w = "messages_topic", s.andText(w, "topic", q.Topic)
	}
	w = w.and("state = ?", int64(scheduler.StateWaiting)).and("due >= ?", int64(q.From)).and("due < ?", int64(q.Until))
	topic := "''"
	if q.Pattern != "" {
		var exact bool
		if w, exact = s.andPattern(w, q.Pattern); !exact {
			topic = "topic"
		}
	}
	query := "SELECT (due - ?) " + s.kind.div + " ? AS step, " + topic + " AS name, COUNT(*) FROM messages" +
		s.kind.index(index) + " WHERE " + w.clause + " GROUP BY step, name"
	counts := map[scheduler.Milli]int{}
	err := each(ctx, s.read, query, append([]any{int64(q.From), int64(q.Step)}, w.args...), func(row scanner) error {
		var n scheduler.Milli
		var name string
		var count int
		err := row.Scan(&n, &name, &count)
		if topic != "topic" || scheduler.Matches(q.Pattern, name) {
			counts[n] += count
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("forecast: %w", err)
	}
	found := make([]scheduler.Forecast, 0, len(counts))
	for _, n := range slices.Sorted(maps.Keys(counts)) {
		found = append(found, scheduler.Forecast{From: q.From + n*q.Step, Count: counts[n]})
	}
	return found, nil
}

// andPattern holds topics to a pattern. It reports whether none passes that does not
// match: where a name follows a * and a > ends the pattern, some may.
func (s *SQL) andPattern(w where, pattern string) (narrowed where, exact bool) {
	tokens := strings.Split(pattern, ".")
	last := len(tokens) - 1
	open, star, exact := tokens[last] == ">", false, true
	like := make([]string, len(tokens))
	for i, token := range tokens {
		switch {
		case token == "*", open && i == last:
			like[i], star = s.kind.any, true
		default:
			like[i], exact = s.kind.literal(token), exact && !(open && star)
		}
	}
	dots := " = ?" // as many as the pattern has: so no wildcard stands for one
	if open {
		dots = " >= ?"
	}
	w = w.and("topic "+s.kind.like, strings.Join(like, "."))
	return w.and("LENGTH(topic) - LENGTH(REPLACE(topic, '.', ''))"+dots, last), exact
}
