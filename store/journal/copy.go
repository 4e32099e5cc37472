package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// CopyReport reports the progress of a copy.
type CopyReport struct {
	// Messages and Changes count the rows that were read and written.
	Messages, Changes int
	// States counts the messages of the source by state.
	States map[message.State]int
	// Rejects counts the rejected pushes.
	Rejects int
	// Actions counts what operators did.
	Actions int
	// Pauses is how many patterns of topics have a pause, or had one.
	Pauses int
	// Term is the highest term that the source has seen.
	Term uint64
}

const (
	// copyRows and copyBytes bound one transaction of a copy.
	copyRows  = 500
	copyBytes = 4 << 20
	// copyNote is recorded in meta while a copy into the database is in progress.
	copyNote = "copy"
)

// Copy copies one journal into another: every message in any state, every change, the pauses, the rejects,
// the actions, the fences and the term.
// The source must not be in use meanwhile. Rows are guarded by their versions, as in Write, so a copy may be repeated,
// even after it was interrupted and after instances have used the target. Until the copy has ended, the target is unfit
// for instances.
//
// At the end Copy compares: the target must have every message, at its version in the source or a later one, and no
// change may be missing. progress, which may be nil, is called after every transaction.
func Copy(ctx context.Context, from, to Config, progress func(CopyReport)) (report CopyReport, err error) {
	if file, ok := strings.CutPrefix(from.DSN, sqliteScheme); ok {
		if _, err := os.Stat(file); err != nil { // opening it would create it
			return report, fmt.Errorf("open the journal to copy from: %w", err)
		}
	}
	to.copying = true
	c := copying{progress: progress}
	if c.from, err = Open(ctx, from); err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, c.from.Close()) }()
	if c.to, err = Open(ctx, to); err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, c.to.Close()) }()
	if c.from.kind.place == c.to.kind.place {
		return report, fmt.Errorf("copy the journal: %s is both source and target", c.to.kind.place)
	}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"mark the target", c.begin}, {"copy fences, pauses and term", c.small}, {"copy messages", c.messages},
		{"copy changes", c.changes}, {"copy rejects", c.rejects}, {"copy actions", c.actions},
		{"compare", c.compare}, {"unmark the target", c.end},
	} {
		if err := step.do(ctx); err != nil {
			return c.report, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return c.report, nil
}

// copying is a copy in progress.
type copying struct {
	from, to *SQL
	progress func(CopyReport)
	report   CopyReport
}

func (c *copying) begin(ctx context.Context) error {
	_, err := c.to.write.ExecContext(ctx,
		"INSERT INTO meta (name, value) VALUES (?, 'under way')"+c.to.kind.conflict+"name = meta.name", copyNote)
	return err
}

func (c *copying) end(ctx context.Context) error {
	_, err := c.to.write.ExecContext(ctx, "DELETE FROM meta WHERE name = ?", copyNote)
	return err
}

// checkCopied refuses a database into which a copy has begun and has not ended.
func (s *SQL) checkCopied(ctx context.Context) error {
	if s.cfg.copying {
		return nil
	}
	var n int
	err := s.write.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM meta WHERE name = ?", copyNote).Scan(&n)
	if err != nil {
		return fmt.Errorf("ask for a copy under way: %w", err)
	}
	if n > 0 {
		return fmt.Errorf(
			"%w: a copy into it is under way, or broke off: let \"tarry migrate --from\" run to its end", ErrUnfit)
	}
	return nil
}

func (c *copying) small(ctx context.Context) error {
	fences, err := c.from.Fences(ctx)
	if err != nil {
		return err
	}
	for bucket, number := range fences {
		if err := c.to.Fence(ctx, bucket, number); err != nil {
			return err
		}
	}
	pauses, err := c.from.Pauses(ctx)
	if err != nil {
		return err
	}
	for _, p := range pauses {
		if err := c.to.WritePause(ctx, p); err != nil {
			return err
		}
	}
	c.report.Pauses = len(pauses)
	if c.report.Term, err = c.from.MaxTerm(ctx); err != nil || c.report.Term == 0 {
		return err
	}
	return c.to.write.transaction(ctx, nil, func(tx *sql.Tx) error { return c.to.raiseTerm(ctx, tx, c.report.Term) })
}

func (c *copying) messages(ctx context.Context) error {
	columns := append(append([]string{"uid", "accepted"}, contentColumns...), stateColumns...)
	known := 1 + len(contentColumns) // index of the content's version
	return c.rows(ctx, "messages", columns, "uid", &c.report.Messages, func(row []any) (*upsert, []any) {
		if row[known] == int64(0) { // the row has no content, and must not seem to have any
			return &c.to.upserts.state, append(row[:2:2], row[known+1:]...)
		}
		return &c.to.upserts.whole, row
	})
}

func (c *copying) changes(ctx context.Context) error {
	return c.rows(ctx, "transitions", transitionColumns, "uid, version", &c.report.Changes,
		func(row []any) (*upsert, []any) { return &c.to.upserts.transition, row })
}

func (c *copying) rejects(ctx context.Context) error {
	return c.rows(ctx, "rejects", rejectColumns, "uid", &c.report.Rejects,
		func(row []any) (*upsert, []any) { return &c.to.upserts.reject, row })
}

func (c *copying) actions(ctx context.Context) error {
	return c.rows(ctx, "actions", actionColumns, "id", &c.report.Actions,
		func(row []any) (*upsert, []any) { return &c.to.upserts.action, row })
}

// fill writes rows, each with the statement and the values that pick chooses.
func (c *copying) fill(ctx context.Context, tx *sql.Tx, rows [][]any, pick func([]any) (*upsert, []any)) error {
	fillers := map[*upsert]*filler{}
	for _, row := range rows {
		u, values := pick(row)
		f := fillers[u]
		if f == nil {
			f = &filler{tx: tx, kind: c.to.kind, u: u}
			fillers[u] = f
		}
		if err := f.begin(ctx, weight(values)); err != nil {
			return err
		}
		f.values = append(f.values, values...)
	}
	for _, f := range fillers {
		if err := f.finish(ctx); err != nil {
			return err
		}
	}
	return nil
}

// rows reads a table in order and writes it in parts, each in one transaction.
func (c *copying) rows(ctx context.Context, table string, columns []string, order string, count *int,
	pick func(row []any) (*upsert, []any)) error {
	var part [][]any
	bytes := 0
	flush := func() error {
		if len(part) == 0 {
			return nil
		}
		err := c.to.write.transaction(ctx, nil, func(tx *sql.Tx) error { return c.fill(ctx, tx, part, pick) })
		if err != nil {
			return err
		}
		*count += len(part)
		part, bytes = part[:0], 0
		if c.progress != nil {
			c.progress(c.report)
		}
		return nil
	}
	err := each(ctx, c.from.read, "SELECT "+strings.Join(columns, ", ")+" FROM "+table+" ORDER BY "+order, nil,
		func(from scanner) error {
			row, into := make([]any, len(columns)), make([]any, len(columns))
			for i := range row {
				into[i] = &row[i]
			}
			if err := from.Scan(into...); err != nil {
				return err
			}
			// An empty value is not NULL. One driver reads it as nil, which another would write as NULL.
			for i, value := range row {
				if b, is := value.([]byte); is && b == nil {
					row[i] = []byte{}
				}
			}
			if w := weight(row); len(part) == copyRows || len(part) > 0 && bytes+w > copyBytes {
				if err := flush(); err != nil {
					return err
				}
			}
			part, bytes = append(part, row), bytes+weight(row)
			return nil
		})
	if err != nil {
		return err
	}
	return flush()
}

// weight returns how many bytes a row has in texts and blobs.
func weight(row []any) (n int) {
	for _, v := range row {
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// compare compares the target with the source.
func (c *copying) compare(ctx context.Context) error {
	c.report.States = map[message.State]int{}
	page := map[message.UID]int64{}
	missing := 0
	check := func() error {
		err := inChunks(slices.Collect(maps.Keys(page)), func(list string, args []any) error {
			return each(ctx, c.to.read, "SELECT uid, version FROM messages WHERE uid IN "+list, args,
				func(row scanner) error {
					var uid message.UID
					var version int64
					err := row.Scan(&uid, &version)
					if version >= page[uid] {
						delete(page, uid)
					}
					return err
				})
		})
		missing += len(page)
		clear(page)
		return err
	}
	err := each(ctx, c.from.read, "SELECT uid, version, state FROM messages ORDER BY uid", nil,
		func(row scanner) error {
			var uid message.UID
			var version int64
			var state message.State
			if err := row.Scan(&uid, &version, &state); err != nil {
				return err
			}
			c.report.States[state]++
			page[uid] = version
			if len(page) < chunk {
				return nil
			}
			return check()
		})
	if err = errors.Join(err, check()); err != nil {
		return err
	}
	if missing > 0 {
		return fmt.Errorf("%d of %d messages are missing or older in %s", missing, c.report.Messages, c.to.kind.place)
	}
	var have, want int
	for _, count := range []struct {
		of   *SQL
		into *int
	}{{c.from, &want}, {c.to, &have}} {
		err := count.of.read.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM transitions").Scan(count.into)
		if err != nil {
			return err
		}
	}
	if have < want {
		return fmt.Errorf("%d of %d changes are missing in %s", want-have, want, c.to.kind.place)
	}
	return nil
}
