package journal

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// queryer is a pool or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// pool is a pool of connections that refuses the calls of a Store until the database is prepared: a database that may
// belong to another namespace must not be written to or read.
type pool struct {
	db       *sql.DB // without the check, to prepare the database
	prepared *atomic.Bool
}

func (p pool) check() error {
	if p.prepared.Load() {
		return nil
	}
	return fmt.Errorf("%w: the journal is not prepared yet", scheduler.ErrUnavailable)
}

// QueryContext is the database's QueryContext after the check.
func (p pool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return p.db.QueryContext(ctx, query, args...)
}

// ExecContext is the database's ExecContext after the check.
func (p pool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return p.db.ExecContext(ctx, query, args...)
}

// transaction runs do in a transaction, and commits unless do fails.
func (p pool) transaction(ctx context.Context, options *sql.TxOptions, do func(*sql.Tx) error) error {
	if err := p.check(); err != nil {
		return err
	}
	tx, err := p.db.BeginTx(ctx, options)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() // no effect after a commit
	if err := do(tx); err != nil {
		return err
	}
	return wrap(tx.Commit(), "commit")
}

// scanner is a row.
type scanner interface{ Scan(...any) error }

// each calls do with every row of a query.
func each(ctx context.Context, from queryer, query string, args []any, do func(scanner) error) error {
	rows, err := from.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := do(rows); err != nil {
			return err
		}
	}
	return rows.Err()
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

// andText requires that a text column has exactly this value.
func (s *SQL) andText(w where, column, value string) where {
	value = name(value)
	w = w.and(column+" = ?", value)
	if s.kind.exact != nil {
		w = w.and(s.kind.exact(column), len(value))
	}
	if value != "" {
		w = w.and(column + " <> ''") // SQLite's partial indexes require it
	}
	return w
}

// collect returns the rows of a query, each as scan reads it.
func collect[T any](ctx context.Context, from queryer, query string, args []any,
	scan func(scanner) (T, error)) (found []T, err error) {
	err = each(ctx, from, query, args, func(row scanner) error {
		one, err := scan(row)
		found = append(found, one)
		return err
	})
	return found, err
}

// anys returns values as a statement's arguments.
func anys[T any](values []T) []any { return mapped(values, func(v *T) any { return *v }) }

// chunk bounds how many uids one statement names.
const chunk = 500

// inChunks calls do with parts of uids, sorted and without duplicates. It leaves out texts that do not have the form of
// a uid: they name no message.
func inChunks(uids []message.UID, do func(list string, args []any) error) error {
	valid := make([]string, 0, len(uids))
	for _, uid := range uids {
		if message.IsUID(string(uid)) {
			valid = append(valid, string(uid))
		}
	}
	slices.Sort(valid)
	for part := range slices.Chunk(slices.Compact(valid), chunk) {
		if err := do("("+questions(len(part))+")", anys(part)); err != nil {
			return err
		}
	}
	return nil
}

// dialect holds the differences between MySQL and SQLite. Both accept ? for a value and backticks around names.
type dialect struct {
	// place names the database for people, without credentials.
	place string
	// file is SQLite's file.
	file string
	// check returns an error if the server is unfit.
	check func(context.Context, *SQL) error
	// lock runs do while no other process migrates, with a pool that do may use.
	lock func(ctx context.Context, s *SQL, do func(*sql.DB) error) error
	// migrations is a folder of migrations, and goose is goose's name of the dialect.
	migrations, goose string

	// conflict stands between an insert and the update of an existing row.
	conflict string
	// incoming returns the expression for the value that the insert brought for a column.
	incoming func(column string) string
	// greatest and div are the dialect's names of these functions.
	greatest, div string
	// like compares a text with a pattern, in which any matches any text, and literal escapes a text so that it matches
	// itself. The comparison is case-sensitive.
	like, any string
	literal   func(string) string
	// share follows a select whose rows must not change before the commit.
	share string
	// update follows a select whose rows the transaction will delete.
	update string
	// exact returns a condition that a column's length in bytes equals an argument; it is nil if = is exact. MySQL's
	// own comparison ignores spaces at the end.
	exact func(column string) string
	// index makes a select use an index, whatever the statistics say.
	index func(name string) string
	// rows bounds the rows of one statement, and bytes its text if the server limits that.
	rows, bytes int
	// snapshot are the options of a transaction whose reads all see one state.
	snapshot *sql.TxOptions
}

// questions returns "?, ?, …" for n values.
func questions(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// wrap names the step of an error, if there is one.
func wrap(err error, step string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(step, args...), err)
}
