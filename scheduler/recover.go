package scheduler

import "context"

// Recording is how a timeline tells of its changes where a journal is kept:
// every call that changes messages writes the change to the bucket's outbox in
// the same step.
type Recording struct {
	// Instance and Address are who makes the changes of this process.
	Instance string
	Address  func() string
	// Limit bounds a bucket's outbox in bytes: above it Add answers ErrBehind, and
	// everything else goes on.
	Limit int64
	// Wrote is given each entry that stands in the outbox now, before the call that
	// wrote it returns. It must not block.
	Wrote func(Entry)
}

// Certification says that a bucket, on one run of its server, holds what it
// should. Nothing takes effect on a run that is not certified: a server that
// came back may have lost what it held, and one that was replaced may still
// answer on connections opened before.
type Certification struct {
	// Number rises with each certification; 0 is none.
	Number uint64
	// Run is the server's run that it is for.
	Run string
	// DoubtUntil is when it was given: what is due by then may have been delivered
	// without a trace, and counts as uncertain.
	DoubtUntil Milli
	// Filling: messages are still being restored; they are accepted, not claimed.
	Filling bool
}

// Standing is a bucket's certification and the run that holds the bucket now.
type Standing struct {
	Now string // the server's run
	// Last is when the last change that is known here was made, by the server's
	// clock; 0 where none is.
	Last Milli
	Certification
}

// Whole tells whether nothing is missing: messages may be claimed.
func (s Standing) Whole() bool { return s.Number > 0 && s.Run == s.Now && !s.Filling }

// Outbox is what stands between the timeline and the journal.
type Outbox interface {
	// Unwritten reads a bucket's entries from the oldest, or after the one with the
	// given id, that were written at least age milliseconds ago; bounded by count
	// and bytes (one entry always comes).
	Unwritten(ctx context.Context, bucket int, after string, age Milli, limit, bytes int) ([]Entry, error)
	// Written removes exactly these entries.
	Written(ctx context.Context, bucket int, entries []Entry) error
	// Lags tells how much stands in each bucket's outbox.
	Lags(ctx context.Context) ([]Lag, error)
}

// Mending is the part of a timeline that brings it and the journal together.
type Mending interface {
	Outbox
	// Restore stores records of the journal that are missing here or have a lower
	// version: what waits, waits again; what ended is remembered so. A message
	// already due by now becomes uncertain, which is a change of its own. Nothing in
	// flight is touched. results[i] tells what became of records[i].
	Restore(ctx context.Context, bucket int, records []Record, now Milli) (results []RestoreCode, err error)
	// Versions tells how messages stand here; those that are not known are missing.
	Versions(ctx context.Context, bucket int, uids []UID) (map[UID]Stand, error)
	// Walk lists messages that have not ended by delivery, cancel or expiry, in no
	// order; cursor is empty at first and what the call before returned after that,
	// next is empty when all were listed. One may come twice.
	Walk(ctx context.Context, bucket int, cursor string, limit int) (uids []UID, next string, err error)
}

// Recoverable is a timeline whose server may change under it.
type Recoverable interface {
	// Standings tells how every bucket stands.
	Standings(ctx context.Context) ([]Standing, error)
	// Recovering gives the calls that work on the very runs that standings name,
	// certified or not. They are for the leader alone.
	Recovering(standings []Standing) Recovering
	// Renew drops what connects to servers: it may lead to one that was replaced and
	// still answers.
	Renew()
}

// Recovering is a timeline in the hands of the leader that makes it whole.
type Recovering interface {
	Mending
	// Reclaim gives every claim back, whosever it is, marked uncertain; up to limit.
	// Fewer than limit means that none is left.
	Reclaim(ctx context.Context, bucket int, term uint64, limit int, now Milli) (int, error)
	// Certify says that the bucket may be used on its present run. The term must be
	// the one that Reclaim left there: a server that was emptied since is refused.
	Certify(ctx context.Context, bucket int, term uint64, c Certification) error

	// Pauses, Pause and Resume are those of Steering: what is paused must stand before
	// anything is claimed.
	Pauses(ctx context.Context) ([]Pause, error)
	Pause(ctx context.Context, p Pause) (PauseChange, error)
	Resume(ctx context.Context, pattern string, now Milli) (bool, PauseChange, error)
}

// Stand is how a message stands in the timeline.
type Stand struct {
	State   State
	Version uint64
}

// RestoreCode says what became of a record.
type RestoreCode uint8

// The outcomes of a restore.
const (
	// RestoreSame: the timeline has this version.
	RestoreSame RestoreCode = iota
	// RestoreAdded: it was missing.
	RestoreAdded
	// RestoreRaised: it had a lower version.
	RestoreRaised
	// RestoreBusy: it is in flight.
	RestoreBusy
	// RestoreNewer: the timeline knows more than the journal.
	RestoreNewer
)
