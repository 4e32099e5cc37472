package journal

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/tarry-mq/tarry/scheduler"
)

// Write records changes in one transaction. It takes what it needs in one
// order, as everybody does: fences, messages by uid, transitions by uid, the
// term.
func (s *SQL) Write(ctx context.Context, fences map[int]uint64, changes []scheduler.Change) error {
	var term uint64
	for i := range changes {
		if c := &changes[i]; !scheduler.IsUID(string(c.UID)) || c.Version == 0 {
			return fmt.Errorf("%w: version %d of %q", errRow, c.Version, c.UID)
		}
		term = max(term, changes[i].Term)
	}
	if err := s.makeFences(ctx, fences); err != nil {
		return err
	}
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin a write: %w", err)
	}
	defer tx.Rollback() // after a commit it does nothing
	if err := s.checkFences(ctx, tx, fences); err != nil {
		return err
	}
	if err := s.writeMessages(ctx, tx, fold(changes)); err != nil {
		return fmt.Errorf("write messages: %w", err)
	}
	if err := s.writeTransitions(ctx, tx, inOrder(changes)); err != nil {
		return fmt.Errorf("write transitions: %w", err)
	}
	if term > s.term.Load() { // else it is on record
		if err := s.raiseTerm(ctx, tx, term); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit a write: %w", err)
	}
	for old := s.term.Load(); old < term && !s.term.CompareAndSwap(old, term); old = s.term.Load() {
	}
	return nil
}

func (s *SQL) writeMessages(ctx context.Context, tx *sql.Tx, rows []folded) error {
	whole := filler{tx: tx, kind: s.kind, u: &s.upserts.whole}
	state := filler{tx: tx, kind: s.kind, u: &s.upserts.state}
	for _, r := range rows {
		f, bytes := &state, min(len(r.latest.Reason), reasonBytes)
		if r.content != nil {
			f, bytes = &whole, bytes+contentBytes(r.content.Message)
		}
		if err := f.begin(ctx, bytes); err != nil {
			return err
		}
		f.values = append(f.values, string(r.latest.UID), r.latest.UID.Time().UnixMilli())
		if r.content != nil {
			f.values = contentValues(f.values, r.content)
		}
		f.values = stateValues(f.values, r.latest)
	}
	if err := whole.finish(ctx); err != nil {
		return err
	}
	return state.finish(ctx)
}

func (s *SQL) writeTransitions(ctx context.Context, tx *sql.Tx, changes []*scheduler.Change) error {
	f := filler{tx: tx, kind: s.kind, u: &s.upserts.transition}
	for _, c := range changes {
		if err := f.begin(ctx, len(c.Reason)+len(c.Instance)+len(c.Address)+len(c.Stream)); err != nil {
			return err
		}
		f.values = append(f.values, string(c.UID), number(c.Version), int64(c.State), int64(c.At), int64(c.Claimed),
			int64(c.Bucket),
			name(c.Instance), name(c.Address), number(c.Term), int64(c.Attempt), text(c.Reason, reasonBytes),
			name(c.Stream), number(c.Sequence),
			unlessZero(int64(c.Due)), unlessZero(bit(c.Uncertain)), unlessZero(int64(c.Refusals)),
			unlessZero(int64(c.Kind)), unlessEmpty(string(c.Other)))
	}
	return f.finish(ctx)
}
