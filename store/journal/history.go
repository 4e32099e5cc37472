package journal

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
)

const changeColumns = "uid, version, state, at, claimed, bucket, instance, address, term, attempt, reason, stream, " +
	"sequence, COALESCE(due, 0), COALESCE(uncertain, 0), COALESCE(refusals, 0), " +
	"COALESCE(kind, 0), COALESCE(other, '')"

func scanChange(row scanner) (c scheduler.Change, err error) {
	var version, term, sequence, uncertain int64
	if err := row.Scan(&c.UID, &version, &c.State, &c.At, &c.Claimed, &c.Bucket, &c.Instance, &c.Address, &term,
		&c.Attempt, &c.Reason, &c.Stream, &sequence,
		&c.Due, &uncertain, &c.Refusals, &c.Kind, &c.Other); err != nil {
		return c, fmt.Errorf("read a change: %w", err)
	}
	c.Version, c.Term, c.Sequence = uint64(version), uint64(term), uint64(sequence)
	c.Uncertain = uncertain != 0
	return c, nil
}

// History is every change of a message, by version.
func (s *SQL) History(ctx context.Context, uid scheduler.UID) (found []scheduler.Change, err error) {
	if !scheduler.IsUID(string(uid)) {
		return nil, nil
	}
	err = each(ctx, s.read, "SELECT "+changeColumns+" FROM transitions WHERE uid = ? ORDER BY version",
		[]any{string(uid)}, func(row scanner) error {
			c, err := scanChange(row)
			found = append(found, c)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read the history of %s: %w", uid, err)
	}
	return found, nil
}

// moment is where a change stands in the order of Changes.
type moment struct {
	at      scheduler.Milli
	uid     scheduler.UID
	version int64
}

func (m moment) compare(n moment) int {
	return cmp.Or(cmp.Compare(m.at, n.at), cmp.Compare(m.uid, n.uid), cmp.Compare(m.version, n.version))
}

// Changes returns a page of changes. It reads as List does: moments from the
// index, state by state, then the rows.
func (s *SQL) Changes(ctx context.Context, q scheduler.ChangeQuery) (page []scheduler.Change, err error) {
	if q.Limit <= 0 {
		return nil, nil
	}
	states := everyState()
	if q.State != scheduler.StateNone {
		states = []scheduler.State{q.State}
	}
	err = s.inSnapshot(ctx, func(tx *sql.Tx) error {
		var moments []moment
		for _, state := range states {
			part, err := s.moments(ctx, tx, state, q, 0)
			if err != nil {
				return err
			}
			moments = append(moments, part...)
		}
		slices.SortFunc(moments, moment.compare)
		moments = moments[:min(len(moments), q.Limit)]
		page, err = changesAt(ctx, tx, moments)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list changes: %w", err)
	}
	return page, nil
}

// moments are up to a page's worth of changes to one state, before a time unless
// that is 0.
func (s *SQL) moments(ctx context.Context, from queryer, state scheduler.State, q scheduler.ChangeQuery,
	before scheduler.Milli) (found []moment, err error) {
	w := where{}.and("state = ?", int64(state))
	if before != 0 {
		w = w.and("at < ?", int64(before))
	}
	parts := []where{w.and("at >= ?", int64(q.Since))}
	if q.AfterUID != "" || q.AfterAt != 0 {
		parts = []where{w.and("at >= ?", int64(max(q.Since, q.AfterAt+1)))}
		if q.AfterAt >= q.Since { // else the page before was of another query
			same := w.and("at = ?", int64(q.AfterAt))
			parts = []where{
				same.and("uid = ?", string(q.AfterUID)).and("version > ?", number(q.AfterVersion)),
				same.and("uid > ?", string(q.AfterUID)),
				parts[0],
			}
		}
	}
	for _, w := range parts {
		if len(found) == q.Limit {
			break
		}
		query := "SELECT at, uid, version FROM transitions" + s.kind.index("transitions_at") + " WHERE " + w.clause +
			" ORDER BY at, uid, version LIMIT ?"
		err := each(ctx, from, query, append(slices.Clip(w.args), q.Limit-len(found)), func(row scanner) error {
			var m moment
			err := row.Scan(&m.at, &m.uid, &m.version)
			found = append(found, m)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func uidsOf(moments []moment) []scheduler.UID {
	uids := make([]scheduler.UID, len(moments))
	for i, m := range moments {
		uids[i] = m.uid
	}
	return uids
}

// changesAt reads the changes at these moments, in their order. A message has
// few changes: all are read, and those that were not asked for left out.
func changesAt(ctx context.Context, tx *sql.Tx, moments []moment) ([]scheduler.Change, error) {
	at := make(map[moment]int, len(moments))
	for i, m := range moments {
		at[m] = i
	}
	page := make([]scheduler.Change, len(moments))
	err := inChunks(uidsOf(moments), func(list string, args []any) error {
		return each(ctx, tx, "SELECT "+changeColumns+" FROM transitions WHERE uid IN "+list, args,
			func(row scanner) error {
				c, err := scanChange(row)
				if i, asked := at[moment{c.At, c.UID, number(c.Version)}]; asked {
					page[i] = c
				}
				return err
			})
	})
	return page, err
}
