package record

import (
	"context"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Recording is how a timeline reports its changes if a journal is kept: every call that changes messages also writes
// the change to the bucket's outbox in the same step.
type Recording struct {
	// Instance and Address identify the instance that makes the changes of this process.
	Instance string
	Address  string
	// Limit is the size limit of a bucket's outbox in bytes. Above it Add, Amend and Requeue answer ErrBehind.
	// Everything else goes on: what it writes is bounded by what lives.
	Limit int64
	// Sync: every change waits for the journal before it is answered.
	Sync bool
	// Wrote is called with each new outbox entry before the call that wrote it returns. It must not block.
	Wrote func(Entry)
}

// Certification states that a bucket, on one run of its server, is complete. No call takes effect on a run that is not
// certified: a server that came back may have lost data, and a replaced server may still answer on connections opened
// before.
type Certification struct {
	// Number rises with each certification; 0 means none.
	Number uint64
	// Run is the run of the server that is certified.
	Run string
	// DoubtUntil is when the certification was made. A message due by then may have been delivered without a trace, and
	// counts as uncertain.
	DoubtUntil message.Milli
	// Filling: messages are still being restored. New ones are accepted, but none are claimed.
	Filling bool
	// Audited: an audit has restored since what a whole bucket lacked. What it lacks now has ended.
	Audited bool
	// Forgotten is set only to make a certification: a refilled bucket may not know ends up to this time. 0 changes
	// nothing.
	Forgotten message.Milli
}

// Standing is a bucket's certification and the run that holds the bucket now.
type Standing struct {
	Now string // the server's run
	// Last is the time of the last change that the bucket knows, and Clock the present time, both by the server's
	// clock. They are 0 if no change is known.
	Last, Clock message.Milli
	Certification
	// Err is why nothing is known about the bucket.
	Err error
}

// Whole reports whether nothing is missing, so that messages may be claimed.
func (s Standing) Whole() bool { return s.Err == nil && s.Number > 0 && s.Run == s.Now && !s.Filling }

// Outbox holds changes on their way from the timeline to the journal.
type Outbox interface {
	// Unwritten reads a bucket's entries from the oldest, or after the one with the given id, that were written at
	// least age milliseconds ago; bounded by count and bytes (but at least one entry).
	Unwritten(ctx context.Context, bucket message.Bucket, after string, age message.Milli,
		limit, bytes int) ([]Entry, error)
	// Written removes exactly these entries from the very store that they were written to or read from, as identified
	// by their Number.
	Written(ctx context.Context, bucket message.Bucket, entries []Entry) error
	// Quarantine moves an entry that the journal cannot hold from the outbox to where Quarantined finds it, until
	// somebody deletes it there. If the entry is not in the outbox, Quarantine changes nothing. Like Written it works
	// on the very store that Number identifies. A bucket that holds MaxQuarantined entries answers ErrQuarantineFull,
	// and the entry stays.
	Quarantine(ctx context.Context, q Quarantined) error
	// Quarantined lists a bucket's quarantined entries, the oldest first, a few at a time: from the first, or after the
	// position that the previous call returned as next. No entry means that all were listed. If that position is gone,
	// the list begins again.
	Quarantined(ctx context.Context, bucket message.Bucket, after string) (list []Quarantined, next string, err error)
	// Lags returns the size of each bucket's outbox. The Lag of a bucket that does not answer carries the error. Lags
	// itself fails if no bucket answers.
	Lags(ctx context.Context) ([]Lag, error)
}

// Mending is the part of a timeline that brings it and the journal together.
type Mending interface {
	Outbox
	// Standings returns the standing of every bucket. The Standing of a bucket that does not answer carries the error.
	// Standings itself fails if no bucket answers.
	Standings(ctx context.Context) ([]Standing, error)
	// Audited notes in a bucket's certification of this number that a full audit is over.
	Audited(ctx context.Context, bucket message.Bucket, number uint64) error
	// Find is Acceptor's, and Refused is Leading's.
	Find(ctx context.Context, ref scheduler.Ref) ([]message.Info, error)
	Refused(ctx context.Context, bucket message.Bucket) ([]scheduler.Refusal, error)
	// Restore stores records of the journal that are missing here or have a lower version here. The record of a live
	// message makes it wait; the record of an end is remembered as that end. A message already due becomes uncertain,
	// and so does one with Doubt, which is a change of its own. Messages in flight are not touched. results[i] is the
	// outcome of records[i]. read is when reading the records from the journal began. If the bucket may have forgotten
	// an end since then, the answer is ErrOutdated.
	Restore(ctx context.Context, bucket message.Bucket, records []Record,
		read, now message.Milli) (results []RestoreCode, err error)
	// Versions returns the state and version of messages here. Unknown messages are left out.
	Versions(ctx context.Context, bucket message.Bucket, uids []message.UID) (map[message.UID]Stand, error)
	// Walk lists, in no order, the messages that have not ended by delivery, cancel or expiry. cursor is empty at
	// first, and then the next of the previous call; next is empty when all were listed. A message may be listed twice.
	Walk(ctx context.Context, bucket message.Bucket, cursor string,
		limit int) (uids []message.UID, next string, err error)
}

// Recoverable is a timeline whose server may change under it.
type Recoverable interface {
	// Standings is Mending's.
	Standings(ctx context.Context) ([]Standing, error)
	// Recovering returns the calls that work on the very runs that standings name, certified or not. They are for the
	// leader of this term alone, and return ErrStaleTerm if a bucket knows a higher term. Their changes enter the
	// outbox under number, the certification to come.
	Recovering(standings []Standing, term, number uint64) Recovering
	// Renew drops connections to servers, because they may lead to a replaced server that still answers.
	Renew()
}

// Recovering is a timeline under the leader that makes it whole. Its Restore also takes over messages in flight: the
// leader that had claimed them is gone, and every change that the journal records after the claim was answered.
type Recovering interface {
	Mending
	// Begin raises the bucket's term. It is the first call.
	Begin(ctx context.Context, bucket message.Bucket, term uint64) error
	// Claims lists up to limit claimed messages by uid, after the given one, whosever claims they are.
	Claims(ctx context.Context, bucket message.Bucket, after message.UID, limit int) ([]message.UID, error)
	// Leased is that of Steering.
	Leased(ctx context.Context, bucket message.Bucket, cursor string, limit int) (uids []message.UID, next string,
		err error)
	// Reclaim returns up to limit claims, of any leader, to waiting, and marks their messages uncertain. Fewer than
	// limit means that none is left.
	Reclaim(ctx context.Context, bucket message.Bucket, term uint64, limit int, now message.Milli) (int, error)
	// Certify allows the bucket to be used on its present run. The term must be the one that Begin left there, and the
	// certification the one of the standings or a later one: a server that was emptied meanwhile is refused.
	Certify(ctx context.Context, bucket message.Bucket, term uint64, c Certification) error

	// Pauses, Pause and Resume are those of Steering: pauses must be in place before anything is claimed.
	Pauses(ctx context.Context) ([]scheduler.Pause, message.Milli, error)
	Pause(ctx context.Context, p scheduler.Pause) (scheduler.PauseChange, error)
	Resume(ctx context.Context, pattern string, now message.Milli) (bool, scheduler.PauseChange, error)
}

// Stand is the state and version of a message in the timeline.
type Stand struct {
	State   message.State `json:"state"`
	Version uint64        `json:"version"`
	At      message.Milli `json:"-"` // when it became so; only the journal knows
}

// IsZero reports whether there is no such message.
func (s Stand) IsZero() bool { return s.State == message.StateNone }

// RestoreCode is the outcome of restoring a record.
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
