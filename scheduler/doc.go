// Package scheduler is the heart of tarry. It decides how a delayed message is accepted, when it is due, and what the
// leader then does with it. It imports no driver: Redis, NATS and SQL implement the ports in ports.go, and
// cmd/internal/app connects them. Package message defines messages, uids and states; it does not import this package.
//
// # Who may call what
//
// Any instance accepts, looks up and cancels. Only the leader begins a term, sweeps, claims, finishes, returns and
// parks. Each of these calls carries the term: if the store knows a higher one it answers ErrStaleTerm, and the leader
// steps down at once. Run lasts as long as the leadership: it ends with its context, and returns when nothing that it
// started is still running.
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
// something.
//
// # Many at once
//
// An operation on many messages walks through the buckets in pages of 500 and works on 32 messages at a time. It holds
// one page in memory. Only a shift of due times needs more: until it ends it remembers the messages that it moved, in
// 26 to 41 bytes each (40 MB for a million). A narrower selection limits that. Walking in the opposite direction of the
// shift would not replace this memory: a refused message waits past its due time, and an overdue message moves to now,
// so both may still be ahead of the walk after they were moved.
//
// If the caller disconnects, the instance stops or a store is unavailable, the operation begins no more messages and
// finishes those in progress. The report therefore counts what really happened.
//
// # Time
//
// "Now" is the time of Clock: the median of the clocks of the machine, Redis and NATS, so that a single clock that
// jumps makes no message early. Due times are whole milliseconds, rounded up; "now" is rounded down. See clock.go.
package scheduler
