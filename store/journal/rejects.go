package journal

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// rejectColumns are the columns of rejects, in the order of the values of writeRejects.
var rejectColumns = []string{"uid", "at", "id", "topic", "reason", "digest", "size", "body"}

// apart returns the changes of messages, and the rejected pushes by uid.
func apart(changes []record.Change) (of []record.Change, rejects []*record.Change) {
	if !slices.ContainsFunc(changes, isReject) {
		return changes, nil
	}
	for i := range changes {
		if isReject(changes[i]) {
			rejects = append(rejects, &changes[i])
		} else {
			of = append(of, changes[i])
		}
	}
	slices.SortFunc(rejects, func(a, b *record.Change) int { return cmp.Compare(a.UID, b.UID) })
	return of, rejects
}

func isReject(c record.Change) bool { return c.Version == 0 }

// writeRejects records rejected pushes, each once.
func (s *SQL) writeRejects(ctx context.Context, tx *sql.Tx, rejects []*record.Change) error {
	f := filler{tx: tx, kind: s.kind, u: &s.upserts.reject}
	for _, c := range rejects {
		r := c.Rejected
		if err := f.begin(ctx, len(r.Reason)+len(r.ID)+len(r.Topic)+len(r.Body)); err != nil {
			return err
		}
		f.values = append(f.values, string(c.UID), int64(c.At), name(r.ID), name(r.Topic), text(r.Reason, reasonBytes),
			r.Digest[:], int64(r.Size), blob(r.Body))
	}
	return f.finish(ctx)
}

// Rejects returns rejected pushes, the latest first.
func (s *SQL) Rejects(ctx context.Context, ref scheduler.Ref, limit int) (found []scheduler.Rejected, err error) {
	w := where{}
	switch {
	case message.IsUID(string(ref.UID)):
		w = w.and("uid = ?", string(ref.UID))
	case ref.UID != "" || ref.ID == "":
		return nil, nil
	default:
		w = s.andText(w, "id", ref.ID)
	}
	if ref.Topic != "" {
		w = s.andText(w, "topic", ref.Topic)
	}
	all, err := collect(ctx, s.read, "SELECT uid, id, topic, at, reason, size FROM rejects WHERE "+w.clause+
		" ORDER BY uid DESC LIMIT ?", append(w.args, max(limit, viewerPage)),
		func(row scanner) (r scheduler.Rejected, err error) {
			err = row.Scan(&r.UID, &r.ID, &r.Topic, &r.At, &r.Reason, &r.Size)
			return r, err
		})
	if err != nil {
		return nil, fmt.Errorf("find rejects: %w", err)
	}
	all = slices.DeleteFunc(all, func(r scheduler.Rejected) bool { return !ref.Viewer.Sees(r.Topic) })
	return all[:min(len(all), limit)], nil
}

// pruneRejects deletes up to limit pushes that were rejected before a time, or before the latest MaxRejects.
func (s *SQL) pruneRejects(ctx context.Context, before message.Milli, limit int) (n int, err error) {
	before, err = s.beforeLast(ctx, "rejects", s.cfg.MaxRejects, before)
	if err != nil || before <= 0 {
		return 0, err
	}
	uids, err := collect(ctx, s.read, "SELECT uid FROM rejects WHERE at < ? ORDER BY at LIMIT ?",
		[]any{int64(before), limit}, func(row scanner) (uid message.UID, err error) {
			err = row.Scan(&uid)
			return uid, err
		})
	if err != nil {
		return 0, err
	}
	return len(uids), inChunks(uids, func(list string, args []any) error {
		_, err := s.write.ExecContext(ctx, "DELETE FROM rejects WHERE uid IN "+list, args...)
		return err
	})
}

// beforeLast returns the time before which rows of a table may go: the given one, or that of the last rows to keep.
func (s *SQL) beforeLast(ctx context.Context, table string, keep int, before message.Milli) (message.Milli, error) {
	last, err := collect(ctx, s.read, "SELECT at FROM "+table+" ORDER BY at DESC LIMIT 1 OFFSET ?",
		[]any{keep - 1}, func(row scanner) (at message.Milli, err error) {
			err = row.Scan(&at)
			return at, err
		})
	if err == nil && len(last) > 0 {
		before = max(before, last[0])
	}
	return before, err
}
