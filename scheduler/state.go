package scheduler

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

// Ended tells whether nothing more happens to a message in this state.
func (s State) Ended() bool { return s >= StateDelivered && s <= StateDead }

// transitions is the whole table; doc.go draws it.
var transitions = map[[2]State]bool{
	{StateNone, StateWaiting}:       true, // accept
	{StateNone, StateCanceled}:      true, // accept of a push stored before the cancel of its id
	{StateWaiting, StateInFlight}:   true, // claim
	{StateWaiting, StateCanceled}:   true, // cancel
	{StateInFlight, StateWaiting}:   true, // return, park or sweep
	{StateInFlight, StateDelivered}: true, // finish
	{StateInFlight, StateExpired}:   true, // finish
	{StateInFlight, StateDead}:      true, // finish
	{StateInFlight, StateCanceled}:  true, // return of one that a later push of its name has replaced
	{StateDead, StateCanceled}:      true, // requeue as another message, purge
}

// Can tells whether a message may go from s to next.
func (s State) Can(next State) bool { return transitions[[2]State{s, next}] }
