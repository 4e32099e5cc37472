package journal

import (
	"context"
	"database/sql"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
)

// queryer is a pool or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// scanner is a row.
type scanner interface{ Scan(...any) error }

// each runs do on every row of a query.
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

// anys are values as a statement's arguments.
func anys[T any](values []T) []any {
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = v
	}
	return args
}

// chunk bounds how many uids one statement names.
const chunk = 500

// inChunks runs do on parts of uids, sorted and without duplicates. A text that does
// not have the form of a uid is left out: it names no message.
func inChunks(uids []scheduler.UID, do func(list string, args []any) error) error {
	valid := make([]string, 0, len(uids))
	for _, uid := range uids {
		if scheduler.IsUID(string(uid)) {
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
