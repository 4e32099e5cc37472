package scheduler

import "slices"

// State says where a message is on its way. The words are the ones users see
// in answers, logs, metrics and the journal.
type State uint8

// The states. StateNone is the absence of a message.
const (
	StateNone State = iota
	StateWaiting
	StateInFlight
	StateDelivered
	StateCanceled
	StateExpired
	StateDead
)

var stateWords = [...]string{"none", "waiting", "in_flight", "delivered", "canceled", "expired", "dead"}

// String is the state's word.
func (s State) String() string {
	if int(s) < len(stateWords) {
		return stateWords[s]
	}
	return "invalid"
}

// Ended reports whether nothing more happens to a message in this state.
func (s State) Ended() bool { return s >= StateDelivered && s <= StateDead }

// Transition is a step that a message may take, and what makes it.
type Transition struct {
	From, To State
	Kind     Kind
}

// Transitions are all that there are; doc.go draws them. The scripts' table is made
// from this one. What is not in it is refused for that message alone: it stays as it
// was, and Refused lists it.
func Transitions() []Transition { return slices.Clone(transitions[:]) }

var transitions = [...]Transition{
	{StateNone, StateWaiting, KindPlain},        // accept
	{StateNone, StateCanceled, KindWithdrawn},   // accept of a push stored before the cancel of its id
	{StateNone, StateCanceled, KindMerged},      // a push that went into another message
	{StateNone, StateWaiting, KindRequeue},      // the other life of a dead message
	{StateWaiting, StateInFlight, KindPlain},    // claim
	{StateWaiting, StateCanceled, KindPlain},    // cancel
	{StateWaiting, StateWaiting, KindPlain},     // reschedule, edit, run
	{StateWaiting, StateWaiting, KindAbsorbed},  // merge
	{StateWaiting, StateWaiting, KindReplaced},  // merge
	{StateWaiting, StateCanceled, KindYielded},  // the earlier message of its name came back
	{StateInFlight, StateWaiting, KindPlain},    // return
	{StateInFlight, StateWaiting, KindParked},   // return to a lane
	{StateInFlight, StateWaiting, KindSwept},    // sweep
	{StateInFlight, StateDelivered, KindPlain},  // finish
	{StateInFlight, StateExpired, KindPlain},    // finish
	{StateInFlight, StateDead, KindPlain},       // finish
	{StateInFlight, StateCanceled, KindGaveWay}, // return of one that a later push of its name has replaced
	{StateDead, StateCanceled, KindRequeued},    // requeue as another message
	{StateDead, StateCanceled, KindPurged},      // purge

	// What recovery does: the journal knows the message, the store an older one or none.
	// An end stands for good, but for what was dead and has been requeued or purged.
	{StateNone, StateWaiting, KindRestored},
	{StateNone, StateDelivered, KindRestored},
	{StateNone, StateCanceled, KindRestored},
	{StateNone, StateExpired, KindRestored},
	{StateNone, StateDead, KindRestored},
	{StateWaiting, StateWaiting, KindRestored},
	{StateWaiting, StateDelivered, KindRestored},
	{StateWaiting, StateCanceled, KindRestored},
	{StateWaiting, StateExpired, KindRestored},
	{StateWaiting, StateDead, KindRestored},
	{StateInFlight, StateWaiting, KindRestored}, // under the leader that recovers alone
	{StateInFlight, StateDelivered, KindRestored},
	{StateInFlight, StateCanceled, KindRestored},
	{StateInFlight, StateExpired, KindRestored},
	{StateInFlight, StateDead, KindRestored},
	{StateDead, StateCanceled, KindRestored},
}

// Can reports whether a message may go from s to next, whatever makes it.
func (s State) Can(next State) bool {
	return slices.ContainsFunc(transitions[:], func(t Transition) bool { return t.From == s && t.To == next })
}

// Allows reports whether a change of the kind takes a message from s to next.
func (s State) Allows(next State, kind Kind) bool {
	return slices.Contains(transitions[:], Transition{s, next, kind})
}

// Known reports whether the table knows the end, of a claimed message.
func (e *End) Known() bool { return e.State.Ended() && StateInFlight.Allows(e.State, e.Kind) }

// Refusal is a transition that a store was asked for and did not make.
type Refusal struct {
	UID    UID
	Bucket int
	Transition
	At Milli
	// Unreadable: the record of the message is damaged, so that nobody knows its state:
	// From is StateNone. What it was to become is a push's, where one met it.
	Unreadable bool
}

// MaxRefusals bounds how many refusals a bucket keeps.
const MaxRefusals = 1000
