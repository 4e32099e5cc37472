package journal

import (
	"context"
	"database/sql"
	"errors"
)

// filler collects the rows of one upsert and sends them, as many at a time as
// the database takes.
type filler struct {
	tx   *sql.Tx
	kind *dialect
	u    *upsert
	// one is the prepared statement where rows are sent one by one.
	one *sql.Stmt

	values []any
	rows   int
	bytes  int // of the statement to come, no less than it will have
}

// rowBytes is what a row takes beside its texts and blobs.
const rowBytes = 512

// begin makes room for a row whose texts and blobs have so many bytes together.
// The caller appends its values.
func (f *filler) begin(ctx context.Context, bytes int) error {
	bytes = rowBytes + 2*bytes // each byte may need escaping
	if f.rows == f.kind.rows || f.rows > 0 && f.kind.bytes > 0 && f.bytes+bytes > f.kind.bytes {
		if err := f.send(ctx); err != nil {
			return err
		}
	}
	f.rows++
	f.bytes += bytes
	return nil
}

// send sends what was collected.
func (f *filler) send(ctx context.Context) (err error) {
	if f.rows == 0 {
		return nil
	}
	if f.kind.rows == 1 {
		if f.one == nil {
			if f.one, err = f.tx.PrepareContext(ctx, f.u.statement(1)); err != nil {
				return err
			}
		}
		_, err = f.one.ExecContext(ctx, f.values...)
	} else {
		_, err = f.tx.ExecContext(ctx, f.u.statement(f.rows), f.values...)
	}
	clear(f.values)
	f.values, f.rows, f.bytes = f.values[:0], 0, 0
	return err
}

// finish sends the rest.
func (f *filler) finish(ctx context.Context) error {
	err := f.send(ctx)
	if f.one != nil {
		err = errors.Join(err, f.one.Close())
	}
	return err
}
