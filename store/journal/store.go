package journal

import (
	"context"

	"github.com/tarry-mq/tarry/scheduler"
)

// Store is where the journal is kept: *SQL, or the memory of a process that
// keeps nothing (store/memory). One suite, journaltest, holds them to the same
// behaviour. An error leaves it open whether a Write was committed; to repeat it
// is safe. Reason, instance, address and stream may come back cut, and repaired
// where they are not UTF-8: no change is refused for them.
type Store interface {
	// Write records changes, all or none, in any order and any number of times.
	// fences names, for some buckets, the certification that the changes were made
	// under; where a higher one stands the answer is scheduler.ErrFenced and
	// nothing is written.
	Write(ctx context.Context, fences map[int]uint64, changes []scheduler.Change) error
	// Fence raises a bucket's certification; when it returns, no Write under a
	// lower one can still be committed. It never falls.
	Fence(ctx context.Context, bucket int, number uint64) error
	// Fences are the certifications that stand, by bucket.
	Fences(ctx context.Context) (map[int]uint64, error)

	// Versions returns the version and the state in which the journal has each
	// message. Messages that it does not know, or whose content it does not know yet,
	// are left out.
	Versions(ctx context.Context, uids []scheduler.UID) (map[scheduler.UID]scheduler.Stand, error)
	// Records returns the messages that are known, whole, in the order of their uids.
	Records(ctx context.Context, uids []scheduler.UID) ([]scheduler.Record, error)
	// Find returns up to limit messages that ref names, without headers and body,
	// the latest accepted first.
	Find(ctx context.Context, ref scheduler.Ref, limit int) ([]scheduler.Record, error)
	// Names returns for each push the messages that have its uid, or its name where it
	// has one, without headers and body: the latest accepted first, at most
	// scheduler.MaxRemembered of the name.
	Names(ctx context.Context, pushes []*scheduler.Message) ([][]scheduler.Record, error)
	// History is every change of a message, by version, without content. What an
	// older version of tarry wrote has no due and marks.
	History(ctx context.Context, uid scheduler.UID) ([]scheduler.Change, error)
	// List returns a page of records.
	List(ctx context.Context, q scheduler.RecordQuery) ([]scheduler.Record, error)
	// Changes returns a page of changes, without content.
	Changes(ctx context.Context, q scheduler.ChangeQuery) ([]scheduler.Change, error)
	// Forecast counts what waits and falls due from the given time until another,
	// exclusive, by steps of so many milliseconds; empty steps are left out. An
	// empty topic takes all.
	Forecast(ctx context.Context, q scheduler.ForecastQuery) ([]scheduler.Forecast, error)
	// WritePause keeps the last change of a pattern's pause: where one is there that
	// is later it changes nothing. A change under a certification of the first bucket
	// that is over is scheduler.ErrFenced and changes nothing either.
	WritePause(ctx context.Context, c scheduler.PauseChange) error
	// Pauses are the last changes of all patterns, by time.
	Pauses(ctx context.Context) ([]scheduler.PauseChange, error)
	// MaxTerm is the highest term that any change carries.
	MaxTerm(ctx context.Context) (uint64, error)
	// Prune deletes up to limit messages that ended before the given time, and
	// their changes; it returns how many. What has not ended is never touched, nor
	// what is dead: it waits for somebody to deal with it. It
	// also forgets what was resumed before that time.
	Prune(ctx context.Context, before scheduler.Milli, limit int) (int, error)
	// Ping reports whether the journal answers and can be written to.
	Ping(ctx context.Context) error
}
