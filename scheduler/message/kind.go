package message

// Kind says what made a change, if the states before and after do not. Programs use the kind and the other message that
// it names; Reason is for people. Stores and journals hold the numbers, so a number never changes its meaning.
type Kind uint8

// The kinds of changes.
const (
	// KindPlain: the states say what happened.
	KindPlain Kind = 0
	// KindMerged: a push was merged into the other message. It never was a message itself.
	KindMerged Kind = 1
	// KindAbsorbed: a push was merged into the message, which kept its content.
	KindAbsorbed Kind = 2
	// KindReplaced: the message took the content, due time and priority of another push.
	KindReplaced Kind = 3
	// KindGaveWay: consumers had the message, or the leader, when a later push of its name replaced it. It ended.
	KindGaveWay Kind = 4
	// KindYielded: the message waited as the next one under its name, and ended when the earlier one came back.
	KindYielded Kind = 5
	// KindRequeued: the message was dead, or consumers had tried it when it was edited. It continues as the other message.
	KindRequeued Kind = 6
	// KindRequeue: the message continues the other message.
	KindRequeue Kind = 7
	// KindPurged: the message was dead and was purged.
	KindPurged Kind = 8
	// KindWithdrawn: the message was canceled before it was accepted.
	KindWithdrawn Kind = 9
	// KindSwept: the leader that had claimed the message is gone.
	KindSwept Kind = 10
	// KindRestored: the journal had the message, and the store had an older version or none.
	KindRestored Kind = 11
	// KindParked: an attempt was not accepted, and the message waits aside until its topic accepts it.
	KindParked Kind = 12
	// KindLapsed: the consumer that had leased the message did not answer in time.
	KindLapsed Kind = 13
	// KindTried: consumers had leased the message before its time to live was over, and none acknowledged it.
	KindTried Kind = 14
	// KindReleased: an operator ended the lease of a consumer.
	KindReleased Kind = 15
	// KindEndLost: an audit found that the message had ended, and that the journal had lost how. It is uncertain, unless
	// it was dead and certain.
	KindEndLost Kind = 16
)

var kindWords = [...]string{"", "merged", "absorbed", "replaced", "gave_way", "yielded", "requeued", "requeue",
	"purged", "withdrawn", "swept",
	"restored", "parked", "lapsed", "tried", "released", "end_lost"}

// String returns the kind's word in answers, or the empty string for KindPlain.
func (k Kind) String() string {
	if int(k) < len(kindWords) {
		return kindWords[k]
	}
	return "invalid"
}

// Valid reports whether the kind is one of these.
func (k Kind) Valid() bool { return int(k) < len(kindWords) }

// Names reports whether changes of this kind name another message.
func (k Kind) Names() bool { return k == KindMerged || k == KindRequeued || k == KindRequeue }

// Words describes in a few words why a change of this kind was made. It returns the empty string if that takes more
// than the kind, the other message and whether the message is uncertain now.
func (k Kind) Words(other UID, uncertain bool) string {
	switch k {
	case KindMerged:
		return "merged into " + string(other)
	case KindAbsorbed:
		return "a push was merged into it"
	case KindReplaced:
		return "replaced by a push"
	case KindGaveWay:
		return "replaced"
	case KindYielded:
		return "merged"
	case KindRequeued:
		return "requeued as " + string(other)
	case KindRequeue:
		if uncertain {
			return "requeue of " + string(other) + ", which may have been delivered"
		}
		return "requeue of " + string(other)
	case KindPurged:
		return "purged"
	case KindWithdrawn:
		return "canceled before it was accepted"
	case KindSwept:
		return "the leader that had claimed it is gone; it may have been delivered"
	case KindRestored:
		return "restored; it may have been delivered"
	case KindLapsed:
		return "its lease was over"
	case KindTried:
		return "its time to live was over; consumers had tried"
	case KindReleased:
		return "an operator ended its lease"
	case KindEndLost:
		if uncertain {
			return "its end is lost; it may have been delivered"
		}
		return "its end is lost"
	}
	return ""
}
