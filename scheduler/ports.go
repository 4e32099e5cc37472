package scheduler

import (
	"context"
	"slices"
)

// Timeline is where messages wait: store/timeline (Redis) or store/memory.
// One suite, schedulertest, holds every implementation to the same behaviour.
//
// Every call but Claim may be sent twice with the effect of once. An error
// that Is ErrUnavailable or ErrFull wrote nothing; ErrStaleTerm wrote nothing;
// any other error leaves the outcome unknown.
type Timeline interface {
	Acceptor
	Steering
	Leading
}

// Acceptor is the part of the timeline that every instance uses.
type Acceptor interface {
	// Buckets is the number of buckets, fixed for the life of a namespace.
	Buckets() int
	// Add stores a batch of messages of one bucket, all or none. results[i] is what
	// became of batch[i]. head is the bucket's earliest due time after the add when
	// the add made it earlier, else 0.
	Add(ctx context.Context, bucket int, batch []*Message, now Milli) (results []AddResult, head Milli, err error)
	// Find returns every message, live or remembered, that ref names and its viewer
	// may see. Where more than MaxNamesOfID names of a bucket fit, it is ErrAmbiguousID
	// with what was found until then: no look-up grows with the number of names. Where
	// a record cannot be read it is ErrUnreadable with all others.
	Find(ctx context.Context, ref Ref) ([]Info, error)
	// Cancel ends the waiting message with this uid, or says why not.
	Cancel(ctx context.Context, uid UID, now Milli) (CancelResult, error)
	// Bury leaves a tombstone for ref's id on ref's topic, which must be given: in the
	// bucket of its key, else in every bucket. A push of it that was stored in the
	// intake stream at or before sequence is accepted as canceled. When a message
	// under that name turns up meanwhile it is left alone and its uid returned;
	// ErrAmbiguousID where more than MaxNamesOfID keys have the id.
	Bury(ctx context.Context, ref Ref, sequence uint64, now Milli) (found []UID, err error)
}

// Leading is the part of the timeline that only the leader of a term uses.
type Leading interface {
	// Begin raises the bucket's term. It is the first call of a leadership.
	Begin(ctx context.Context, bucket int, term uint64) error
	// Sweep moves up to limit messages back to waiting, marked uncertain: those that
	// leaders of lower terms had claimed, and this term's own claims up to the
	// number last. It returns how many it moved; fewer than limit means that none
	// is left.
	Sweep(ctx context.Context, bucket int, term, last uint64, limit int, now Milli) (int, error)
	// Claim moves due messages to in_flight, bounded by count and bytes (one
	// message is always taken). It alone must not be repeated: what a lost reply
	// claimed is found by Held.
	Claim(ctx context.Context, bucket int, req Claim) (Claimed, error)
	// Finish ends claimed messages. One for which the table of transitions knows no such
	// end stays claimed, and Refused lists it; the others end.
	Finish(ctx context.Context, bucket int, term uint64, ends []End, now Milli) error
	// Return gives claimed messages back to waiting, in their bucket or in a lane.
	// It acts only on the very claim that Back names, so that a return which the
	// store executes late undoes no later claim.
	Return(ctx context.Context, bucket int, term uint64, back []Back, now Milli) error
	// Held lists up to limit claims of this term by uid, after the given one.
	Held(ctx context.Context, bucket int, term uint64, after UID, limit int) ([]Held, error)
	// Heads looks at every bucket at once, cheaply: the safety poll. A bucket that
	// does not answer says so in its Head; it is an error where none does.
	Heads(ctx context.Context) ([]Head, error)
	// Refused lists the transitions that the bucket was asked for and did not make,
	// the first MaxRefusals messages. It forgets those whose message is gone, has
	// another state since, or can be read again.
	Refused(ctx context.Context, bucket int) ([]Refusal, error)
	// Lanes lists the lanes of a bucket that hold parked messages.
	Lanes(ctx context.Context, bucket int) ([]string, error)
	// Trim forgets up to limit ends that are older than the memory of ends, and
	// tombstones likewise. It returns how many ends it forgot.
	Trim(ctx context.Context, bucket int, term uint64, now Milli, limit int) (int, error)
}

// MaxNamesOfID is how many names, of several topics or keys, may share an id in one
// bucket for the id to be looked up without topic or key.
const MaxNamesOfID = 32

// Ref names a message: by uid, or by client id, which belongs to a topic and a key.
type Ref struct {
	UID UID
	ID  string
	// Topic is exact; empty stands for any.
	Topic string
	Key   string
	// Keyed: Key is given (it may be given as empty).
	Keyed bool
	// Viewer is who asks, nil where every message is his to see.
	Viewer *Viewer
}

// Exact reports whether a reference by id leaves neither topic nor key open.
func (r *Ref) Exact() bool { return r.Topic != "" && r.Keyed }

// Viewer may see the messages of some topics alone. To him all others do not exist.
type Viewer struct {
	Topics []string // patterns
}

// Sees reports whether a topic is among the viewer's.
func (v *Viewer) Sees(topic string) bool {
	return v == nil || slices.ContainsFunc(v.Topics, func(pattern string) bool { return Matches(pattern, topic) })
}

// AddCode says what became of a push.
type AddCode uint8

// The outcomes of an add.
const (
	// Added: a new message is waiting.
	Added AddCode = iota
	// AddedCanceled: a younger cancel was waiting for it; it is canceled.
	AddedCanceled
	// AddDuplicate: the same push was accepted before.
	AddDuplicate
	// AddConflict: the id belongs to a message with other content, or to one that
	// ended otherwise and is not the same retry.
	AddConflict
	// AddMerged: it went into a waiting message: First, as that stands now.
	AddMerged
	// AddUncertain: it would replace a message that may have been delivered; nothing
	// was changed.
	AddUncertain
	// AddUnreadable: its uid or name leads to a damaged record, that of First, which has a
	// uid alone; nothing was changed, and Refused lists it.
	AddUnreadable
)

// AddResult is one push's outcome. For all but Added First is the
// message that was there: its uid, due, state and end.
type AddResult struct {
	Code  AddCode
	First Info
	// Number is the certification of the store that answered.
	Number uint64
}

// CancelCode says what a cancel did.
type CancelCode uint8

// The answers of a cancel (P4).
const (
	// CancelUnknown: no such message, live or remembered.
	CancelUnknown CancelCode = iota
	// CancelDone: this delivery never comes.
	CancelDone
	// CancelInFlight: it is claimed; nothing was changed.
	CancelInFlight
	// CancelMaybe: it will not be tried again, but an earlier attempt may have arrived.
	CancelMaybe
	// CancelEnded: it had ended before; Info says how and when.
	CancelEnded
)

// CancelResult is a cancel's honest answer.
type CancelResult struct {
	Code CancelCode
	Info Info
	// Buried: nothing has the name, and a tombstone waits for a push that is on its way.
	Buried bool
	// Number is the certification of the store that answered.
	Number uint64
}

// Claim asks for due messages.
type Claim struct {
	Term uint64
	// Number distinguishes the claims of one term and bucket. The leader counts it up,
	// also from one Run under a term to the next.
	Number uint64
	// Now bounds what is due.
	Now Milli
	// Limit and Bytes bound the batch.
	Limit, Bytes int
	// Lane claims from a parked lane instead of the bucket; empty is the bucket.
	Lane string
}

// Claimed is a batch of messages in flight, in order.
type Claimed struct {
	Messages []*Message
	// Head is the bucket's (or lane's) earliest due time now, 0 when it is empty.
	Head Milli
	// Missing are uids that stood in the order without a message, or whose record cannot
	// be read: a damaged store. They are neither in the order nor in flight any more.
	Missing []UID
}

// End says how a claimed message ended.
type End struct {
	Message *Message
	State   State // delivered, expired or dead
	Reason  string
	// Kind and Other are those of a record that is restored; a leader gives none.
	Kind  Kind
	Other UID
	// Uncertain is kept in the memory of the end.
	Uncertain bool
	// Stream and Sequence are where NATS stored it.
	Stream   string
	Sequence uint64
}

// Back says how a claimed message waits again.
type Back struct {
	UID UID
	// Claim is the number of the claim that it gives back.
	Claim uint64
	// Score is its place: the message's own, or a later one after a refusal.
	Score int64
	Mark  Mark
	// Keep gives the message its own score and leaves its mark as it stands,
	// whatever Score and Mark say: for a claim whose reply was lost.
	Keep bool
	// Message is set where an attempt changed the message: the return is a change
	// then, counted in Mark, and Reason says why. Nil where it never left.
	Message *Message
	Kind    Kind
	Reason  string
}

// Held is a claim that stands in the store.
type Held struct {
	UID   UID
	Claim uint64 // its number
}

// Head is a bucket at a glance.
type Head struct {
	// Due is the earliest due time, 0 when nothing waits.
	Due Milli
	// Waiting and Claimed are how many messages wait in the bucket (lanes aside) and are in flight.
	Waiting, Claimed int
	// Term is the stored term.
	Term uint64
	// Err is why nothing is known of the bucket.
	Err error
}

// Journal is what an answered change waits for. In the modes off and async it
// waits for nothing.
type Journal interface {
	// Ready is nil while changes can be recorded as promised; else it says why not,
	// and is ErrUnavailable. It is asked before a change is made.
	Ready() error
	// Await returns once the journal holds every change that is named. Its error
	// leaves the outcome unknown.
	Await(ctx context.Context, changes []Recorded) error
	// Find looks up messages that the timeline does not know any more, the latest
	// first; none where no journal is kept.
	Find(ctx context.Context, ref Ref) ([]Info, error)
	// Remembered returns for each push the messages that have its uid or its name: the
	// latest accepted first, at most MaxRemembered of the name, without headers and
	// body.
	Remembered(ctx context.Context, pushes []*Message) ([][]Info, error)
	// WritePause keeps a change of pauses that the timeline has made, in every mode,
	// unless it knows a later one of that pattern; a change under a certification that
	// is over is ErrFenced. Another error leaves open whether it did.
	WritePause(ctx context.Context, c PauseChange) error
}

// Recorded names a change by the version it made and by the certification under
// which its store reported it: under a higher certification the same version may be
// another change.
type Recorded struct {
	UID     UID
	Version uint64
	Bucket  int
	Number  uint64
}

type noJournal struct{}

func (noJournal) Ready() error                                  { return nil }
func (noJournal) Await(context.Context, []Recorded) error       { return nil }
func (noJournal) Find(context.Context, Ref) ([]Info, error)     { return nil, nil }
func (noJournal) WritePause(context.Context, PauseChange) error { return nil }
func (noJournal) Remembered(_ context.Context, pushes []*Message) ([][]Info, error) {
	return make([][]Info, len(pushes)), nil
}

// Publisher puts a due message on its topic.
type Publisher interface {
	// Ready reports whether messages can be handed over now; nothing is claimed while not.
	Ready() bool
	// Lane is where a message is parked, together with all others of its
	// destination: the stream that holds the subject it leaves on, or for core NATS
	// that subject. It must be cheap: while any lane is parked it is asked for every
	// message.
	Lane(m *Message) string
	// Send hands over a batch and returns when all of it was handed to the client.
	// done is called once for each message, from any goroutine, within the
	// publish time-out, also after an error and after ctx ends.
	Send(ctx context.Context, batch []*Message, done func(*Message, Outcome))
}

// OutcomeKind is how a publish went.
type OutcomeKind uint8

// The kinds of outcome.
const (
	// Delivered: the stream stored it, or core NATS had someone listening.
	Delivered OutcomeKind = iota
	// NotSent: it never reached the client library; nothing can have arrived.
	NotSent
	// Unanswered: NATS refused it for now, definitely: nothing arrived. Try again.
	Unanswered
	// NoListener: core NATS had nobody to give it to.
	NoListener
	// Refused: NATS will never take it as it is (size, permission, subject).
	Refused
	// Unknown: it may have arrived.
	Unknown
)

// Outcome is how one publish went.
type Outcome struct {
	Kind OutcomeKind
	Err  error
	// Stream and Sequence of a stored message; Duplicate when the stream had it already.
	Stream    string
	Sequence  uint64
	Duplicate bool
}
