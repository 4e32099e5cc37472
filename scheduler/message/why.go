package message

// Why says why a message is where it is, and what happens next.
type Why struct {
	Word WhyWord `json:"word"`
	// Detail says the same in words for people.
	Detail string `json:"detail,omitempty"`
	// Since is when that began, and Next when it ends or is tried again; 0 if that is not known.
	Since Milli `json:"since,omitempty"`
	Next  Milli `json:"next,omitempty"`
	// By is who or what holds the message: a consumer, an operator, another message.
	By string `json:"by,omitempty"`
}

// WhyWord is the reason in one word, for programs. The list is closed.
type WhyWord string

// The words. Those of ends that have no kind of their own are the states'.
const (
	// A message that waits.
	WhyNotDue     WhyWord = "not_due"
	WhyRetry      WhyWord = "retry"       // it was tried, and waits for the next try
	WhyPaused     WhyWord = "paused"      // an operator, or a webhook that gave up, holds its topic back
	WhyRate       WhyWord = "rate"        // the topic's rate
	WhyCatchUp    WhyWord = "catch_up"    // the topic's rate for what is overdue
	WhyNoListener WhyWord = "no_listener" // nobody listens on the core subject
	WhyStream     WhyWord = "stream"      // the stream takes nothing
	WhyClocks     WhyWord = "clocks"      // the clocks disagree whether it is due
	WhyNoLeader   WhyWord = "no_leader"   // it is due, and nobody leads
	WhyTurn       WhyWord = "turn"        // it is due, and the leader takes it next
	WhyExpiring   WhyWord = "expiring"    // its time to live is over, and the leader ends it next
	// A message for pull that is due.
	WhyUnpulled  WhyWord = "unpulled"   // no consumer has asked for it
	WhyWebhook   WhyWord = "webhook"    // an instance posts it next
	WhyBehindKey WhyWord = "behind_key" // another message of its key comes first
	// A message in flight.
	WhyLeased     WhyWord = "leased"     // a consumer has it
	WhyPublishing WhyWord = "publishing" // NATS has not acknowledged it
	// WhyMissing: the journal has the message, and the store has not.
	WhyMissing WhyWord = "missing"
	// WhyStoreAway: the journal has the message, and the store does not answer.
	WhyStoreAway WhyWord = "store_away"
	// A push that is no message.
	WhyInIntake WhyWord = "in_intake" // no instance has read it
	WhySetAside WhyWord = "set_aside" // its part of the store does not answer
	WhyRejected WhyWord = "rejected"  // it was refused
)

// endKinds are the kinds of ends that say more than the state.
func endKinds() []Kind {
	return []Kind{KindMerged, KindGaveWay, KindYielded, KindRequeued, KindPurged, KindWithdrawn, KindEndLost}
}

// Tries returns how often consumers have had a message, the try under way included. What NATS refused, none had.
func (i *Info) Tries() uint32 { return i.Message.Tries(i.State) }

// Tries is [Info.Tries] of a message in a state.
func (m *Message) Tries(s State) uint32 {
	n := max(m.Attempt, 1) - 1
	if m.Pull {
		n += m.Mark.Refusals
	}
	if s == StateInFlight || s == StateDelivered {
		n++
	}
	return n
}

// WhyEnded says why a message ended.
func (i *Info) WhyEnded() Why {
	w := Why{Word: WhyWord(i.State.String()), Detail: i.Reason, Since: i.EndedAt, By: string(i.Other)}
	for _, k := range endKinds() {
		if i.Kind == k {
			w.Word = WhyWord(k.String())
		}
	}
	return w
}
