package journal

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

const changeColumns = "uid, version, state, at, claimed, bucket, instance, address, term, attempt, reason, stream, " +
	"sequence, COALESCE(due, 0), COALESCE(uncertain, 0), COALESCE(refusals, 0), " +
	"COALESCE(kind, 0), COALESCE(other, ''), COALESCE(who, '')"

func scanChange(row scanner) (c record.Change, err error) {
	var version, term, sequence, uncertain int64
	if err := row.Scan(&c.UID, &version, &c.State, &c.At, &c.Claimed, &c.Bucket, &c.Instance, &c.Address, &term,
		&c.Attempt, &c.Reason, &c.Stream, &sequence,
		&c.Due, &uncertain, &c.Refusals, &c.Kind, &c.Other, &c.By); err != nil {
		return c, fmt.Errorf("read a change: %w", err)
	}
	c.Version, c.Term, c.Sequence = uint64(version), uint64(term), uint64(sequence)
	c.Uncertain = uncertain != 0
	return c, nil
}

// History returns the last changes of a message, by version.
func (s *SQL) History(ctx context.Context, uid message.UID, limit int) (found []record.Change, err error) {
	if !message.IsUID(string(uid)) {
		return nil, nil
	}
	found, err = collect(ctx, s.read, "SELECT "+changeColumns+
		" FROM transitions WHERE uid = ? ORDER BY version DESC LIMIT ?", []any{string(uid), max(limit, 0)}, scanChange)
	if err != nil {
		return nil, fmt.Errorf("read the history of %s: %w", uid, err)
	}
	slices.Reverse(found)
	return found, nil
}

// moment is the position of a change in the order of Changes.
type moment struct {
	at      message.Milli
	uid     message.UID
	version int64
}

func (m moment) compare(n moment) int {
	return cmp.Or(cmp.Compare(m.at, n.at), cmp.Compare(m.uid, n.uid), cmp.Compare(m.version, n.version))
}

// Changes returns a page of changes. It reads as List does: moments from the index, state by state, then the rows.
func (s *SQL) Changes(ctx context.Context, q record.ChangeQuery) (page []record.Change, err error) {
	if q.Limit <= 0 {
		return nil, nil
	}
	states := message.States()
	if q.State != message.StateNone {
		states = []message.State{q.State}
	}
	err = s.read.transaction(ctx, s.kind.snapshot, func(tx *sql.Tx) error {
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
	return page, wrap(err, "list changes")
}

// moments returns up to a page's worth of changes to one state, before a time unless that is 0.
func (s *SQL) moments(ctx context.Context, from queryer, state message.State, q record.ChangeQuery,
	before message.Milli) (found []moment, err error) {
	w := where{}.and("state = ?", int64(state))
	if before != 0 {
		w = w.and("at < ?", int64(before))
	}
	parts := []where{w.and("at >= ?", int64(q.Since))}
	if q.AfterUID != "" || q.AfterAt != 0 {
		parts = []where{w.and("at >= ?", int64(max(q.Since, q.AfterAt+1)))}
		if q.AfterAt >= q.Since { // else the previous page was of another query
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
		part, err := collect(ctx, from, query, append(slices.Clip(w.args), q.Limit-len(found)), scanMoment)
		if err != nil {
			return nil, err
		}
		found = append(found, part...)
	}
	return found, nil
}

func momentUID(m *moment) message.UID { return m.uid }

func scanMoment(row scanner) (m moment, err error) {
	err = row.Scan(&m.at, &m.uid, &m.version)
	return m, err
}

// changesAt reads the changes at these moments, in their order. A message has few changes, so changesAt reads all of
// them and ignores those that were not asked for.
func changesAt(ctx context.Context, tx *sql.Tx, moments []moment) ([]record.Change, error) {
	at := make(map[moment]int, len(moments))
	for i, m := range moments {
		at[m] = i
	}
	page := make([]record.Change, len(moments))
	err := inChunks(mapped(moments, momentUID), func(list string, args []any) error {
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

// Prune deletes up to limit messages that ended before the given time, and their changes, in one transaction. Dead
// messages stay until an operator handles them.
//
// Prune finds candidates by the changes that were ends, whose index exists anyway: an index on the column ended would
// cost an insert and a removal for every end. It then checks under a lock whether that end is still the message's
// state.
func (s *SQL) Prune(ctx context.Context, before message.Milli, limit int) (n int, err error) {
	if n, err = s.pruneRejects(ctx, before, limit); err != nil {
		return n, fmt.Errorf("prune the rejects: %w", err)
	}
	if err := s.pruneActions(ctx, before); err != nil {
		return n, err
	}
	if before <= 0 {
		return n, nil
	}
	if err := s.prunePauses(ctx, before); err != nil {
		return n, err
	}
	for after := (moment{}); n < limit; {
		ends, err := s.endsBefore(ctx, before, after, limit-n)
		if err != nil {
			return n, fmt.Errorf("prune: %w", err)
		}
		if len(ends) == 0 {
			break
		}
		deleted, err := s.delete(ctx, before, ends)
		n += deleted
		if err != nil {
			return n, fmt.Errorf("prune: %w", err)
		}
		after = ends[len(ends)-1] // past those that were requeued or restored
	}
	return n, nil
}

// endsBefore returns up to limit changes that ended a message, in the order of time.
func (s *SQL) endsBefore(ctx context.Context, before message.Milli, after moment,
	limit int) (ends []moment, err error) {
	for _, state := range message.States() {
		if !state.Ended() || state.Kept() {
			continue
		}
		part, err := s.moments(ctx, s.read, state, record.ChangeQuery{AfterAt: after.at, AfterUID: after.uid,
			AfterVersion: uint64(after.version), Limit: limit}, before)
		if err != nil {
			return nil, err
		}
		ends = append(ends, part...)
	}
	slices.SortFunc(ends, moment.compare)
	return ends[:min(len(ends), limit)], nil
}

// delete deletes those of the messages that ended before a time.
func (s *SQL) delete(ctx context.Context, before message.Milli, ends []moment) (n int, err error) {
	err = s.write.transaction(ctx, nil, func(tx *sql.Tx) error {
		return inChunks(mapped(ends, momentUID), func(list string, args []any) error {
			over, err := collect(ctx, tx, "SELECT uid FROM messages WHERE uid IN "+list+
				" AND ended < ? AND state <> ? ORDER BY uid"+s.kind.update,
				append(args, int64(before), int64(message.StateDead)), func(row scanner) (uid message.UID, err error) {
					err = row.Scan(&uid)
					return uid, err
				})
			if err != nil {
				return err
			}
			n += len(over)
			return inChunks(over, func(list string, args []any) error {
				for _, table := range [...]string{"transitions", "messages"} {
					if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE uid IN "+list, args...); err != nil {
						return err
					}
				}
				return nil
			})
		})
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
