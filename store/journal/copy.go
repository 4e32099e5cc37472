package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
)

// CopyReport is what a copy has done.
type CopyReport struct {
	// Messages and Changes are how many rows were read and written.
	Messages, Changes int
	// States counts the messages of the source by what became of them.
	States map[scheduler.State]int
	// Pauses is how many patterns of topics have a pause, or had one.
	Pauses int
	// Term is the highest that the source has seen.
	Term uint64
}

const (
	// copyRows and copyBytes bound one transaction of a copy.
	copyRows  = 500
	copyBytes = 4 << 20
	// copyNote stands in meta while a copy into the database is under way.
	copyNote = "copy"
)

// Copy writes all that one journal holds into another: every message whatever became of it, every change, the pauses,
// the fences and the term. Nobody may use the source meanwhile. Rows are guarded by their versions, as in Write, so it
// may be repeated, also after it broke off and after instances have gone on with the target. Until it has ended the
// target is unfit for them.
//
// At the end it compares: every message must stand in the target, at its version in the source or a later one, and no
// change may be missing. progress, which may be nil, is called after every transaction.
func Copy(ctx context.Context, from, to Config, progress func(CopyReport)) (report CopyReport, err error) {
	if file, ok := strings.CutPrefix(from.DSN, sqliteScheme); ok {
		if _, err := os.Stat(file); err != nil { // to open it would make it
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
		{"copy changes", c.changes},
		{"compare", c.compare}, {"unmark the target", c.end},
	} {
		if err := step.do(ctx); err != nil {
			return c.report, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return c.report, nil
}

// copying is a copy under way.
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

// checkCopied refuses a database that has a part of another's rows only.
func (s *SQL) checkCopied(ctx context.Context) error {
	if s.cfg.copying {
		return nil
	}
	var n int
	if err := s.write.QueryRowContext(ctx, "SELECT COUNT(*) FROM meta WHERE name = ?", copyNote).Scan(&n); err != nil {
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
	return c.transaction(ctx, func(tx *sql.Tx) error { return c.to.raiseTerm(ctx, tx, c.report.Term) })
}

func (c *copying) transaction(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := c.to.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit it does nothing
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (c *copying) messages(ctx context.Context) error {
	columns := append(append([]string{"uid", "accepted"}, contentColumns...), stateColumns...)
	known := 1 + len(contentColumns) // where the version of the content stands
	return c.rows(ctx, "messages", columns, "uid", &c.report.Messages, func(tx *sql.Tx, rows [][]any) error {
		whole := filler{tx: tx, kind: c.to.kind, u: &c.to.upserts.whole}
		state := filler{tx: tx, kind: c.to.kind, u: &c.to.upserts.state}
		for _, row := range rows {
			f := &whole
			if row[known] == int64(0) { // it must not count as content
				f, row = &state, append(row[:2:2], row[known+1:]...)
			}
			if err := f.begin(ctx, weight(row)); err != nil {
				return err
			}
			f.values = append(f.values, row...)
		}
		if err := whole.finish(ctx); err != nil {
			return err
		}
		return state.finish(ctx)
	})
}

func (c *copying) changes(ctx context.Context) error {
	return c.rows(ctx, "transitions", transitionColumns, "uid, version", &c.report.Changes,
		func(tx *sql.Tx, rows [][]any) error {
			f := filler{tx: tx, kind: c.to.kind, u: &c.to.upserts.transition}
			for _, row := range rows {
				if err := f.begin(ctx, weight(row)); err != nil {
					return err
				}
				f.values = append(f.values, row...)
			}
			return f.finish(ctx)
		})
}

// rows reads a table in an order and has it written in parts, each in one transaction.
func (c *copying) rows(ctx context.Context, table string, columns []string, order string, count *int,
	write func(*sql.Tx, [][]any) error) error {
	var part [][]any
	bytes := 0
	flush := func() error {
		if len(part) == 0 {
			return nil
		}
		if err := c.transaction(ctx, func(tx *sql.Tx) error { return write(tx, part) }); err != nil {
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
			// what is empty and not NULL: one driver reads it as nil, which another would write as NULL
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

// weight is how many bytes a row has in texts and blobs.
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

// compare holds the target against the source.
func (c *copying) compare(ctx context.Context) error {
	c.report.States = map[scheduler.State]int{}
	page := map[scheduler.UID]int64{}
	missing := 0
	check := func() error {
		found, err := versionsOf(ctx, c.to, page)
		for uid, version := range page {
			if found[uid] < version {
				missing++
			}
		}
		clear(page)
		return err
	}
	err := each(ctx, c.from.read, "SELECT uid, version, state FROM messages ORDER BY uid", nil,
		func(row scanner) error {
			var uid scheduler.UID
			var version int64
			var state scheduler.State
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
		if err := count.of.read.QueryRowContext(ctx, "SELECT COUNT(*) FROM transitions").Scan(count.into); err != nil {
			return err
		}
	}
	if have < want {
		return fmt.Errorf("%d of %d changes are missing in %s", want-have, want, c.to.kind.place)
	}
	return nil
}

// versionsOf are the versions of these messages in a journal, whether or not it knows their content.
func versionsOf(ctx context.Context, s *SQL, of map[scheduler.UID]int64) (map[scheduler.UID]int64, error) {
	found := make(map[scheduler.UID]int64, len(of))
	uids := make([]scheduler.UID, 0, len(of))
	for uid := range maps.Keys(of) {
		uids = append(uids, uid)
	}
	err := inChunks(uids, func(list string, args []any) error {
		return each(ctx, s.read, "SELECT uid, version FROM messages WHERE uid IN "+list, args, func(row scanner) error {
			var uid scheduler.UID
			var version int64
			err := row.Scan(&uid, &version)
			found[uid] = version
			return err
		})
	})
	return found, err
}
