package journal

import (
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// ErrUnfit means that the database is not what tarry needs (its schema, its namespace, its settings, its version), or
// that the DSN is wrong. Retrying does not help: an operator must act, and the error says what to do.
var ErrUnfit = errors.New("the journal's database is unfit")

// The part that did not answer, in operations that ask several parts. Both errors are also scheduler.ErrUnavailable;
// the timeline's own errors are only that.
var (
	ErrNoDatabase = fmt.Errorf("%w: the journal does not answer", scheduler.ErrUnavailable)
	ErrNoBroker   = fmt.Errorf("%w: nats does not answer", scheduler.ErrUnavailable)
)

// errRow marks a row that no database can accept, found before it was sent.
var errRow = errors.New("a change that cannot be written")

// Retryable reports whether the same call may succeed later: the database is unreachable, busy, full, read-only, or
// refuses the call for a reason of its own. Permanent errors are those that the rows themselves cause, ErrFenced,
// ErrUnfit, and records that the timeline cannot read. An unknown error counts as retryable: waiting loses nothing,
// giving up would.
func Retryable(err error) bool {
	if err == nil || errors.Is(err, record.ErrFenced) || errors.Is(err, ErrUnfit) || errors.Is(err, errRow) ||
		errors.Is(err, scheduler.ErrUnreadable) {
		return false
	}
	if my, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return !rowsFault(my)
	}
	if errors.Is(err, mysql.ErrPktTooLarge) {
		return false
	}
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		switch lite.Code() & 0xff { // the primary code of an extended one
		case sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_RANGE:
			return false
		}
	}
	return true
}

// refused reports whether the journal refuses the rows themselves for good. Other rows may be accepted. A database that
// is unreachable or unfit does not refuse rows.
func refused(err error) bool {
	return err != nil && !Retryable(err) && !errors.Is(err, record.ErrFenced) && !errors.Is(err, ErrUnfit)
}

// refusal returns why the rows were refused, without the database's own text, which may quote a body.
func refusal(err error) string {
	if my, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return fmt.Sprintf("SQL error %d (%s)", my.Number, my.SQLState[:])
	}
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		return fmt.Sprintf("SQLite error %d", lite.Code())
	}
	return "the change itself"
}

// rowsFault reports whether MySQL or MariaDB refused the data itself: SQLSTATE class 22 (data exception) or 23
// (constraint), or one of the numbers below, whose class is less specific.
func rowsFault(e *mysql.MySQLError) bool {
	switch string(e.SQLState[:2]) {
	case "22", "23":
		return true
	}
	switch e.Number {
	case 1118, // row size too large
		1153, // packet larger than max_allowed_packet
		1265, // data truncated
		1301, // result larger than max_allowed_packet
		1364, // field has no default
		1366: // incorrect value
		return true
	}
	return false
}
