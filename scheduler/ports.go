package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Timeline is where messages wait: store/timeline (Redis) or store/memory. One suite, schedulertest, tests that every
// implementation behaves the same.
//
// Every call except Claim may be sent twice with the effect of once. An error that Is ErrUnavailable or ErrFull wrote
// nothing, and neither did ErrStaleTerm. Any other error leaves the outcome unknown.
//
// A call whose caller answers only once the journal holds the change returns an Effect, or a result that has one.
type Timeline interface {
	Acceptor
	Leading
	Steering
	Pausing
	Counting
	Pulling
}

// Acceptor is the part of the timeline that stores pushes. Every instance uses it.
type Acceptor interface {
	// Buckets returns the number of buckets, which is fixed for the life of a namespace.
	Buckets() message.Bucket
	// Add stores a batch of messages of one bucket, all or none. results[i] is the outcome of batch[i].
	Add(ctx context.Context, bucket message.Bucket, batch []*message.Message,
		now message.Milli) (results []AddResult, earlier []Earlier, err error)
	// Reject records for the journal, if one is kept, that a push is not accepted. It changes no message.
	Reject(ctx context.Context, r *Rejected, now message.Milli) (Effect, error)
	// Find returns every message, live or remembered, that ref names and its viewer may see. If more than MaxNamesOfID
	// names of a bucket match, it returns ErrAmbiguousID and the messages found so far, so that the cost of a look-up
	// does not grow with the number of names. If a record cannot be read, it returns ErrUnreadable and all other
	// messages.
	Find(ctx context.Context, ref Ref) ([]message.Info, error)
}

// Leading is the part of the timeline that only the leader of a term uses.
type Leading interface {
	// Begin raises the bucket's term. It is the first call of a leadership.
	Begin(ctx context.Context, bucket message.Bucket, term uint64) error
	// Sweep moves up to limit messages back to waiting and marks them uncertain: those claimed by leaders of lower
	// terms, and this term's own claims up to the number last. It returns how many it moved. Fewer than limit means
	// that none is left. A repeat goes on with the next messages.
	Sweep(ctx context.Context, bucket message.Bucket, term, last uint64, limit int, now message.Milli) (int, error)
	// Claim moves due messages to in_flight, limited by count and bytes (but at least one message). Claim is the only
	// call that must not be repeated: Held finds the messages claimed by a call whose reply was lost.
	Claim(ctx context.Context, bucket message.Bucket, req Claim) (Claimed, error)
	// Finish ends claimed messages. Like Return, it acts only on the exact claim that a message names. If the table of
	// transitions does not allow an end, that message stays claimed and Refused lists it; the others end.
	Finish(ctx context.Context, bucket message.Bucket, term uint64, ends []End, now message.Milli) error
	// Return puts claimed messages back to waiting, in their bucket or in a lane. It acts only on the exact claim that
	// Back names, so a return that the store executes late does not undo a later claim.
	Return(ctx context.Context, bucket message.Bucket, term uint64, back []Back, now message.Milli) error
	// Held lists up to limit claims of a term by uid, after the given uid. The leader compares them with what it has
	// in flight and returns the rest. The two steps are not one call, which would have to carry all that is in flight.
	Held(ctx context.Context, bucket message.Bucket, term uint64, after message.UID, limit int) ([]Held, error)
	// Heads looks at every bucket at once, cheaply, for the safety poll. The Head of a bucket that does not answer
	// carries the error. Heads itself fails only if no bucket answers.
	Heads(ctx context.Context) ([]Head, error)
	// Refused lists the transitions that the bucket was asked for and did not make, for the first MaxRefusals messages.
	// It forgets a refusal once its message is gone, has changed state, or can be read again.
	Refused(ctx context.Context, bucket message.Bucket) ([]Refusal, error)
	// Lanes lists the lanes of a bucket that hold messages, by name. Begin does not return them, since every instance
	// lists lanes for operators.
	Lanes(ctx context.Context, bucket message.Bucket) ([]LaneCount, error)
	// Trim forgets up to limit ends that are older than EndedKeep, and tombstones that are too old. It returns how many
	// ends it forgot.
	Trim(ctx context.Context, bucket message.Bucket, term uint64, now message.Milli, limit int) (int, error)
}

// MaxNamesOfID is how many names, with different topics or keys, may share an id in one bucket for the id to be looked
// up without topic or key.
const MaxNamesOfID = 32

// Ref names a message by uid, or by client id, which belongs to a topic and a key.
type Ref struct {
	UID message.UID
	ID  string
	// Topic is exact. Empty means any topic.
	Topic string
	Key   string
	// Keyed reports whether Key is set; the key itself may be empty.
	Keyed bool
	// Viewer is the caller on whose behalf the look-up is made, or nil if the caller may see every message.
	Viewer *Viewer
}

// Exact reports whether a reference by id sets both topic and key.
func (r *Ref) Exact() bool { return r.Topic != "" && r.Keyed }

// Viewer may see the messages of certain topics only. All other messages do not exist for it.
type Viewer struct {
	Topics []string // patterns
}

// Sees reports whether a topic is among the viewer's.
func (v *Viewer) Sees(topic string) bool {
	return v == nil || slices.ContainsFunc(v.Topics, func(pattern string) bool { return Matches(pattern, topic) })
}

// AddCode is the outcome of a push.
type AddCode uint8

// The outcomes of an add.
const (
	// Added: a new message is waiting.
	Added AddCode = iota
	// AddedCanceled: the message was canceled at once by a cancel younger than the push.
	AddedCanceled
	// AddDuplicate: the same push was accepted before.
	AddDuplicate
	// AddConflict: the id belongs to a message with other content, or to a message that ended without being delivered
	// and of which this push is not the same retry.
	AddConflict
	// AddMerged: the push was merged into a waiting message. First is that message as it is now.
	AddMerged
	// AddUncertain: the push would replace a message that may have been delivered. Nothing was changed.
	AddUncertain
	// AddUnreadable: the push's uid or name leads to a damaged record. First is that record and has only a uid. Nothing
	// was changed, and Refused lists it.
	AddUnreadable
	// AddFilling: nothing has the push's name or uid here (nothing living, if it merges), and the bucket is being filled:
	// the message that it belongs to may be missing yet. Nothing was changed. A push that is Judged under that
	// certification never gets this answer.
	AddFilling
	// AddCalls: the bucket already keeps as many calls as it may. Nothing was changed.
	AddCalls
)

const (
	// CallKeep is how long at least a timeline keeps the call of a push. Of the pushes with one call it stores the first,
	// and the others are duplicates of that one.
	CallKeep = 3 * time.Minute
	// MaxCalls bounds the calls that a bucket keeps from within CallKeep. At 80 bytes each they take 160 MiB of Redis,
	// and as much again while those of before are not forgotten.
	MaxCalls = 2 << 20
)

// AddResult is the outcome of one push. Except for Added, First is the message that was there: its uid, due time, state
// and end.
type AddResult struct {
	Code  AddCode
	First message.Info
	// Number is the certification of the store that answered.
	Number uint64
}

// CancelCode is the outcome of a cancel.
type CancelCode uint8

// The answers of a cancel (P4).
const (
	// CancelUnknown: no live or remembered message matches.
	CancelUnknown CancelCode = iota
	// CancelDone: the message will never be delivered.
	CancelDone
	// CancelInFlight: the message is claimed. Nothing was changed.
	CancelInFlight
	// CancelMaybe: the message will not be tried again, but an earlier attempt may have arrived.
	CancelMaybe
	// CancelEnded: the message had ended before. Info says how and when.
	CancelEnded
)

// Passage says what became of the pushes that the intake held.
type Passage uint8

const (
	// PassedNothing: there is no intake.
	PassedNothing Passage = iota
	// PassedAll: all are accepted or rejected.
	PassedAll
	// PassedSome: some may not be, when the time was over.
	PassedSome
	// PassedUnknown: the intake cannot be read.
	PassedUnknown
)

// Again reports whether a message that was not found may be found now.
func (p Passage) Again() bool { return p == PassedAll || p == PassedSome }

// Unsure reports whether a push that was stored before the wait may still be in the intake.
func (p Passage) Unsure() bool { return p == PassedSome || p == PassedUnknown }

// CancelResult is the result of a cancel.
type CancelResult struct {
	Code CancelCode
	Info message.Info
	// Buried reports that no message has the name, and that a tombstone waits for a push that is on its way.
	Buried bool
	// Number is the certification of the store that answered.
	Number uint64
}

// Claim is a request for due messages.
type Claim struct {
	// Term is the leader's. Until a claim is swept, only the leader of its term decides how the message ends.
	Term uint64
	// Number distinguishes the claims of one term and bucket. The leader increments it, and continues the count from
	// one Run under a term to the next.
	Number uint64
	// Now is the time by which claimed messages must be due.
	Now message.Milli
	// Limit and Bytes limit the batch.
	Limit, Bytes int
	// Lane claims from a lane instead of the bucket. Empty means the bucket.
	Lane message.Lane
}

// Claimed is a batch of messages in flight, in order.
type Claimed struct {
	Messages []*message.Message
	// Head is the earliest due time left in the bucket or lane, or 0 if it is empty.
	Head message.Milli
	// Missing lists uids that were in the order without a message, or whose record cannot be read: the store is
	// damaged. They are no longer in the order, nor in flight.
	Missing []message.UID
}

// End says how a claimed message ended.
type End struct {
	Message *message.Message
	State   message.State // delivered, expired or dead
	Reason  string
	// Kind and Other belong to a record that is restored. A leader leaves them empty.
	Kind  message.Kind
	Other message.UID
	// Uncertain is kept in the memory of the end.
	Uncertain bool
	// Stream and Sequence are where NATS stored the message.
	Stream   string
	Sequence uint64
}

// Known reports whether the table of transitions has this end for a claimed message.
func (e *End) Known() bool { return e.State.Ended() && message.StateInFlight.Allows(e.State, e.Kind) }

// Back describes how a claimed message returns to waiting.
type Back struct {
	UID message.UID
	// Claim is the number of the claim that is returned.
	Claim uint64
	// Score is the message's place in the order: its own, or a later one after a refusal.
	Score int64
	Mark  message.Mark
	// Keep restores the message's own score and mark and ignores Score and Mark. It is for a claim whose reply was
	// lost.
	Keep bool
	// Message is set if an attempt changed the message. The return is then a change, counted in Mark, and Reason says
	// why. Message is nil if the message never left.
	Message *message.Message
	Kind    message.Kind
	Reason  string
}

// Held is a claim recorded in the store.
type Held struct {
	UID   message.UID
	Claim uint64 // its number
}

// Head summarizes a bucket.
type Head struct {
	// Due is the earliest due time, or 0 if nothing waits.
	Due message.Milli
	// Waiting and Claimed are how many messages wait in the bucket (lanes aside) and are in flight.
	Waiting, Claimed int
	// Over is when the first lease, or time to live of a message for pull, may be over: not later than that, but perhaps
	// earlier, if that lease was settled or extended. It is 0 if there is none.
	Over message.Milli
	// Term is the stored term.
	Term uint64
	// Err is set if the bucket did not answer.
	Err error
}

// Journal is what an answered change waits for. In the modes off and async it waits for nothing.
type Journal interface {
	// Ready returns nil while changes can be recorded as promised. Otherwise it returns the reason, which Is
	// ErrUnavailable. It is called before a change is made.
	Ready() error
	// Await calls held with the index of each change as soon as the journal holds it. bare means that the database
	// refused the message's content for good, so the journal holds its states alone. Await returns once all are held, or
	// an error that leaves the outcome of the others unknown.
	Await(ctx context.Context, changes []Recorded, held func(i int, bare bool)) error
	// Find looks up messages that the timeline no longer knows, the latest first. It finds none if no journal is kept.
	Find(ctx context.Context, ref Ref) ([]message.Info, error)
	// Remembered returns for each push the messages that have its uid or its name, without headers and body: the latest
	// accepted first, and at most MaxRemembered per name.
	Remembered(ctx context.Context, pushes []*message.Message) ([][]message.Info, error)
	// Rejects returns up to limit pushes that ref names and its viewer may see, and that were rejected after NATS had
	// acknowledged them: the latest first, without digest and body.
	Rejects(ctx context.Context, ref Ref, limit int) ([]Rejected, error)
	// Restore brings a living message that the timeline lacks back from the journal, while its bucket is filled.
	Restore(ctx context.Context, uid message.UID) error
	// WritePause records, in every mode, a change of pauses that the timeline has made, unless the journal has a later
	// change of that pattern. It returns ErrFenced for a change under a superseded certification. Any other error
	// leaves the outcome open.
	WritePause(ctx context.Context, c PauseChange) error
}

// Rejected is a push of the intake that was acknowledged to its producer and then not accepted, as the journal has it.
// Texts have at most 255 bytes.
type Rejected struct {
	UID message.UID `json:"uid"`
	// ID is the client id, or empty.
	ID    string        `json:"-"`
	Topic string        `json:"topic"`
	At    message.Milli `json:"at"`
	// Reason is the word of the refusal and its text.
	Reason string `json:"reason"`
	// Size and Digest, SHA-256, are of the whole body. Body has at most MaxRejectBody bytes of it.
	Size   int      `json:"size"`
	Digest [32]byte `json:"-"`
	Body   []byte   `json:"-"`
}

// MaxRejectBody bounds what the journal keeps of the body of a rejected push: the stream of rejects has the whole.
const MaxRejectBody = 64 << 10

// RejectedError is ErrRejected with the push.
type RejectedError struct{ Rejected }

func (e *RejectedError) Error() string {
	return fmt.Sprintf("no message has this id: a push of it on %s was rejected at %s: %s", e.Topic,
		e.At.Time().Format(time.RFC3339), e.Reason)
}

// Unwrap makes it ErrRejected.
func (e *RejectedError) Unwrap() error { return ErrRejected }

// Recorded names a change by the version it made and by the certification under which its store reported it. Under a
// higher certification the same version may be another change.
type Recorded struct {
	UID     message.UID
	Version uint64
	Bucket  message.Bucket
	Number  uint64
}

type noJournal struct{}

func (noJournal) Ready() error { return nil }
func (noJournal) Await(_ context.Context, changes []Recorded, held func(int, bool)) error {
	for i := range changes {
		held(i, false)
	}
	return nil
}
func (noJournal) Find(context.Context, Ref) ([]message.Info, error)     { return nil, nil }
func (noJournal) Rejects(context.Context, Ref, int) ([]Rejected, error) { return nil, nil }
func (noJournal) Restore(context.Context, message.UID) error            { return ErrUnavailable }
func (noJournal) WritePause(context.Context, PauseChange) error         { return nil }
func (noJournal) Remembered(_ context.Context, pushes []*message.Message) ([][]message.Info, error) {
	return make([][]message.Info, len(pushes)), nil
}

// Publisher publishes a due message on its topic.
type Publisher interface {
	// Ready reports whether messages can be handed over now. While it returns false nothing is claimed.
	Ready() bool
	// Lane returns the lane in which a message is parked with all others of its destination: the stream that holds the
	// subject it is published on or, for core NATS, that subject. Lane must be cheap: while any lane is parked it is
	// called for every message.
	Lane(m *message.Message) message.Lane
	// Send hands over a batch and returns when the client library has all of it. It calls done once for each message,
	// from any goroutine, within the publish time-out, even after an error or after ctx ends.
	Send(ctx context.Context, batch []*message.Message, done func(*message.Message, Outcome))
}

// OutcomeKind classifies the outcome of a publish.
type OutcomeKind uint8

// The kinds of outcome.
const (
	// Delivered: the stream stored the message, or core NATS had a listener.
	Delivered OutcomeKind = iota
	// NotSent: the message never reached the client library, so nothing can have arrived.
	NotSent
	// Unanswered: NATS definitely refused the message for now. Nothing arrived; try again.
	Unanswered
	// NoListener: core NATS had no listener for the message.
	NoListener
	// Refused: NATS will never accept the message in this form (size, permission, subject).
	Refused
	// Unknown: the message may have arrived.
	Unknown
)

// Outcome is the result of one publish.
type Outcome struct {
	Kind OutcomeKind
	Err  error
	// Stream and Sequence locate a stored message. Duplicate reports that the stream already had it.
	Stream    string
	Sequence  uint64
	Duplicate bool
	// Unvouched: NATS did not take the message, but the answer that says so could be a subscriber's who answered before
	// the stream. The message may have been stored.
	Unvouched bool
}

// Refusal is a transition that a store was asked for and did not make.
type Refusal struct {
	UID    message.UID    `json:"uid"`
	Bucket message.Bucket `json:"bucket"`
	message.Transition
	At message.Milli `json:"at"`
	// Unreadable: the record of the message is damaged, so that nobody knows its state. From is then StateNone, and To
	// is the state that the refused call would have given it.
	Unreadable bool `json:"unreadable,omitempty"`
}

// MaxRefusals bounds how many refusals a bucket keeps.
const MaxRefusals = 1000

var outcomeWords = []string{"delivered", "not_sent", "unanswered", "no_listener", "refused", "unknown"}

// String returns the kind's word in metrics.
func (k OutcomeKind) String() string { return word(outcomeWords, k) }

var cancelWords = []string{"unknown_id", "canceled", "in_flight", "maybe_delivered", "already_ended"}

// String returns the code's word in metrics and logs.
func (c CancelCode) String() string { return word(cancelWords, c) }

// word returns the word of a code or a kind.
func word[C ~uint8](words []string, c C) string {
	if int(c) < len(words) {
		return words[c]
	}
	return "invalid"
}

// MaxRemembered is the maximum number of messages of one name that the journal returns.
const MaxRemembered = 32
