package scheduler

import (
	"hash/crc32"
	"time"
)

// Milli is a point in time in whole unix milliseconds, UTC: the unit in which
// due times are stored and compared.
type Milli int64

// CeilMilli rounds t up to the next whole millisecond: a due time must never
// come out earlier than it was asked for.
func CeilMilli(t time.Time) Milli {
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return Milli(ms)
}

// Time is m as a time.Time in UTC.
func (m Milli) Time() time.Time { return time.UnixMilli(int64(m)).UTC() }

// Add moves m by d; a fraction of a millisecond rounds up.
func (m Milli) Add(d time.Duration) Milli {
	ms := d / time.Millisecond
	if d%time.Millisecond > 0 {
		ms++
	}
	return m + Milli(ms)
}

// Header is one header line of a user's message. Names may repeat.
type Header struct {
	Name, Value string
}

// Digest stands for the content of a push as it was sent. Two pushes under one
// id with the same digest are one push and its retry.
type Digest [16]byte

// Message is a delayed message: what is delivered, where, when, and what tarry knows
// of it. The packages that take requests check the limits of its fields
// (bridge/wire), before there is a Message.
type Message struct {
	UID UID
	// ID is the user's own name for the message, empty when it has none.
	ID string
	// Key is the business key: messages of one key share a bucket and their order.
	Key string
	// Topic is the NATS subject the message is due on.
	Topic   string
	Headers []Header
	Body    []byte

	Due      Milli
	Priority uint8
	// TTL is how long after due the message is still worth delivering; 0 is for ever.
	TTL time.Duration
	// Attempt is the number the delivery carries: 1 for a first delivery, more
	// when a consumer sent the message back.
	Attempt uint32
	// Digest is kept for messages with an ID, else zero.
	Digest Digest
	// Stored is the intake stream's sequence of a push that came that way, else 0.
	// It is not kept; it decides whether a tombstone is younger than the push.
	Stored uint64
	// Merge and MaxWait say how a push merges; they are not kept.
	Merge   Merge
	MaxWait time.Duration
	// Origin is the push from the intake whose content this is, where that is not
	// the message's own uid: an older push of the stream does not replace it.
	Origin UID
	// Retry is when it is tried again after a consumer sent it back or NATS refused
	// it; empty takes the topic's.
	Retry Retry

	// Mark is what changes while the message waits.
	Mark Mark
	// Claim is the number of the claim that took it, and ClaimedAt its time; set on
	// what Claim returns.
	Claim     uint64
	ClaimedAt Milli
}

// Mark is the small part of a message that changes between acceptance and its
// end. Most messages never have one that differs from zero.
type Mark struct {
	// Uncertain: a consumer may have seen the message although nothing proves it.
	Uncertain bool
	// Refusals counts NATS's permanent refusals, toward dead.
	Refusals uint32
	// Changes counts what changed since acceptance: the version is one more.
	Changes uint32
	// Lane names the parked lane the message waits in, empty when it waits in its bucket.
	Lane string
}

// Version counts a message's changes, its acceptance included.
func (m *Message) Version() uint64 { return 1 + uint64(m.Mark.Changes) }

// Info is what a look-up returns of a message, live or recently ended.
type Info struct {
	Message
	State   State
	Version uint64
	// EndedAt is when it ended, for states that are ends.
	EndedAt Milli
	// Kind says how it ended where that is not plain from the state, and Other names
	// the message that it went into or goes on as.
	Kind  Kind
	Other UID
	// Reason says the same to people, and why.
	Reason string
	// ParkedWhy says in words why it waits in the lane that Mark names; Get sets it.
	ParkedWhy string
}

// Score is the message's place in its bucket's order: by due, then priority
// (high first); the store breaks ties by uid, that is by acceptance. It stays
// below 2^53 for every due time below the year 3084, so that it is exact as
// the double that Redis keeps.
func (m *Message) Score() int64 { return int64(m.Due)<<8 | int64(255-m.Priority) }

// ScoreNow is the highest score that is due at now.
func ScoreNow(now Milli) int64 { return int64(now)<<8 | 255 }

// ScoreDue is the due time within a score.
func ScoreDue(score int64) Milli { return Milli(score >> 8) }

// Hash is the 16-bit hash of a key or of a client id. Modulo the number of
// buckets it is the bucket; it is part of the uid, so that a uid alone finds
// its message.
func Hash(s string) uint16 { return uint16(crc32.ChecksumIEEE([]byte(s))) }
