package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Steering is the part of the timeline that changes waiting and dead messages. Every instance uses it. Each call may be
// sent twice with the effect of once.
type Steering interface {
	// Cancel ends a waiting message, or reports why it cannot.
	//
	// The message is that of a uid, or without one in one step that of an exact name, for Cancel and Amend alike. By name
	// they act only on a single attempt that is waiting, certain and not due yet. Otherwise the message is unknown to
	// them, and the caller must look it up.
	Cancel(ctx context.Context, ref Ref, now message.Milli) (CancelResult, error)
	// Bury leaves a tombstone for ref's id on ref's topic, which must be set: in the bucket of its key if the key is
	// set, else in every bucket. A push of that id stored in the intake stream at or before sequence, and stamped no
	// more than two seconds after now, is accepted as canceled. If a message under that name has appeared meanwhile,
	// Bury leaves it alone and returns its uid. It returns ErrAmbiguousID if more than MaxNamesOfID keys have the id.
	Bury(ctx context.Context, ref Ref, sequence uint64, now message.Milli) (found []message.UID, err error)
	// Amend changes the waiting message, or returns why it did not. By name it changes the due time alone.
	Amend(ctx context.Context, a Amend, now message.Milli) (AmendResult, error)
	// Browse looks at up to q.Limit messages of a bucket, ordered by time: the waiting ones (in the bucket first, then
	// lane by lane) or the dead ones. Messages in flight are not among them.
	Browse(ctx context.Context, bucket message.Bucket, q Browse) (Browsed, error)
	// Claims lists up to limit claimed messages by uid, after the given one, of every leader. Leased ones are not
	// among them.
	Claims(ctx context.Context, bucket message.Bucket, after message.UID, limit int) ([]message.UID, error)
	// Leased walks the leased messages, about limit a step. The first cursor is empty, and so is the next one at the end.
	// A lease that holds throughout is met, perhaps twice.
	Leased(ctx context.Context, bucket message.Bucket, cursor string, limit int) (uids []message.UID, next string,
		err error)
	// Requeue replaces a message by m, which waits in the same bucket under a new uid and under the name of the old
	// one, if it has one. waits is 0 for a dead message. Else it is the version of a message that waits and was certainly
	// not delivered. The old message becomes canceled (KindRequeued, which names m). If it was uncertain, m is uncertain
	// from the start: a cancel by name concerns both.
	Requeue(ctx context.Context, old message.UID, waits uint64, m *message.Message,
		now message.Milli) (RequeueResult, error)
	// Purge ends dead messages of one bucket for good: they become canceled, with the kind KindPurged. It returns those
	// that were dead, or had been purged before.
	Purge(ctx context.Context, bucket message.Bucket, uids []message.UID,
		now message.Milli) (purged []message.UID, number uint64, err error)
}

// Counting is the part of the timeline that counts messages. Every instance uses it.
type Counting interface {
	// Count returns how many messages of a topic wait, are in flight and are dead.
	Count(ctx context.Context, topic string) (TopicCount, error)
	// Counts returns the same for up to limit topics that have messages, ordered by name and beginning after the given
	// one.
	Counts(ctx context.Context, after string, limit int) ([]TopicCount, error)
	// Totals counts the messages of every bucket, and those that are due at now. A store may stop counting due messages
	// at MaxOverdue.
	Totals(ctx context.Context, now message.Milli) ([]Total, error)
	// Falls counts, for each of the ascending times but the last, the waiting messages that are due from it until before
	// the next. The times lie ahead: what is overdue is not all counted, nor where it waits.
	Falls(ctx context.Context, times []message.Milli) ([]int, error)
	// Sample reads of the messages that Falls counts between two times: of each bucket the same share of n, from places
	// spread evenly over its messages, or all if it has no more.
	Sample(ctx context.Context, from, until message.Milli, n int) ([]Sample, error)
}

// Pausing is the part of the timeline that keeps the pauses. Every instance changes them, and the leader reads them.
type Pausing interface {
	// Pauses lists the pauses by pattern, and returns the time of their last change. They belong to the certification of
	// the first bucket: while that bucket is ErrUncertified, so are they.
	Pauses(ctx context.Context) ([]Pause, message.Milli, error)
	// Pause holds back messages that are due on topics that match the pattern, until Resume. At most MaxPauses may be
	// in effect at once; one more is ErrTooManyPauses. Every change of pauses has a time of its own, later than that of
	// the change before: p.At or later. If the pattern is already paused, and no earlier, Pause changes nothing.
	Pause(ctx context.Context, p Pause) (PauseChange, error)
	// Resume reports whether the pattern was paused. The time of the change is now, or later as with Pause.
	Resume(ctx context.Context, pattern string, now message.Milli) (was bool, c PauseChange, err error)
}

// Amend describes a change of a waiting message.
type Amend struct {
	UID message.UID
	// Named is the exact name of the message, if UID is empty.
	Named Ref
	// Version is the version that the message must have. A repeated call finds the next version, already changed as
	// requested, and is answered as done.
	Version uint64
	// Due and Priority replace those of the message.
	Due      message.Milli
	Priority uint8
	// Message replaces headers and body too; its topic, names and the like must equal those of the stored message. nil
	// keeps the content.
	Message *message.Message
	// Reason is the reason of the change in the journal.
	Reason string
}

// AmendCode is the outcome of an amend.
type AmendCode uint8

// The answers of an amend (P4). Only AmendDone changed anything.
const (
	// AmendUnknown: no live or remembered message matches.
	AmendUnknown AmendCode = iota
	// AmendDone: the message waits as requested.
	AmendDone
	// AmendInFlight: the message is claimed.
	AmendInFlight
	// AmendMaybe: an earlier attempt may have arrived.
	AmendMaybe
	// AmendEnded: the message has ended. Info says how and when.
	AmendEnded
	// AmendVersion: the message has another version, which is in Info.
	AmendVersion
	// AmendTried: consumers have tried the message, so other content needs another uid (Requeue).
	AmendTried
)

// AmendResult is the result of an amend.
type AmendResult struct {
	Code AmendCode
	// Info is the message as it is now, without headers and body.
	Info    message.Info
	Earlier []Earlier
	// Number is the certification of the store that answered.
	Number uint64
}

// Browse is a request for messages of a bucket.
type Browse struct {
	// Dead selects dead messages, ordered by when they died; otherwise Browse selects waiting messages, ordered by due
	// time.
	Dead bool
	// Lane selects waiting messages of one lane, and Pull those that consumers pull. Without both all are selected.
	Lane message.Lane
	Pull bool
	// From and To bound that time. Both are inclusive; To 0 is no bound.
	From, To message.Milli
	// After is the Next of the previous page, or empty for the first page.
	After string
	// Limit bounds how many messages are looked at.
	Limit int
}

// Browsed is one page. Bodies and headers are left out.
type Browsed struct {
	Messages []message.Info
	// Next is where the next page begins, or empty if there is none.
	Next string
}

// RequeueCode is the outcome of a requeue.
type RequeueCode uint8

// The outcomes of a requeue.
const (
	// RequeueUnknown: no message matches.
	RequeueUnknown RequeueCode = iota
	// RequeueDone: the message waits again.
	RequeueDone
	// RequeueNotDead: the message is not dead, or does not wait at that version. Info says what it is.
	RequeueNotDead
	// RequeueNamed: the name now belongs to a live message, which Info describes.
	RequeueNamed
	// RequeueTaken: the new uid belongs to another message, which Info describes.
	RequeueTaken
)

// RequeueResult is the result of a requeue.
type RequeueResult struct {
	Code RequeueCode
	Info message.Info
	// Old is the version that the old message has now.
	Old     uint64
	Earlier []Earlier
	Number  uint64
}

// TopicCount is how many messages of a topic wait, are in flight, and are dead. While messages move, the three counts
// are not of the same instant, nor are those of two topics in a list. No count is ever negative.
type TopicCount struct {
	Topic   string `json:"topic"`
	Waiting int    `json:"waiting"`
	// Ready counts what consumers may pull now; Waiting counts it no more once TopicCount returns it. Leased counts those
	// InFlight that consumers have leased.
	Ready    int `json:"ready"`
	InFlight int `json:"in_flight"`
	Leased   int `json:"leased"`
	// Held are those that wait behind another message of their key, due or not; Waiting counts them.
	Held int `json:"held,omitempty"`
	Dead int `json:"dead"`
}

const (
	// MaxPauses is how many patterns may be paused at once.
	MaxPauses = 100
	// PausesBucket is the bucket under whose certification pauses are changed and read. They concern all buckets.
	PausesBucket message.Bucket = 0
)

// Pause is a pattern whose topics are held back.
type Pause struct {
	Pattern string        `json:"pattern"`
	By      string        `json:"by"` // who asked for it
	At      message.Milli `json:"at"` // since when; 0 where the store's field is damaged
}

// PauseChange is the beginning or the end of a pause.
type PauseChange struct {
	Pause
	// Resumed: the pattern is no longer paused since At.
	Resumed bool
	// Number is the certification of the store under which the change was made. It is 0 for a change made by a
	// recovery, and in changes read from the journal.
	Number uint64
}

// LaneCount counts the messages of a lane, all of which are due.
type LaneCount struct {
	Lane   message.Lane
	Count  int
	Oldest message.Milli // the earliest of their own due times
}

// HeldGroup is messages that are due, and what holds them back.
type HeldGroup struct {
	Lane message.Lane `json:"-"` // empty for messages that consumers pull
	// Name is what holds them: a pattern, a subject, a stream; or the topic of messages for pull.
	Name   string        `json:"name"`
	Count  int           `json:"count"`
	Oldest message.Milli `json:"oldest,omitempty"` // when the first fell due; 0 if that is not known
	message.Why
}

// Parked is a lane that holds messages back, with the reason in words for people.
type Parked struct {
	Lane message.Lane `json:"lane"`
	Why  string       `json:"why"`
}

// Edit describes how a reschedule changes a waiting message. Fields that are not set leave the message's values.
type Edit struct {
	// At most one of the three is set: At, Delay from now, or Shift from the present due time.
	At    *message.Milli `json:"at"`
	Delay *time.Duration `json:"delay"`
	Shift *time.Duration `json:"shift"`

	Priority *uint8           `json:"priority"`
	Headers  []message.Header `json:"headers"` // replace the user's headers if not nil
	Body     []byte           `json:"body"`    // replaces the body if not nil

	// Version is the version that the message must have (If-Match), or 0 for any.
	Version uint64
	// Run makes the message due now, whatever the other fields say. The reason of the change records that.
	Run bool

	// Fit checks the message as edited; nil means no limit.
	Fit Fit

	// Exact keeps At as it is even if that time has passed.
	Exact bool
}

// Fit is an API's limit on a complete message. A change that replaces a part is checked here, because only the store
// knows the other parts.
type Fit interface {
	// Fits returns an error for a message that the API would refuse as a push.
	Fits(m *message.Message) error
}

// Selection picks messages for an operation on many.
type Selection struct {
	// Topic is a pattern of NATS subjects, or empty for all.
	Topic string
	// Key must match exactly if HasKey is set.
	Key    string
	HasKey bool
	// From and To bound the due time, or the time of death of dead messages. Both are inclusive; 0 is no bound.
	From, To message.Milli
	// AcceptedTo bounds when they were accepted, by their uids; 0 is no bound.
	AcceptedTo message.Milli
	// Cause is the name of why dead messages died (message.Info.Cause), or empty for any.
	Cause string
	// DryRun only counts.
	DryRun bool
}

// Listing selects messages that wait, are in flight or are dead.
type Listing struct {
	Selection
	States []message.State // empty: all three
	// DiedFrom and DiedTo bound when dead messages died. From and To bound the due time, also of these.
	DiedFrom, DiedTo message.Milli
	Lane             message.Lane // only what waits in this lane; empty: everywhere
	Pull             bool         // only what waits for consumers that pull
}

// Report counts what an operation on many did, or in a dry run would do. Matches not counted here were not
// attempted because the operation stopped early.
type Report struct {
	// Looked is how many messages were looked at, Matched how many of them the selection matched.
	Looked  int `json:"looked"`
	Matched int `json:"matched"`
	// Done is how many were changed as requested.
	Done int `json:"done"`
	// InFlight, Maybe and Ended were not changed as requested: they were being delivered, may have been delivered, or
	// had ended. For Failed the call failed; some of them may have been changed only if the error is ErrOutcomeUnknown.
	InFlight int `json:"in_flight"`
	Maybe    int `json:"maybe_delivered"`
	Ended    int `json:"ended"`
	Failed   int `json:"failed"`
	// Leased is how many messages consumers held at the end, if the selection names one topic. They were not looked at.
	Leased int `json:"leased,omitempty"`
	// IntakeUnknown: the intake may hold pushes that were stored before the call, and were not looked at.
	IntakeUnknown bool `json:"-"`
}

// Requeue describes the new message that a requeue makes of a dead one.
type Requeue struct {
	Delay time.Duration `json:"delay"`
	// Spread is the time over which many are spread evenly, from Delay on.
	Spread  time.Duration    `json:"spread"`
	Headers []message.Header `json:"headers"` // replace the user's headers if not nil
	Body    []byte           `json:"body"`    // replaces the body if not nil
	// Fit checks the message with the replaced parts; nil means no limit.
	Fit Fit
}

var amendWords = []string{"unknown_id", "done", "in_flight", "maybe_delivered", "already_ended", "version_mismatch",
	"tried"}

// String returns the code's word in metrics and logs.
func (c AmendCode) String() string { return word(amendWords, c) }

// PauseOf returns the pause that holds a topic back, or nil.
func PauseOf(list []Pause, topic string) *Pause {
	at := slices.IndexFunc(list, func(p Pause) bool { return Matches(p.Pattern, topic) })
	if at < 0 {
		return nil
	}
	return &list[at]
}

// Why returns why a message waits that the pause holds back and that is due at a time.
func (p *Pause) Why(due message.Milli) message.Why {
	return message.Why{Word: message.WhyPaused, Detail: p.Pattern + " is paused", By: p.By, Since: max(p.At, due)}
}
