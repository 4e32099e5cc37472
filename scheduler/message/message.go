package message

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"math/rand/v2"
	"time"
)

// Milli is a point in time in whole unix milliseconds, UTC: the unit in which due times are stored and compared.
type Milli int64

// CeilMilli rounds t up to the next whole millisecond: a due time must never be earlier than requested.
func CeilMilli(t time.Time) Milli {
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return Milli(ms)
}

// Time returns m as a time.Time in UTC.
func (m Milli) Time() time.Time { return time.UnixMilli(int64(m)).UTC() }

// Add returns m moved by d. A fraction of a millisecond rounds up.
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

// Digest identifies the content of a push as it was sent. Two pushes under one id with the same digest are one push and
// its retry.
type Digest [16]byte

// Message is a delayed message: its content, destination and due time, and what tarry knows about it. The packages that
// take requests check the limits of its fields (bridge/wire) before they make a Message.
type Message struct {
	UID UID
	// ID is the user's own name for the message, or empty if it has none.
	ID string
	// Key is the business key. Messages of one key share a bucket and keep their order.
	Key string
	// Topic is the NATS subject that the message is published on.
	Topic   string
	Headers []Header
	Body    []byte

	Due Milli
	// TTL is how long after its due time the message is still worth delivering. 0 means forever.
	TTL time.Duration
	// Attempt is the number that the delivery carries: 1 for a first delivery, more if a consumer sent the message
	// back.
	Attempt  uint32
	Priority uint8
	// Pull: consumers pull the message, and it is never published.
	Pull bool
	// Serial: at most one message for pull of the same topic and key is leased at a time. It has a key.
	Serial bool
	// Call identifies the call by which its producer pushes it, so that the call's repeats are the same push: two bytes
	// that decide the bucket where nothing else does, then a digest. It is empty where no repeat can be recognized, and
	// not persisted with the message.
	Call string
	// Judge: the store may lack the message that the push repeats while it is filled, and the journal must be asked then.
	// Of a push that merges this is so in any case. Judged is the certification under which it was asked and had no such
	// message, or 0. Both are not persisted.
	Judge  bool
	Judged uint64
	// Merge and MaxWait say how a push merges. They are not persisted.
	Merge   Merge
	MaxWait time.Duration
	// Digest is kept for messages with an ID; otherwise it is zero.
	Digest Digest
	// Stored is the sequence of the push in the intake stream, or 0 if it did not come through it. It is not persisted.
	// It decides whether a tombstone is younger than the push.
	Stored uint64
	// Since and StoredAt say how a push of the intake that merges compares with others (Older). Among pushes that
	// were stored from Since on, by the stream's clock, the sequences tell the order. StoredAt is when the push was
	// stored by the accepting instance's clock, or 0 if that is not known. Neither is persisted.
	Since    Milli
	StoredAt Milli
	// By is the caller who pushed the message. It is not persisted; the journal has it.
	By string
	// Origin is the uid of the push whose content the message has, if it differs from the message's own uid. A push that
	// was stored before that one does not replace the content.
	Origin UID
	// Retry is the schedule of retries after a consumer sent the message back or NATS refused it. If empty, the topic's
	// schedule applies.
	Retry Retry

	// Lease is how long a consumer may hold the message if the pull does not say it; 0 is the topic's.
	Lease time.Duration

	// Mark is the part of the message that changes while it waits.
	Mark Mark
	// Claim is the number of the claim that took the message, and ClaimedAt the time of that claim. Claim sets both.
	Claim     uint64
	ClaimedAt Milli
}

// Mark is the small part of a message that changes between its acceptance and its end. For most messages it stays zero.
type Mark struct {
	// Uncertain reports whether a consumer may have seen the message although nothing proves it.
	Uncertain bool
	// Handed reports whether a consumer had the message and released it. The journal does not know, nor does it know of
	// leases, so a message for pull counts as handed out when it is restored, unless it was not due yet and never changed.
	Handed bool
	// Refusals counts NATS's permanent refusals or, of a message for pull, the leases that ended in vain. Too many make
	// the message dead.
	Refusals uint32
	// Changes counts the changes since acceptance. The version is one more.
	Changes uint32
	// Lane names the lane that the message waits in, or is empty if it waits in its bucket.
	Lane Lane
	// Try is the last lease that ended in vain, zero if there was none. The journal keeps it in the history alone.
	Try Try
}

// Try is how a consumer's lease ended in vain.
type Try struct {
	At       Milli
	Consumer string
	How      string // up to TryMost bytes
}

// TryMost is how many bytes a Try keeps of how it ended.
const TryMost = 120

// Older reports whether a push was stored before the push other, whose content waits under the name. Between two pushes
// of the intake the stream's sequence decides, because the clock that stamps them may step back; but only if other was
// stored since sequences are comparable. Between the intake and other ways the time of storing decides. A push that did
// not come through the intake is stored as it arrives, and so is never older.
func (m *Message) Older(other UID) bool {
	switch {
	case !m.UID.Intake():
		return false
	case !other.Intake():
		return m.StoredAt > 0 && m.StoredAt < CeilMilli(other.Time())
	case CeilMilli(other.Time()) < m.Since:
		return m.UID < other
	}
	return other.follows(m.UID)
}

// Version counts a message's changes, its acceptance included.
func (m *Message) Version() uint64 { return 1 + uint64(m.Mark.Changes) }

// Size returns the bytes of the body and of the headers' names and values.
func (m *Message) Size() int {
	n := len(m.Body)
	for i := range m.Headers {
		n += len(m.Headers[i].Name) + len(m.Headers[i].Value)
	}
	return n
}

// Info is the result of looking up a message, live or recently ended.
type Info struct {
	Message
	State   State
	Version uint64
	// EndedAt is when the message ended, for states that are ends.
	EndedAt Milli
	// Expires is when the time to live of a waiting message for pull is over, if the store told it. It counts from the due
	// time that was asked for, and Due may be that of a retry.
	Expires Milli
	// Kind says how the message ended if the state alone does not. Other names the message that it was merged into or
	// continues as.
	Kind  Kind
	Other UID
	// Reason describes the end, and its cause, in words for people.
	Reason string
	// Why says why the message is where it is. It is set for answers alone.
	Why Why
	// IntakeUnknown: the message has ended, and the intake may hold a later push of its name. It is set for answers
	// alone.
	IntakeUnknown bool
	// Bare: the journal could not record the message, or not its content. It is set for answers alone.
	Bare bool
	// Held is who has leased the message. It is set for answers alone.
	Held *Holding
}

// Holding says who has leased a message, and until when.
type Holding struct {
	Consumer     string
	Since, Until Milli
}

// EndOnly reports whether nothing but the end of a message is known: its store was lost before its acceptance came to
// the journal, and the end came from there. Nobody can write its acceptance any more, since a store is restored under a
// new certification.
func (i *Info) EndOnly() bool { return i.Topic == "" && i.State.Ended() }

// Score returns the message's place in its bucket's order: by due time, then by priority, high first. The store breaks
// ties by uid, that is by acceptance. A score stays below 2^53 for every due time before the year 3084, so it is exact
// as the double that Redis keeps.
func (m *Message) Score() int64 { return int64(m.Due)<<8 | int64(255-m.Priority) }

// ScoreNow returns the highest score that is due at now.
func ScoreNow(now Milli) int64 { return int64(now)<<8 | 255 }

// ScoreDue returns the due time within a score.
func ScoreDue(score int64) Milli { return Milli(score >> 8) }

// Rank returns the place of a message for pull among those of its topic: by priority, high first, then by due time. It
// stays below 2^53 too: Score requires that due times have 45 bits.
func (m *Message) Rank() int64 { return RankFrom(m.Priority) + int64(m.Due) }

// RankFrom returns the lowest rank of a priority.
func RankFrom(priority uint8) int64 { return int64(255-priority) << rankBits }

// RankDue returns the due time within a rank.
func RankDue(rank int64) Milli { return Milli(rank & (1<<rankBits - 1)) }

const rankBits = 45

// Hash returns the 16-bit hash of a key or of a client id. Modulo the number of buckets it is the bucket. The uid
// contains it, so a uid alone is enough to find its message.
func Hash(s string) uint16 { return uint16(crc32.ChecksumIEEE([]byte(s))) }

// Merge says what a push does if a message under its name is already waiting.
//
//	            none or ended    waiting                              in flight, or waiting and uncertain
//	reject      new (ended: 409) same content: duplicate; else 409    as waiting
//	keep        new              absorbed; the first content stays    becomes the next message under the name
//	replace     new              its content, due and priority win    next; uncertain: refused as maybe delivered
//	debounce    new              replace, due at most MaxWait after   as replace
//	                             the message was first accepted
//
// A message may wait as the next one under a name while the earlier one is in flight. When the earlier one comes back,
// the two meet: replace and debounce end the earlier one (KindGaveWay); keep ends the later one (KindYielded) if it is
// still waiting. What consumers have tried and waits again keeps its content: replace and debounce end it
// (KindGaveWay), and the push is new.
//
// A push that was absorbed, or whose content won, is remembered under its own uid as canceled (KindMerged, which names
// the message) for as long as ends are. A push that is sent twice therefore merges once. Which of two pushes came first
// is decided by when they were sent to tarry, and not by when they arrive here; see Message.Older.
type Merge uint8

// The ways to merge.
const (
	MergeReject Merge = iota
	MergeKeep
	MergeReplace
	MergeDebounce
)

// ContentName returns the id of a push that merges without an id of its own. Pushes with equal topics and bodies have
// the same one.
func ContentName(topic string, body []byte) string {
	h := sha256.New()
	h.Write([]byte(topic))
	h.Write([]byte{0})
	h.Write(body)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// Retry is a schedule of retries: the n-th retry waits the n-th delay, and after the last one the message is dead.
// Package bridge/wire reads and writes its text.
type Retry struct {
	Delays []time.Duration // whole milliseconds
	// Jitter moves each delay by up to this many percent, either way.
	Jitter uint8
	// None: there is no retry, whatever other schedules say.
	None bool
}

// DefaultRetry returns the schedule of messages that have none: nine retries within a little more than a day, as
// payment providers notify shops.
func DefaultRetry() Retry {
	return Retry{Delays: []time.Duration{0, 0, 2 * time.Minute, 10 * time.Minute, 10 * time.Minute,
		time.Hour, 2 * time.Hour, 6 * time.Hour, 15 * time.Hour}}
}

// Empty reports whether there is no schedule.
func (r *Retry) Empty() bool { return len(r.Delays) == 0 && !r.None }

// After returns the delay of the n-th retry, counted from 1. over reports that there is no such retry.
func (r *Retry) After(n int) (delay time.Duration, over bool) {
	if n < 1 || n > len(r.Delays) {
		return 0, true
	}
	d := r.Delays[n-1]
	if r.Jitter > 0 && d > 0 {
		d += time.Duration((rand.Float64()*2 - 1) * float64(r.Jitter) / 100 * float64(d))
	}
	return d.Round(time.Millisecond), false
}
