// Package scheduler decides how a delayed message is accepted, steered and looked up, on any instance. What the leader
// alone does with it when it is due is package lead, which imports this one. Neither imports a driver: Redis, NATS and
// SQL implement the ports in ports.go and steering.go, and cmd/internal/app connects them.
//
//	                    any instance                       the leader
//	intake, HTTP ─▶ Accept ─▶ coalescer ─▶ Timeline ◀─ claim ── lead ─▶ Publisher
//	                Cancel, Reschedule, … ──▶     │    finish, return
//	                Get, lists ◀──────────────    └─ entries of package record ─▶ journal
//
// Package message defines messages, uids and states, and package record what the journal keeps of them.
//
// # Who may call what
//
// Any instance accepts, looks up and cancels. Only the leader begins a term, sweeps, claims, finishes, returns and
// parks: Timeline's part Leading. Each of these calls carries the term: if the store knows a higher one it answers
// ErrStaleTerm, and the leader steps down at once.
//
// # Pull
//
// A message for pull is ready by the clock alone. Polls of a topic stand in a line (polls.go). The first of them looks
// for all at what is ready in every bucket, shares it in their order by one call of Lease for each poll and bucket, and
// sleeps until the next due time or until it hears of an earlier one. Consumers settle their leases by receipt
// (leases.go), and the leader ends what has lapsed.
//
// A lease that may have been taken and cannot be handed out is undone by its nonce, until that is answered or the lease
// is over. The repeat of a poll with an attempt, at any instance, finds the messages by the nonce; once it has, an undo
// leaves them to it. Each bucket is settled on its own, so that neither the journal nor a bucket that does not answer
// keeps an acknowledgement from another.
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
