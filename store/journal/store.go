package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Store holds the journal: *SQL, or the memory of a process that keeps nothing (store/memory). The suite journaltest
// requires the same behaviour of both. After an error a Write may or may not have been committed; repeating it is safe.
// Reason, instance, address and stream may be returned truncated, and repaired if they are not UTF-8: no change is
// refused for them.
type Store interface {
	// Write records changes, all or none, in any order and any number of times. fences names, for some buckets, the
	// certification under which the changes were made. If a higher one is recorded, Write returns scheduler.ErrFenced
	// and writes nothing.
	Write(ctx context.Context, fences map[message.Bucket]uint64, changes []record.Change) error
	// Fence raises a bucket's certification, which never falls. After it returns, no Write under a lower one can be
	// committed.
	Fence(ctx context.Context, bucket message.Bucket, number uint64) error
	// Fences returns the current certifications, by bucket.
	Fences(ctx context.Context) (map[message.Bucket]uint64, error)

	// Versions returns the version and the state of each message in the journal. It leaves out messages that the
	// journal does not know, or whose content it does not know yet.
	Versions(ctx context.Context, uids []message.UID) (map[message.UID]record.Stand, error)
	// Bare returns the versions whose content the journal refused (record.RefusedReason), and those of messages whose
	// content it does not have and will not get: the acceptance is recorded without, or the message ended.
	Bare(ctx context.Context, uids []message.UID) (map[message.UID][]uint64, error)
	// Records returns the known messages, whole, in the order of their uids.
	Records(ctx context.Context, uids []message.UID) ([]record.Record, error)
	// Load returns the known messages, whole, in the order of their uids: as many as have bytes of headers and bodies
	// together, and one at least.
	Load(ctx context.Context, uids []message.UID, bytes int) ([]record.Record, error)
	// Find returns up to limit messages that ref names, without headers and body, the latest accepted first.
	Find(ctx context.Context, ref scheduler.Ref, limit int) ([]record.Record, error)
	// Rejects returns up to limit rejected pushes that ref names and its viewer may see, the latest first.
	Rejects(ctx context.Context, ref scheduler.Ref, limit int) ([]scheduler.Rejected, error)
	// Names returns for each push the messages that have its uid, or its name if it has one, without headers and body:
	// the latest accepted first, at most scheduler.MaxRemembered of the name.
	Names(ctx context.Context, pushes []*message.Message) ([][]record.Record, error)
	// History returns the last changes of a message, up to limit, by version and without content. Changes that an older
	// tarry wrote have no due time and marks.
	History(ctx context.Context, uid message.UID, limit int) ([]record.Change, error)
	// List returns a page of records, without headers and body.
	List(ctx context.Context, q record.RecordQuery) ([]record.Record, error)
	// Changes returns a page of changes, without content.
	Changes(ctx context.Context, q record.ChangeQuery) ([]record.Change, error)
	// Forecast counts the waiting messages that fall due from one time until another, exclusive, in steps; it leaves
	// out empty steps. An empty topic selects all.
	Forecast(ctx context.Context, q record.ForecastQuery) ([]record.Forecast, error)
	// WritePause records the last change of a pattern's pause; if a later change is recorded, it changes nothing. For a
	// change under an outdated certification of the first bucket it returns scheduler.ErrFenced and changes nothing
	// either.
	WritePause(ctx context.Context, c scheduler.PauseChange) error
	// Pauses returns the last changes of all patterns, by time.
	Pauses(ctx context.Context) ([]scheduler.PauseChange, error)
	// WriteAction records what an operator does, before and after it. What has ended stays so.
	WriteAction(ctx context.Context, a *record.Action) error
	// Actions returns a page of what operators did, the last first.
	Actions(ctx context.Context, q record.ActionQuery) ([]record.Action, error)
	// MaxTerm returns the highest term that any change carries.
	MaxTerm(ctx context.Context) (uint64, error)
	// Prune deletes up to limit messages that ended before the given time, and their changes; it returns how many. It
	// never deletes messages that have not ended, nor dead ones: those wait for an operator. It also forgets patterns
	// that were resumed, actions, and up to limit pushes that were rejected, before that time.
	Prune(ctx context.Context, before message.Milli, limit int) (int, error)
	// Ping reports whether the journal answers and can be written to.
	Ping(ctx context.Context) error
}

// Mode says which commits an answer waits for.
type Mode uint8

// The modes; doc.go explains them.
const (
	Off Mode = iota
	Async
	Sync
)

var modeWords = [...]string{"off", "async", "sync"}

// String returns the mode's word in settings and answers.
func (m Mode) String() string { return modeWords[m] }

// ParseMode reads a setting.
func ParseMode(s string) (Mode, error) {
	for i, word := range modeWords {
		if s == word {
			return Mode(i), nil
		}
	}
	return Off, fmt.Errorf("journal mode %.20q: want off, async or sync", s)
}

// The points at which a test may stop a process.
const (
	// AfterRedis: the changes are in the timeline, but not in the journal.
	AfterRedis = "after-redis-before-sql"
	// AfterCommit: the changes are in the journal, and still in the outbox.
	AfterCommit = "after-commit-before-delete"
	// MidRestore: a page of staying messages is back in the timeline.
	MidRestore = "mid-restore"
	// BeforeCertify: a bucket is complete, but not certified.
	BeforeCertify = "before-certify"
)

// at reports to the test that a point was passed.
func at(passed func(string), point string) {
	if passed != nil {
		passed(point)
	}
}

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
	if err == nil || errors.Is(err, scheduler.ErrFenced) || errors.Is(err, ErrUnfit) || errors.Is(err, errRow) ||
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
	return err != nil && !Retryable(err) && !errors.Is(err, scheduler.ErrFenced) && !errors.Is(err, ErrUnfit)
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

// full reports whether a database has no room: its disk, or what it may take of it, is full.
func full(err error) bool {
	if my, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return my.Number == 1021 || my.Number == 1114 || strings.Contains(my.Message, "No space left on device")
	}
	lite, ok := errors.AsType[*sqlite.Error](err)
	return ok && lite.Code()&0xff == sqlite3.SQLITE_FULL || errors.Is(err, scheduler.ErrDiskFull)
}

// rowsFault reports whether MySQL or MariaDB refused the data itself: SQLSTATE class 22 (data exception) or 23
// (constraint), or one of the numbers below, whose class is less specific.
func rowsFault(e *mysql.MySQLError) bool {
	switch string(e.SQLState[:2]) {
	case "22", "23":
		return true
	}
	switch e.Number {
	case 1105: // unknown: a value longer than max_allowed_packet, which the driver sends by itself
		return strings.Contains(e.Message, "max_allowed_packet")
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
