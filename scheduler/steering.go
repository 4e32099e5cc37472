package scheduler

import (
	"context"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Steering is the part of the timeline that changes what waits and what is dead. Every instance uses it. Each call may
// be sent twice with the effect of once.
type Steering interface {
	// Amend changes the waiting message, or says why not.
	Amend(ctx context.Context, a Amend, now message.Milli) (AmendResult, error)
	// Browse looks at up to q.Limit messages of a bucket in the order of when: those that wait (in the bucket first,
	// then lane by lane), or those that are dead. What is in flight is not among them.
	Browse(ctx context.Context, bucket int, q Browse) (Browsed, error)
	// Requeue gives what is dead another life: m waits, under a uid of its own in the same bucket, under the name of
	// the dead one if it has one, and the dead one becomes canceled (KindRequeued, which names m). m is uncertain from
	// the start where the dead one was: who cancels it by its name asks about both.
	Requeue(ctx context.Context, dead message.UID, m *message.Message, now message.Milli) (RequeueResult, error)
	// Purge ends dead messages of one bucket for good: they become canceled with the kind KindPurged. It returns which
	// of them it found dead, or purged before.
	Purge(ctx context.Context, bucket int, uids []message.UID,
		now message.Milli) (purged []message.UID, number uint64, err error)
	// Count returns how many messages of a topic wait, are in flight and are dead.
	Count(ctx context.Context, topic string) (TopicCount, error)
	// Counts returns the same of up to limit topics that have messages, ordered by name, beginning after the given one.
	Counts(ctx context.Context, after string, limit int) ([]TopicCount, error)
	// Totals counts what every bucket holds, and what of it is due at now. A store may stop counting what is due at
	// MaxOverdue.
	Totals(ctx context.Context, now message.Milli) ([]Total, error)
	// Pauses lists what is paused, by pattern. Pauses belong to the certification of the first bucket, and are
	// ErrUncertified as its messages are.
	Pauses(ctx context.Context) ([]Pause, error)
	// Pause holds back what is due on topics that match the pattern, until Resume. At most MaxPauses stand at once:
	// more is ErrTooManyPauses. No two changes of pauses share a time and the later one has the later: it is p.At, or
	// after it. Who paused the pattern already, and no earlier, changes nothing.
	Pause(ctx context.Context, p Pause) (PauseChange, error)
	// Resume reports whether the pattern was paused. The change's time is now, or later as with Pause.
	Resume(ctx context.Context, pattern string, now message.Milli) (was bool, c PauseChange, err error)
}

// Amend asks to change a waiting message.
type Amend struct {
	UID message.UID
	// Version is the version that the message must have. A repeat finds the next version, which is already as asked,
	// and is answered as done.
	Version uint64
	// Due and Priority replace the message's.
	Due      message.Milli
	Priority uint8
	// Message replaces headers and body too (and its topic, names and the like must be those that stand); nil leaves
	// the content.
	Message *message.Message
	// Reason is the change's, in the journal.
	Reason string
}

// AmendCode says what an amend did.
type AmendCode uint8

// The answers of an amend (P4). Only AmendDone changed anything.
const (
	// AmendUnknown: no such message, live or remembered.
	AmendUnknown AmendCode = iota
	// AmendDone: it waits as asked.
	AmendDone
	// AmendInFlight: it is claimed.
	AmendInFlight
	// AmendMaybe: an earlier attempt may have arrived.
	AmendMaybe
	// AmendEnded: it has ended; Info says how and when.
	AmendEnded
	// AmendVersion: the message has another version, which is in Info.
	AmendVersion
)

// AmendResult is an amend's honest answer.
type AmendResult struct {
	Code AmendCode
	// Info is the message as it stands now, without headers and body.
	Info message.Info
	// Head is the bucket's earliest due time when the amend made it earlier, else 0.
	Head message.Milli
	// Number is the certification of the store that answered.
	Number uint64
}

// Browse asks for messages of a bucket.
type Browse struct {
	// Dead takes those that are dead, by when they died; else those that wait, by due.
	Dead bool
	// From and To bound that time, both inclusive; To 0 is no bound.
	From, To message.Milli
	// After is the Next of the page before, empty for the first.
	After string
	// Limit bounds how many are looked at.
	Limit int
}

// Browsed is one page. Bodies and headers are left out.
type Browsed struct {
	Messages []message.Info
	// Next is where the next page begins, empty when there is none.
	Next string
}

// RequeueCode says what a requeue did.
type RequeueCode uint8

// The answers of a requeue.
const (
	// RequeueUnknown: no such message.
	RequeueUnknown RequeueCode = iota
	// RequeueDone: it waits again.
	RequeueDone
	// RequeueNotDead: it is not dead; Info says what it is.
	RequeueNotDead
	// RequeueNamed: its name now belongs to a live message, which is in Info.
	RequeueNamed
)

// RequeueResult answers a requeue.
type RequeueResult struct {
	Code RequeueCode
	Info message.Info
	// Dead is the version that the dead message has now.
	Dead uint64
	// Head is the bucket's earliest due time when it came earlier, else 0.
	Head   message.Milli
	Number uint64
}

// TopicCount is how many messages of a topic are in each state that is no end, and how many are dead. While messages
// move the three are not of one instant, nor are two topics' of a list; none is ever negative.
type TopicCount struct {
	Topic                   string
	Waiting, InFlight, Dead int
}

const (
	// MaxPauses is how many patterns may be paused at once.
	MaxPauses = 100
	// PausesBucket is the bucket under whose certification pauses are changed and read. They concern all buckets.
	PausesBucket = 0
)

// Pause is a pattern of topics that is held back.
type Pause struct {
	Pattern string
	By      string        // who asked for it
	At      message.Milli // since when; 0 where the store's field is damaged
}

// PauseChange is a pause, or its end.
type PauseChange struct {
	Pause
	// Resumed: the pattern goes since At.
	Resumed bool
	// Number is the certification of the store under which the change was made; 0 for what a recovery does, and in
	// changes read from the journal.
	Number uint64
}
