// Package scheduler has the words and the ports of the core: what a push, a poll and a change are, and what a store, a
// publisher and a journal do. Redis, NATS and SQL implement the ports in ports.go, pulling.go and steering.go, and
// cmd/internal/app connects them. The rooms beside it decide, on any instance: accept how a push is stored, pull how
// consumers get messages, and steer, which has both, how messages are looked up and changed. What the leader alone does
// with a message when it is due is lead. None of them imports a driver.
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
// # Time
//
// "Now" is the time of Clock: the median of the clocks of the machine, Redis and NATS, so that a single clock that
// jumps makes no message early. Due times are whole milliseconds, rounded up; "now" is rounded down. See clock.go.
package scheduler
