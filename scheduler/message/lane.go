package message

import "strings"

// Lane is a place outside the bucket's order where messages wait together for the same thing. The stores hold its text:
// the prefix of its kind, and a name. The empty lane is the bucket itself.
type Lane string

// LaneKind is what the messages of a lane wait for.
type LaneKind uint8

// The kinds of lanes.
const (
	// LaneNone: the bucket itself.
	LaneNone LaneKind = iota
	// LaneStream: the stream of that name accepts nothing for now.
	LaneStream
	// LaneCore: nobody listens on the core NATS subject of that name.
	LaneCore
	// LaneShared is like LaneCore, for all subjects beyond those that have lanes of their own.
	LaneShared
	// LanePaused: the topics that match the name, which is a pattern, are paused.
	LanePaused
	// LaneRate and LaneLate: the pattern's rate, or its catch-up rate, has no room.
	LaneRate
	LaneLate
)

// lanePrefixes are the prefixes of lanes by kind. No stream has a dot or a colon in its name.
var lanePrefixes = [...]string{
	LaneStream: "js:",
	LaneCore:   "core:",
	LaneShared: "core:*",
	LanePaused: "paused.",
	LaneRate:   "rate.",
	LaneLate:   "late.",
}

// Prefix returns the prefix of the lanes of this kind.
func (k LaneKind) Prefix() string { return lanePrefixes[k] }

// Lane returns the lane of this kind with the given name.
func (k LaneKind) Lane(name string) Lane { return Lane(k.Prefix() + name) }

// Hold returns what keeps the messages of a lane of this kind from being claimed although they may be due.
func (k LaneKind) Hold() Hold {
	switch k {
	case LaneNone:
		return HoldNone
	case LanePaused:
		return HoldPaused
	case LaneRate, LaneLate:
		return HoldRate
	}
	return HoldParked
}

// LaneKinds returns the kinds whose lanes have a prefix. A lane without one of these prefixes is a stream's.
func LaneKinds() []LaneKind { return []LaneKind{LaneCore, LanePaused, LaneRate, LaneLate} }

// Kind returns what the messages of the lane wait for.
func (l Lane) Kind() LaneKind {
	switch {
	case l == "":
		return LaneNone
	case l == LaneShared.Lane(""):
		return LaneShared
	}
	for _, k := range LaneKinds() {
		if strings.HasPrefix(string(l), k.Prefix()) {
			return k
		}
	}
	return LaneStream
}

// Name returns the lane's name without the prefix of its kind.
func (l Lane) Name() string { return strings.TrimPrefix(string(l), l.Kind().Prefix()) }

// Parks reports whether messages wait in the lane because their destination does not accept them.
func (l Lane) Parks() bool { return l.Kind().Hold() == HoldParked }

// Destination reports whether the lane belongs to one destination. The shared lane belongs to none: it has no strays,
// and each of its messages is judged by its own destination.
func (l Lane) Destination() bool { return l.Parks() && l.Kind() != LaneShared }

// Holds reports whether the messages of the lane wait although their destination would accept them.
func (l Lane) Holds() bool { h := l.Kind().Hold(); return h == HoldPaused || h == HoldRate }

// Hold is what keeps a waiting message from being claimed although it may be due.
type Hold uint8

// The holds. The leader claims a message without a hold as soon as it is due.
const (
	HoldNone   Hold = iota
	HoldParked      // its destination accepts nothing for now
	HoldPaused      // its topic is paused
	HoldRate        // its topic's rate has no room
	HoldPull        // it is never claimed: consumers pull it
	Holds           // the number of holds
)

func (h Hold) String() string { return [...]string{"none", "parked", "paused", "rate", "pull"}[h] }
