package journal

import (
	"context"
	"database/sql"
	"strings"
)

// dialect is where MySQL and SQLite differ. Both take ? for a value and
// backticks around names.
type dialect struct {
	// place names the database for people, without credentials.
	place string
	// file is SQLite's.
	file string
	// check finds what makes the server unfit.
	check func(context.Context, *SQL) error
	// lock runs do while nobody else migrates, on a pool that do may use.
	lock func(ctx context.Context, s *SQL, do func(*sql.DB) error) error
	// migrations is a folder of migrations, and goose's word for the dialect.
	migrations, goose string

	// conflict stands between an insert and its update of the row that is there.
	conflict string
	// incoming is the value that the insert brought for a column.
	incoming func(column string) string
	// greatest and div are the words of these functions.
	greatest, div string
	// like holds text to a pattern, in which any stands for any text and literal makes
	// text stand for itself; upper and lower case differ.
	like, any string
	literal   func(string) string
	// share follows a select whose rows must not change before the commit.
	share string
	// update follows a select whose rows the transaction will delete.
	update string
	// exact holds a column's length in bytes to an argument; nil where = is exact.
	// MySQL's own comparison ignores spaces at the end.
	exact func(column string) string
	// index makes a select use an index, whatever the statistics say.
	index func(name string) string
	// rows bounds the rows of one statement, bytes its text where the server does.
	rows, bytes int
	// snapshot are the options of a transaction whose reads all see one state.
	snapshot *sql.TxOptions
}

// questions is "?, ?, …" for so many values.
func questions(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }
