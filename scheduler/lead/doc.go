// Package lead does what only the leader of a term does: it sleeps until messages are due, claims them, hands them to
// the publisher, and ends or returns them by its answers. Leader.Run lasts as long as the leadership: it ends with its
// context, and returns when nothing that it started is still running.
//
//	Timeline ─claim─▶ scanner ─▶ dispatch ─┬─▶ Publisher ─answer─▶ settler ─▶ judge ─▶ Timeline: finish, return
//	                                       ├─ too late, too often ──▶ │
//	                                       └─ must wait in a lane ──▶ │
//
// # Who owns what while this instance leads
//
// Each bucket has a scanner and a settler, each in its own goroutine. Data that is neither under a lock nor a
// channel belongs to one of the two, and no other goroutine touches it.
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
// A message takes one path: claim, flight, dispatch, publisher, put, judge, write, and out of flight. leadership.poll
// is the safety net: it reads the head and the number of claims of every bucket, and nudges a scanner that missed
// something. It also tells lapse, which ends leases and times to live in each bucket, when the first may be over.
package lead
