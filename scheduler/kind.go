package scheduler

// Kind says what made a change, where the state before and after does not say it.
// Programs go by it, and by the other message that it names; Reason is for people.
// The numbers stand in stores and journals: they are never given another meaning.
type Kind uint8

// The kinds of changes.
const (
	// KindPlain: the states say it.
	KindPlain Kind = 0
	// KindMerged: a push that went into the other message; it never was one itself.
	KindMerged Kind = 1
	// KindAbsorbed: a push was merged into it, and its content stayed.
	KindAbsorbed Kind = 2
	// KindReplaced: its content, due and priority are another push's.
	KindReplaced Kind = 3
	// KindGaveWay: it came back while a later push of its name waited, and ended.
	KindGaveWay Kind = 4
	// KindYielded: it waited as the next under its name, and ended when the earlier
	// came back.
	KindYielded Kind = 5
	// KindRequeued: it was dead, and goes on as the other message.
	KindRequeued Kind = 6
	// KindRequeue: it goes on for the other message, which was dead.
	KindRequeue Kind = 7
	// KindPurged: it was dead, and nobody wants it any more.
	KindPurged Kind = 8
	// KindWithdrawn: its cancel came before it was accepted.
	KindWithdrawn Kind = 9
	// KindSwept: the leader that had claimed it is gone.
	KindSwept Kind = 10
	// KindRestored: the journal knew it, and the store did not, or an older one.
	KindRestored Kind = 11
	// KindParked: an attempt was not taken, and it waits aside until its topic is.
	KindParked Kind = 12
)

var kindWords = [...]string{"", "merged", "absorbed", "replaced", "gave_way", "yielded", "requeued", "requeue",
	"purged", "withdrawn", "swept",
	"restored", "parked"}

// String returns the kind's word in answers, empty for KindPlain.
func (k Kind) String() string {
	if int(k) < len(kindWords) {
		return kindWords[k]
	}
	return "invalid"
}

// Valid reports whether the kind is one of these.
func (k Kind) Valid() bool { return int(k) < len(kindWords) }

// Names reports whether changes of the kind name another message.
func (k Kind) Names() bool { return k == KindMerged || k == KindRequeued || k == KindRequeue }

// Words says in a few words why a change of the kind was made, empty where that takes
// more than the kind, the other message and whether it is uncertain now.
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
		return "restored when it was due already"
	}
	return ""
}
