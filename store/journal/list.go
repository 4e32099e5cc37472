package journal

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
)

// A page is read in two steps: the places of its rows from an index alone, one
// state at a time, then the rows themselves by primary key. So a page costs the
// same wherever it lies, and no body is read that does not go out.

// place is where a record stands in the order of a list.
type place struct {
	due scheduler.Milli
	uid scheduler.UID
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.due, q.due), cmp.Compare(p.uid, q.uid))
}

// List returns a page of records.
func (s *SQL) List(ctx context.Context, q scheduler.RecordQuery) (page []scheduler.Record, err error) {
	if q.Limit <= 0 {
		return nil, nil
	}
	err = s.inSnapshot(ctx, func(tx *sql.Tx) error {
		places, err := s.places(ctx, tx, q)
		if err != nil {
			return err
		}
		if places, err = cutBytes(ctx, tx, places, q.Bytes); err != nil {
			return err
		}
		uids := make([]scheduler.UID, len(places))
		for i, p := range places {
			uids[i] = p.uid
		}
		page, err = records(ctx, tx, uids, q.Whole)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list messages: %w", err)
	}
	slices.SortFunc(page, func(a, b scheduler.Record) int { return place{a.Due, a.UID}.compare(place{b.Due, b.UID}) })
	return page, nil
}

// inSnapshot runs do in a transaction whose reads see one state of the database.
func (s *SQL) inSnapshot(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.read.BeginTx(ctx, s.kind.snapshot)
	if err != nil {
		return err
	}
	defer tx.Rollback() // there is nothing to commit
	return do(tx)
}

// places are the places of a page's records.
func (s *SQL) places(ctx context.Context, tx *sql.Tx, q scheduler.RecordQuery) ([]place, error) {
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

// stretch is a part of an index that is in order of due and uid.
type stretch struct {
	from string // table and index
	where
}

// where is a condition and its arguments.
type where struct {
	clause string
	args   []any
}

func (w where) and(clause string, args ...any) where {
	if w.clause != "" {
		clause = w.clause + " AND " + clause
	}
	return where{clause, append(slices.Clip(w.args), args...)}
}

// andText holds a text column to exactly this value.
func (s *SQL) andText(w where, column, value string) where {
	value = name(value)
	w = w.and(column+" = ?", value)
	if s.kind.exact != nil {
		w = w.and(s.kind.exact(column), len(value))
	}
	if value != "" {
		w = w.and(column + " <> ''") // SQLite's partial indexes ask for it
	}
	return w
}

// ranges are the stretches that a query reads, together all that it selects. An
// id or a key has few messages: they are read in one stretch, whatever their
// states.
func (s *SQL) ranges(q scheduler.RecordQuery) []stretch {
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
		states = everyState()
	}
	var all []stretch
	for _, state := range states {
		all = append(all, stretch{"messages" + s.kind.index(index), w.and("state = ?", int64(state))})
	}
	return all
}

// everyState are the states that a message can have, from the first on.
func everyState() (all []scheduler.State) {
	for s := scheduler.StateWaiting; s.String() != scheduler.State(math.MaxUint8).String(); s++ {
		all = append(all, s)
	}
	return all
}

// read takes a page's worth of places: first what is due at the same moment as
// the last record before, then what is due later. Written as one condition with
// OR it would make the database walk through all that is due at that moment.
func (r stretch) read(ctx context.Context, tx *sql.Tx, q scheduler.RecordQuery) (found []place, err error) {
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

// The two ways through an index.
const (
	ascending  = " ORDER BY due, uid LIMIT ?"
	descending = " ORDER BY due DESC, uid DESC LIMIT ?"
)

func (w where) places(ctx context.Context, tx *sql.Tx, from, order string, limit int) (found []place, err error) {
	query := "SELECT due, uid FROM " + from + " WHERE " + w.clause + order
	err = each(ctx, tx, query, append(slices.Clip(w.args), limit), func(row scanner) error {
		var p place
		err := row.Scan(&p.due, &p.uid)
		found = append(found, p)
		return err
	})
	return found, err
}

// cutBytes leaves as many places as have so many bytes of body and headers
// together, at least one.
func cutBytes(ctx context.Context, tx *sql.Tx, places []place, limit int) ([]place, error) {
	if limit <= 0 || len(places) < 2 {
		return places, nil
	}
	uids := make([]scheduler.UID, len(places))
	for i, p := range places {
		uids[i] = p.uid
	}
	sizes := make(map[scheduler.UID]int, len(places))
	err := inChunks(uids, func(list string, args []any) error {
		return each(ctx, tx, "SELECT uid, size FROM messages WHERE uid IN "+list, args, func(row scanner) error {
			var uid scheduler.UID
			var size int
			err := row.Scan(&uid, &size)
			sizes[uid] = size
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	sum := 0
	for i, p := range places {
		if sum += sizes[p.uid]; sum > limit && i > 0 {
			return places[:i], nil
		}
	}
	return places, nil
}
