package message

import "slices"

// State is a stage in a message's life. Users see the words of the states in answers, logs, metrics and the journal.
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
	// StateReady is how a waiting message is shown that consumers pull and that is due. No store knows it.
	StateReady
)

// states describes each state, indexed by its number. Stores and journals hold the numbers, so a number never changes
// its meaning. To add a state, add a line here and its steps to transitions; the scripts of store/timeline get their
// constants from this table.
var states = [...]struct {
	word  string
	ended bool
	kept  bool
	view  bool // how another state is shown
}{
	StateNone:      {word: "none"},
	StateWaiting:   {word: "waiting", kept: true},
	StateInFlight:  {word: "in_flight", kept: true},
	StateDelivered: {word: "delivered", ended: true},
	StateCanceled:  {word: "canceled", ended: true},
	StateExpired:   {word: "expired", ended: true},
	StateDead:      {word: "dead", ended: true, kept: true},
	StateReady:     {word: "ready", kept: true, view: true},
}

// States returns every state that a message can be in.
func States() []State {
	all := make([]State, 0, len(states)-1)
	for s := StateNone + 1; s.Valid(); s++ {
		if !states[s].view {
			all = append(all, s)
		}
	}
	return all
}

// Words returns the words of all states that a message can be shown in.
func Words() (words []string) {
	for _, s := range append(States(), StateReady) {
		words = append(words, s.String())
	}
	return words
}

// ParseState returns the state that a word names. ok is false if no message is ever shown in it.
func ParseState(word string) (s State, ok bool) {
	i := slices.Index(Words(), word)
	return StateNone + 1 + State(i), i >= 0
}

// String returns the state's word.
func (s State) String() string {
	if !s.Valid() {
		return "invalid"
	}
	return states[s].word
}

// Valid reports whether the state is in the table, StateNone included.
func (s State) Valid() bool { return int(s) < len(states) }

// Ended reports whether the state is an end, after which nothing more is attempted.
func (s State) Ended() bool { return s.Valid() && states[s].ended }

// Kept reports whether the timeline keeps a message in this state with its content: a live message until it ends, a
// dead message until somebody deals with it. In all other states the timeline keeps only a memory of the message, for a
// while.
func (s State) Kept() bool { return s.Valid() && states[s].kept }

// Transition is a step that a message may take, with the kind of change that makes it.
type Transition struct {
	From State `json:"from"`
	To   State `json:"to"`
	Kind Kind  `json:"kind,omitempty"`
}

// Transitions returns all allowed transitions; doc.go draws them. The scripts' table is made from this one. Any other
// transition is refused for that message alone: the message stays as it was, and Refused lists it.
func Transitions() []Transition { return slices.Clone(transitions) }

var transitions = append([]Transition{
	{StateNone, StateWaiting, KindPlain},        // accept
	{StateNone, StateCanceled, KindWithdrawn},   // accept of a push stored before the cancel of its id
	{StateNone, StateCanceled, KindMerged},      // a push that was merged into another message
	{StateNone, StateWaiting, KindRequeue},      // the new life of a dead message
	{StateWaiting, StateInFlight, KindPlain},    // claim
	{StateWaiting, StateCanceled, KindPlain},    // cancel
	{StateWaiting, StateWaiting, KindPlain},     // reschedule, edit, run
	{StateWaiting, StateWaiting, KindAbsorbed},  // merge
	{StateWaiting, StateWaiting, KindReplaced},  // merge
	{StateWaiting, StateCanceled, KindYielded},  // the earlier message of its name came back
	{StateInFlight, StateWaiting, KindPlain},    // return
	{StateInFlight, StateWaiting, KindParked},   // return to a lane
	{StateInFlight, StateWaiting, KindSwept},    // sweep
	{StateInFlight, StateWaiting, KindLapsed},   // its lease was over
	{StateInFlight, StateWaiting, KindReleased}, // an operator ended its lease
	{StateInFlight, StateDelivered, KindPlain},  // finish
	{StateWaiting, StateDelivered, KindPlain},   // an acknowledgement after the lease
	{StateInFlight, StateExpired, KindPlain},    // finish; return of a lease, past the time to live
	{StateInFlight, StateExpired, KindTried},    // likewise, after a try
	{StateWaiting, StateExpired, KindPlain},     // for pull, past its time to live
	{StateWaiting, StateExpired, KindTried},     // likewise, after a try
	{StateInFlight, StateDead, KindPlain},       // finish
	{StateInFlight, StateCanceled, KindGaveWay}, // return of a message that a later push of its name has replaced
	{StateWaiting, StateCanceled, KindGaveWay},  // a push replaced what consumers have tried
	{StateWaiting, StateCanceled, KindRequeued}, // an edit of what consumers have tried
	{StateDead, StateCanceled, KindRequeued},    // requeue as another message
	{StateDead, StateCanceled, KindPurged},      // purge

	// An end is final, except for a dead message that has been requeued or purged.
	{StateDead, StateCanceled, KindRestored},
}, restored()...)

// restored returns the steps of recovery: the journal knows the message, and the store has an older version or none.
// Only the leader that recovers takes back messages in flight.
func restored() (steps []Transition) {
	for _, to := range States() {
		if to == StateInFlight { // the journal has no claims
			continue
		}
		for _, from := range []State{StateNone, StateWaiting, StateInFlight} {
			steps = append(steps, Transition{from, to, KindRestored})
		}
	}
	return steps
}

// Allows reports whether a change of the given kind takes a message from s to next.
func (s State) Allows(next State, kind Kind) bool {
	return slices.Contains(transitions, Transition{s, next, kind})
}
