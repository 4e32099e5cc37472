// Package record has the words between the stores: the changes that the timeline hands to the journal, the records that
// the journal keeps, and the calls by which a timeline is recovered from them, compared with them and drained. No other
// part of scheduler names them.
package record

import (
	"fmt"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Change is one change of a message as the journal records it: what the message became, when, by whom and why. A claim
// is not a change of its own; the end records when its attempt was claimed. A Change of version 0 and StateNone records
// a push that was not accepted.
type Change struct {
	UID message.UID `json:"-"`
	// Version counts a message's changes: 1 is its acceptance, and no number is left out. A rejected push has 0.
	Version uint64 `json:"version"`
	// State is the message's state after the change.
	State message.State `json:"state"`
	At    message.Milli `json:"at"`
	// Due, Uncertain and Refusals are the message's after the change.
	Due       message.Milli `json:"due,omitempty"`
	Uncertain bool          `json:"-"`
	Refusals  uint32        `json:"-"`
	// Bucket is the bucket of the message.
	Bucket message.Bucket `json:"bucket"`
	// Instance and Address identify the instance that made the change. Term is the leader's, or 0 for a change that any
	// instance may make.
	Instance string `json:"instance,omitempty"`
	Address  string `json:"address,omitempty"`
	Term     uint64 `json:"term,omitempty"`
	// By is the caller on whose behalf the instance made it, or empty if it acted by itself, or if that is not known.
	By string `json:"by,omitempty"`
	// Attempt is the number of the try that the change is about, at an end of the last one; 0 without one.
	Attempt uint32 `json:"attempt,omitempty"`
	// Claimed is when the attempt that led to this change was claimed, or 0 without an attempt.
	Claimed message.Milli `json:"claimed,omitempty"`
	// Kind says what made the change if the states do not, Other is the message that it names, and Reason says the same
	// in words for people.
	Kind   message.Kind `json:"kind,omitempty"`
	Other  message.UID  `json:"other,omitempty"`
	Reason string       `json:"reason,omitempty"`
	// Stream and Sequence are where NATS stored a delivered message; empty for core NATS.
	Stream   string `json:"stream,omitempty"`
	Sequence uint64 `json:"sequence,omitempty"`

	// Message is the content as of this version, or nil if the change does not alter it.
	Message *message.Message `json:"-"`
	// Rejected is the push of a change of version 0.
	Rejected *scheduler.Rejected `json:"-"`
}

// Entry is what one script wrote to the outbox: the changes it made, together.
type Entry struct {
	Bucket message.Bucket
	// Number is the certification under which the entry was written or read back.
	Number uint64
	// ID is the entry's place in the bucket's outbox.
	ID string
	// Size is what the entry counts toward the outbox's limit, in bytes, and Count is how many changes the outbox
	// counts it as.
	Size, Count int
	Changes     []Change
	// Damaged is why the entry cannot be read, or nil if it can. The Changes of a damaged entry list the messages that
	// it names, as far as they can be read, with UID, Bucket and At only.
	Damaged error
}

// RefusedReason is the reason in the history of a change whose own reason and content the journal refused.
const RefusedReason = "the journal refused the content of this change"

// Quarantined is an entry that the journal cannot hold: it is damaged, or the journal refuses even the bare state of a
// message. It is no longer in the outbox.
type Quarantined struct {
	Bucket message.Bucket `json:"bucket"`
	// Number and ID are those of the entry; a list has no Number.
	Number uint64 `json:"-"`
	ID     string `json:"entry"`
	// At is when it was quarantined.
	At message.Milli `json:"at"`
	// Reason is why the entry was quarantined. It contains no message content.
	Reason string `json:"reason"`
	// Known reports whether the journal received the later states of the messages. If it did not, it may show an
	// ended message as waiting; no restore brings that message back.
	Known bool `json:"known"`
	// UIDs lists the messages whose change the journal lacks, as far as they can be read, at most MaxQuarantinedUIDs.
	UIDs []message.UID `json:"uids"`
}

const (
	// MaxQuarantined is how many entries of a bucket may be quarantined. If the journal refuses more than that, the
	// entries are hardly at fault, and the cause may still be fixed.
	MaxQuarantined = 100
	// QuarantinedPage is how many quarantined entries a call lists.
	QuarantinedPage = 10
	// MaxQuarantinedUIDs is how many messages of each entry are kept.
	MaxQuarantinedUIDs = 1000
)

// Record is a message as the journal has it. Info's Mark holds uncertain, refusals and changes; lanes are not kept.
type Record struct {
	message.Info
	// Content is the version that topic, key, body and the like are from. It is 0 while only a later change has been
	// written and the content is not known yet.
	Content uint64
	// ChangedAt is when the latest change happened, and ChangedBy its caller.
	ChangedAt message.Milli
	ChangedBy string
	// Doubt: the message may have been delivered although the journal has it as waiting. It is set to restore it.
	Doubt bool
}

// Life is a message as the journal has it, and its last changes by version.
type Life struct {
	Record
	Changes []Change
	Earlier bool // the journal has changes before these
}

const (
	// MaxLives is the most messages of one name that a history contains.
	MaxLives = 20
	// MaxChanges is how many changes a history contains. Merges are changes too, so a name that is pushed again and
	// again has any number of them. This many are more than one can read, and have about 200 KB as JSON: an answer
	// that fits NATS's default max_payload of 1 MB.
	MaxChanges = 1000
)

// RecordQuery asks for records in the order of due, then uid.
type RecordQuery struct {
	// Topic, Key and ID select records by the complete text; empty selects all. ID is the user's own.
	Topic, Key, ID string
	// States selects records by state; empty selects all.
	States []message.State
	// DueFrom and DueTo bound due, both inclusive; 0 is no bound.
	DueFrom, DueTo message.Milli
	// AfterDue and AfterUID are the place of the last record of the page before.
	AfterDue message.Milli
	AfterUID message.UID
	// Limit bounds the number of records.
	Limit int
	// Latest selects the records that come last in that order instead of those that come first. AfterDue and AfterUID
	// are then ignored.
	Latest bool
	// Places requests UID and Due alone.
	Places bool
}

// ChangeQuery asks for changes in the order of time, uid and version.
type ChangeQuery struct {
	// Since is the earliest time, inclusive.
	Since message.Milli
	// State selects the changes to that state; StateNone selects all.
	State message.State
	// After is the place of the last change of the page before.
	AfterAt      message.Milli
	AfterUID     message.UID
	AfterVersion uint64
	Limit        int
}

// ForecastQuery asks how many waiting messages fall due from one moment until, but not at, another, by steps.
type ForecastQuery struct {
	// Topic is exact; empty stands for any.
	Topic string
	// Pattern is a pattern that the topic must match, or empty for none.
	Pattern           string
	From, Until, Step message.Milli
}

// Forecast is how many messages fall due within a step.
type Forecast struct {
	From  message.Milli `json:"from"` // the beginning of the step
	Count int           `json:"count"`
}

// Lag is the part of a bucket's outbox that is not in the journal yet.
type Lag struct {
	Entries int   `json:"-"`
	Changes int   `json:"changes"`
	Bytes   int64 `json:"bytes"`
	// Oldest is when the oldest entry was made, by the clock of the instance that made it, or 0 if there is none.
	Oldest message.Milli `json:"oldest,omitempty"`
	// Quarantined is how many entries are quarantined; they count nowhere else.
	Quarantined int `json:"quarantined,omitempty"`
	// Err is set if the bucket did not answer.
	Err error `json:"-"`
}

// unnamedFor bounds how long after its acceptance a message may be without a name in the journal. The instance that
// accepted it commits that from memory, and the leader commits its end; either may be first. What no instance commits
// within a second, the drainer commits in the order of the outbox.
const unnamedFor = 10 * time.Second

// Ended returns an end as the journal records it, without the instance and the time. Soon after the acceptance of a
// message with an id the change holds its content too: else a delivery that is committed first has no name, and if the
// timeline is lost then, a repeated push is delivered once more.
func Ended(e *scheduler.End) Change {
	m := e.Message
	c := Change{UID: m.UID, Version: m.Version() + 1, State: e.State, Reason: e.Reason, Claimed: m.ClaimedAt,
		Attempt: m.Tries(e.State),
		Stream:  e.Stream, Sequence: e.Sequence, Due: m.Due, Uncertain: e.Uncertain, Refusals: m.Mark.Refusals}
	if m.ID != "" && m.ClaimedAt <= message.CeilMilli(m.UID.Time()).Add(unnamedFor) {
		own := *m
		c.Message = &own
	}
	return c
}

// Returned returns a return as the journal records it, without the instance and the time. Message must be set.
func Returned(b *scheduler.Back) Change {
	m := b.Message
	return Change{
		UID:       b.UID,
		Version:   1 + uint64(b.Mark.Changes),
		State:     message.StateWaiting,
		Kind:      b.Kind,
		Reason:    b.Reason,
		Claimed:   m.ClaimedAt,
		Attempt:   m.Attempt,
		Due:       m.Due,
		Uncertain: b.Mark.Uncertain,
		Refusals:  b.Mark.Refusals,
	}
}

// RestoreRequest selects the messages of the journal to restore into the timeline.
type RestoreRequest struct {
	// UID restores one message; empty restores all that match.
	UID message.UID
	// Topic restricts to one topic, or to those that match a pattern.
	Topic string
	// Overdue also selects messages that are already due, and with them the dead.
	Overdue bool
	// DryRun only reports what would be done.
	DryRun bool
	// Rate bounds messages a second, 0 for no bound.
	Rate int
}

// RestoreReport counts the outcomes of the records that were read.
type RestoreReport struct {
	DryRun   bool `json:"dry_run,omitempty"`
	Read     int  `json:"read"`
	Added    int  `json:"added"`
	Raised   int  `json:"raised"`
	Same     int  `json:"same"`
	InFlight int  `json:"in_flight"`
	Newer    int  `json:"newer"`
}

// VerifyRequest asks to compare the timeline with the journal.
type VerifyRequest struct {
	// Repair brings both to the higher version of each message that differs, except those that ended.
	Repair bool
	// Revive brings back those that ended according to the store alone, as uncertain.
	Revive bool
}

// The kinds of a Difference.
const (
	MissingInStore = "missing_in_store" // live in the journal only
	// EndedInStore is live in the journal only, though the store had it and has lost nothing since: the journal lost
	// its end.
	EndedInStore     = "ended_in_store"
	MissingInJournal = "missing_in_journal" // in the store only
	StoreOlder       = "store_older"
	StoreNewer       = "store_newer"
)

// Difference is one message whose state differs between the timeline and the journal.
type Difference struct {
	UID      message.UID    `json:"uid"`
	Bucket   message.Bucket `json:"bucket"`
	Kind     string         `json:"kind"`
	Store    Stand          `json:"store,omitzero"`
	Journal  Stand          `json:"journal,omitzero"`
	Repaired bool           `json:"repaired"`
}

// VerifyReport is the result of a comparison. It does not count differences that a second look, after the outbox was
// drained, no longer found.
type VerifyReport struct {
	// InStore and InJournal are how many messages were looked at in the store and in the journal.
	InStore   int `json:"in_store"`
	InJournal int `json:"in_journal"`
	// Found counts differences by kind, Repaired those that were mended.
	Found    map[string]int `json:"found"`
	Repaired int            `json:"repaired"`
	// Differences are the first of them.
	Differences []Difference `json:"differences"`
	// Refused lists transitions that the store was asked for and did not make: the first ones of each bucket.
	Refused []scheduler.Refusal `json:"refused,omitempty"`
	// Quarantined are the entries of the outbox that the journal could not hold.
	Quarantined []Quarantined `json:"quarantined,omitempty"`
}

// MaxRejects bounds how many rejected pushes the journal keeps: the latest.
const MaxRejects = 1_000_000

// MaxDifferences bounds the differences that a report lists one by one.
const MaxDifferences = 100

// RedeliverRequest asks to publish again what a broker lost.
type RedeliverRequest struct {
	// Since is the time of the earliest deliveries to check.
	Since message.Milli
	// Topic restricts to one topic, or to those that match a pattern.
	Topic  string
	DryRun bool
}

// RedeliverReport counts what became of the deliveries that were checked.
type RedeliverReport struct {
	DryRun      bool `json:"dry_run,omitempty"`
	Checked     int  `json:"checked"`
	Present     int  `json:"present"`
	Gone        int  `json:"gone"`
	Redelivered int  `json:"redelivered"`
	// Unknown counts those that cannot be judged: delivered by core NATS, stored in a stream that removes what was
	// consumed, purged or exceeds its limits, or without content in the journal any more.
	Unknown int `json:"unknown"`
	Failed  int `json:"failed"`
}

// ErrQuarantineFull means that a bucket holds MaxQuarantined entries that the journal cannot hold. Nothing was moved.
var ErrQuarantineFull = fmt.Errorf("too many entries are quarantined: the limit is %d", MaxQuarantined)
