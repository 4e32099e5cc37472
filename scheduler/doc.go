// Package scheduler is the heart of tarry: how a delayed message is accepted, when
// it is due, and what the leader does with it then. It knows no driver: Redis, NATS
// and SQL plug into the ports of ports.go, and the wiring (cmd/internal/app) joins
// them. What a message is, its uid, its states and the words for them, is package
// message, which knows nothing of this one.
//
// # Who may call what
//
// Any instance accepts, looks up and cancels. Only the leader begins a term,
// sweeps, claims, finishes, returns and parks, and each of these calls carries
// its term: the store answers ErrStaleTerm when it knows a higher one, and the
// leader steps down at once. Run is the leader's whole life; it ends when its
// context ends and returns when nothing it started is still running.
//
// # Who owns what while this instance leads
//
// Each bucket has a scanner and a settler, in a goroutine each. What is not under
// a lock belongs to one of the two, and no other goroutine touches it.
//
//	leadership     one term: its lease, and what all buckets share: the lanes that
//	│              failed lately (laneBook), pauses and rates (holds), both locked
//	└─ scanner     one bucket: which lanes it has and whose turn it is; claims and
//	   │           hands over; the scanning goroutine alone
//	   ├─ inbox    earlier due times and lanes for the scanner to look at; locked;
//	   │           pushes, poll and settlers write, the scanner reads
//	   ├─ flight   the messages that are claimed; locked; the scanner adds, the
//	   │           settler drops, poll compares it with the store's count
//	   └─ settler  the publisher's answers (locked), and what they mean until it
//	      │        is written; the settling goroutine alone
//	      └─ copies  tries of copies of what expired or is dead
//
// A message goes one way: claim, flight, dispatch, publisher, put, judge, write,
// and out of flight. leadership.poll is the net below: it reads every bucket's
// head and count of claims, and nudges the scanner that missed something.
//
// # Many at once
//
// An operation on many walks through the buckets in pages of 500 and works on 32
// messages at a time. It holds one page in memory, whatever it is asked for, but
// for a shift of due times: that remembers whom it moved, in 26 to 41 bytes each
// (40 MB for a million), until it ends. A narrower selection bounds it. To walk
// against the shift would not do instead: what was refused waits later than it is
// due, and what is overdue moves to now, so either may still lie ahead once moved.
//
// Where the caller goes away, the instance stops or a store is away, no more
// messages are begun and those under way are finished, so that the report counts
// what really happened.
//
// # Time
//
// "Now" is Clock: the median of the machine's clock, Redis's and NATS's, so
// that one clock that jumps makes nothing early. Due times are whole
// milliseconds, rounded up; "now" is rounded down. See clock.go.
package scheduler
