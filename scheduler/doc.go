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
