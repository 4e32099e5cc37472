package journal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// A page is read in two steps: first the places of its rows from an index alone, one stretch at a time, then the rows
// themselves by primary key. So a page costs the same wherever it lies.

// place is the position of a record in a list.
type place struct {
	due message.Milli
	uid message.UID
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.due, q.due), cmp.Compare(p.uid, q.uid))
}

func placeUID(p *place) message.UID { return p.uid }

// List returns a page of records.
func (s *SQL) List(ctx context.Context, q record.RecordQuery) (page []record.Record, err error) {
	if q.Limit <= 0 {
		return nil, nil
	}
	err = s.read.transaction(ctx, s.kind.snapshot, func(tx *sql.Tx) error {
		places, err := s.places(ctx, tx, q)
		if err != nil {
			return err
		}
		if q.Places {
			page = make([]record.Record, len(places))
			for i, p := range places {
				page[i].UID, page[i].Due = p.uid, p.due
			}
			return nil
		}
		page, err = records(ctx, tx, mapped(places, placeUID))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list messages: %w", err)
	}
	slices.SortFunc(page, func(a, b record.Record) int { return place{a.Due, a.UID}.compare(place{b.Due, b.UID}) })
	return page, nil
}

// places returns the places of a page's records.
func (s *SQL) places(ctx context.Context, tx *sql.Tx, q record.RecordQuery) ([]place, error) {
	var found []place
	for _, r := range s.ranges(q) {
		part, err := r.read(ctx, tx, q)
		if err != nil {
			return nil, err
		}
		found = append(found, part...)
	}
	slices.SortFunc(found, place.compare)
	if q.Latest {
		return found[max(len(found)-q.Limit, 0):], nil
	}
	return found[:min(len(found), q.Limit)], nil
}

// stretch is a part of an index that is ordered by due and uid.
type stretch struct {
	from string // table and index
	where
}

// ranges returns the stretches that a query reads; together they hold all that it selects. An id or a key has few
// messages: they are read in one stretch, whatever their states.
func (s *SQL) ranges(q record.RecordQuery) []stretch {
	states := slices.Clone(q.States)
	slices.Sort(states)
	states = slices.Compact(states)
	if q.ID != "" || q.Key != "" {
		index, w := "messages_id", where{}
		if q.ID != "" {
			w = s.andText(w, "id", q.ID)
		} else {
			index = "messages_key"
		}
		if q.Key != "" {
			w = s.andText(w, "`key`", q.Key)
		}
		if q.Topic != "" {
			w = s.andText(w, "topic", q.Topic)
		}
		if len(states) > 0 {
			w = w.and("state IN ("+questions(len(states))+")", anys(states)...)
		}
		return []stretch{{"messages" + s.kind.index(index), w}}
	}
	index, w := "messages_state", where{}
	if q.Topic != "" {
		index, w = "messages_topic", s.andText(w, "topic", q.Topic)
	}
	if len(states) == 0 {
		states = message.States()
	}
	var all []stretch
	for _, state := range states {
		for pull := range int64(3) { // 2 are serial
			all = append(all, stretch{"messages" + s.kind.index(index),
				w.and("state = ?", int64(state)).and("pull = ?", pull)})
		}
	}
	return all
}

// read reads a page's worth of places: first those due at the same moment as the last record of the previous page, then
// those due later. A single condition with OR would make the database walk all rows due at that moment.
func (r stretch) read(ctx context.Context, tx *sql.Tx, q record.RecordQuery) (found []place, err error) {
	from, order := q.DueFrom, ascending
	if q.Latest {
		order = descending
	} else if q.AfterUID != "" || q.AfterDue != 0 {
		if q.AfterDue >= q.DueFrom && (q.DueTo == 0 || q.AfterDue <= q.DueTo) {
			w := r.and("due = ?", int64(q.AfterDue)).and("uid > ?", string(q.AfterUID))
			if found, err = w.places(ctx, tx, r.from, order, q.Limit); err != nil {
				return nil, err
			}
		}
		from = max(from, q.AfterDue+1)
	}
	if len(found) == q.Limit {
		return found, nil
	}
	w := r.where
	if from > 0 {
		w = w.and("due >= ?", int64(from))
	}
	if q.DueTo != 0 {
		w = w.and("due <= ?", int64(q.DueTo))
	}
	rest, err := w.places(ctx, tx, r.from, order, q.Limit-len(found))
	return append(found, rest...), err
}

// The two directions through an index.
const (
	ascending  = " ORDER BY due, uid LIMIT ?"
	descending = " ORDER BY due DESC, uid DESC LIMIT ?"
)

func (w where) places(ctx context.Context, tx *sql.Tx, from, order string, limit int) ([]place, error) {
	return collect(ctx, tx, "SELECT due, uid FROM "+from+" WHERE "+w.clause+order, append(slices.Clip(w.args), limit),
		func(row scanner) (p place, err error) {
			err = row.Scan(&p.due, &p.uid)
			return p, err
		})
}

// Forecast counts the waiting messages by due time, in steps. It reads an index alone, except for a pattern, which no
// index supports: then it reads each row of the time span. The database counts the matches; for patterns that it cannot
// match exactly, Forecast counts by topic and matches itself.
func (s *SQL) Forecast(ctx context.Context, q record.ForecastQuery) ([]record.Forecast, error) {
	if q.Step <= 0 {
		return nil, errors.New("forecast: want steps of at least a millisecond")
	}
	index, w := "messages_state", where{}
	if q.Topic != "" {
		index, w = "messages_topic", s.andText(w, "topic", q.Topic)
	}
	w = w.and("state = ? AND pull IN (0, 1, 2)", int64(message.StateWaiting)).and("due >= ?", int64(q.From)).
		and("due < ?", int64(q.Until))
	topic := "''"
	if q.Pattern != "" {
		var exact bool
		if w, exact = s.andPattern(w, q.Pattern); !exact {
			topic = "topic"
		}
	}
	query := "SELECT (due - ?) " + s.kind.div + " ? AS step, " + topic + " AS name, COUNT(*) FROM messages" +
		s.kind.index(index) + " WHERE " + w.clause + " GROUP BY step, name"
	counts := map[message.Milli]int{}
	err := each(ctx, s.read, query, append([]any{int64(q.From), int64(q.Step)}, w.args...), func(row scanner) error {
		var n message.Milli
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
	found := make([]record.Forecast, 0, len(counts))
	for _, n := range slices.Sorted(maps.Keys(counts)) {
		found = append(found, record.Forecast{From: q.From + n*q.Step, Count: counts[n]})
	}
	return found, nil
}

// andPattern restricts topics to a pattern. It reports whether the condition is exact: if a literal token follows a *
// and a > ends the pattern, some other topics may pass.
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
	dots := " = ?" // as many dots as the pattern has, so that no wildcard stands for one
	if open {
		dots = " >= ?"
	}
	w = w.and("topic "+s.kind.like, strings.Join(like, "."))
	return w.and("LENGTH(topic) - LENGTH(REPLACE(topic, '.', ''))"+dots, last), exact
}
