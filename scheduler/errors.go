package scheduler

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// The errors of the scheduler and its stores. Adapters translate driver errors into these; the HTTP words are in
// bridge/wire.
var (
	// ErrStaleTerm: a store knows a higher term; another instance leads now.
	ErrStaleTerm = errors.New("stale term: another instance leads")
	// ErrUnavailable: the store could not be reached and nothing was written.
	ErrUnavailable = errors.New("store unavailable")
	// ErrDiskFull: the disk of the journal or of Redis has no room for a change; nothing was written. It is ErrUnavailable
	// too.
	ErrDiskFull = fmt.Errorf("%w: the disk is full", ErrUnavailable)
	// ErrFull: the store has no memory left for new messages; nothing was written.
	ErrFull = errors.New("store full")
	// ErrBehind: the journal is so far behind that the outbox is full, and takes no push, edit or requeue; nothing was
	// written.
	ErrBehind = errors.New("journal too far behind")
	// ErrUncertified: the store's server is not the certified one. Nothing was written, and only the leader can certify
	// it. It is ErrUnavailable too.
	ErrUncertified = fmt.Errorf("%w: what the store holds is being compared with the journal; try again in a moment",
		ErrUnavailable)
	// ErrOutdated: the journal was read too long ago to restore from: later ends may have been forgotten. Nothing was
	// written. It is ErrUnavailable too.
	ErrOutdated = fmt.Errorf("%w: the journal was read too long ago; begin the restore again", ErrUnavailable)
	// ErrBusy: more pushes are waiting for the store than the limit; nothing was written.
	ErrBusy = errors.New("too many pushes in flight")
	// ErrNoRoom: what polls get already takes all memory that it may; nothing was leased.
	ErrNoRoom = errors.New("the answers to other polls take all memory that they may")
	// ErrOutcomeUnknown: the store did not answer; the change may or may not have happened. A push can be repeated
	// safely with the uid as its id.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrFenced: the change was made on a Redis that has since been replaced. The change is not in the journal and has
	// no effect.
	ErrFenced = errors.New("the store was replaced: a later certification stands")
	// ErrDuplicateID: another message already has this id.
	ErrDuplicateID = errors.New("duplicate id")
	// ErrUnknownID: no message, live or remembered, has this id.
	ErrUnknownID = errors.New("unknown id")
	// ErrInIntake is ErrUnknownID while the intake may hold a push with the id.
	ErrInIntake = fmt.Errorf("%w by now", ErrUnknownID)
	// ErrRejected: the last push of this id was acknowledged by the intake and then not accepted.
	ErrRejected = errors.New("rejected")
	// ErrAmbiguousID: messages of several topics or keys have this id.
	ErrAmbiguousID = errors.New("ambiguous id")
	// ErrClockBack: the machine's clock went back; ids cannot be given out.
	ErrClockBack = errors.New("the clock went back")
	// ErrNoMachineID: this instance holds no machine id at the moment.
	ErrNoMachineID = errors.New("this instance holds no machine id and cannot assign uids; its log says why, for " +
		"example a full disk")
	// ErrTooFar: the due time lies beyond the limit.
	ErrTooFar = errors.New("due time too far ahead")
	// ErrStaleUID: a push named a uid that is older than the memory of ends, so it is unknown whether it was
	// delivered.
	ErrStaleUID = errors.New("uid too old to repeat")
	// ErrForeignUID: a push named a uid that cannot have been the answer to an earlier try of the same push.
	ErrForeignUID = errors.New("no uid of an earlier push")
	// ErrUnjudged: it is unknown whether a broker lost a message or removed it as configured: core NATS keeps nothing,
	// and streams remove what was consumed, exceeds their limits or was purged.
	ErrUnjudged = errors.New("cannot be judged")
	// ErrUnreadable: the store holds a damaged record under this uid or name.
	ErrUnreadable = errors.New("damaged record")
	// ErrNewer: a newer tarry wrote the record or the entry, in a form that this version does not know. It is
	// ErrUnreadable too, but nothing may replace it.
	ErrNewer error = newer{}
	// ErrManyTombstones: a cancel of an unknown message cannot be remembered because a bucket has reached its limit of
	// tombstones.
	ErrManyTombstones = errors.New("no message has this id, and the cancel cannot be remembered: the limit of " +
		"remembered cancels is reached; repeat it in a while")
	// ErrMaybeDelivered: the message may have been delivered, so nothing was changed.
	ErrMaybeDelivered = errors.New("maybe delivered")
	// ErrTooManyPauses: no more patterns can be paused.
	ErrTooManyPauses = fmt.Errorf("too many pauses: the limit is %d", MaxPauses)
	// ErrNotDead: only dead messages can be requeued or purged, and this one is not dead.
	ErrNotDead = errors.New("not dead")
	// ErrNotLeased: no consumer holds the message.
	ErrNotLeased = errors.New("no consumer holds the message")
	// ErrDeliver: the settings of the topic do not go with how the push wants to be delivered.
	ErrDeliver = errors.New("deliver")
	// ErrWebhook: a webhook takes what is ready on this topic, so nobody may pull from it.
	ErrWebhook = errors.New("the settings give this topic to a webhook, so nobody else may pull from it")
	// ErrBadCursor: the cursor does not come from any page.
	ErrBadCursor = errors.New("bad cursor")
	// ErrStopping: the instance is stopping.
	ErrStopping = errors.New("stopping")
)

type newer struct{}

func (newer) Error() string        { return "written by a newer version of tarry" }
func (newer) Is(target error) bool { return target == ErrUnreadable }

// Unsure returns the error of a change in several steps of which an earlier one was made, or may have been: no caller
// may read in it that nothing was changed. An ErrAmbiguousID keeps its candidates.
func Unsure(made string, err error) error {
	switch {
	case err == nil || errors.Is(err, ErrOutcomeUnknown):
		return err
	case errors.Is(err, ErrAmbiguousID):
		return fmt.Errorf("%w: %s: %w", ErrOutcomeUnknown, made, err)
	}
	return fmt.Errorf("%w: %s: %v", ErrOutcomeUnknown, made, err)
}

// ManyTombstones is ErrManyTombstones. It is ErrUnavailable too, or ErrOutcomeUnknown if some buckets have stored a
// tombstone.
func ManyTombstones(laid bool) error {
	if laid {
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, ErrManyTombstones)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, ErrManyTombstones)
}

// AmbiguousError is ErrAmbiguousID with the messages that the id may refer to.
type AmbiguousError struct {
	// Candidates holds the message under each topic and key, for at most MaxNamesOfID of those that the caller may see.
	Candidates []message.Info
	// More reports whether there are further candidates.
	More bool
}

func (e *AmbiguousError) Error() string {
	if len(e.Candidates) == 1 && !e.More {
		return fmt.Sprintf("%v: its own message is forgotten, and one on %s has it as an id; name the topic",
			ErrAmbiguousID, e.Candidates[0].Topic)
	}
	number := strconv.Itoa(len(e.Candidates))
	if e.More {
		number = "more than " + number
	}
	return fmt.Sprintf(
		"%v: %s messages of different topics or keys have it; name the topic and the key, or use the uid",
		ErrAmbiguousID, number)
}

// Unwrap makes it ErrAmbiguousID.
func (e *AmbiguousError) Unwrap() error { return ErrAmbiguousID }

// Looked returns the error of a call that writes nothing, whose outcome is never unknown.
func Looked(step string, err error) error {
	switch {
	case errors.Is(err, ErrOutcomeUnknown):
		return fmt.Errorf("%s: %w: %v", step, ErrUnavailable, err)
	case err != nil:
		return fmt.Errorf("%s: %w", step, err)
	}
	return nil
}
