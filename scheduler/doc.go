// Package scheduler is the heart of tarry: what a delayed message is, how it
// is accepted, when it is due, and what the leader does with it then. It knows
// no driver: Redis, NATS and SQL plug into the ports of ports.go, and the
// wiring (cmd/internal/app) joins them.
//
// # States
//
//	            accept                claim                 finish
//	(nothing) ─────────▶ waiting ───────────────▶ in_flight ─────────▶ delivered
//	                      │  ▲                      │ │  │
//	               cancel │  └──────────────────────┘ │  ├──────────▶ expired   (its time to live was over)
//	                      ▼        return, sweep      │  └──────────▶ dead      (refused for good, too often)
//	                   canceled                       │
//	                      ▲                           │
//	                      └───── never from here ─────┘   (cancel answers in_flight)
//
// The table is transitions in state.go, with what makes each and what a recovery
// may do; the scripts of store/timeline have theirs from it. A step that is not in it
// is refused for that message alone: the rest of its batch goes on, the message stays
// as it was, and it is counted, logged with its uid and listed by a verify. A
// message stays in_flight until the leader that claimed it says how it ended,
// or until a leader with a higher term sweeps it back: a claim has no time-out.
//
// # Uncertain
//
// A message is uncertain once a consumer may have seen it although tarry has
// no proof: its publish had an unknown outcome, or the leader that had claimed
// it died. The mark stays for good. Cancel of an uncertain message ends it
// (no further attempt) and answers maybe_delivered, never OK. While a message
// is claimed it is uncertain by that alone; a definite refusal, or a return of
// what was never handed to NATS, restores the mark as it stood before. A dead
// message hands its mark on to the one that it becomes by a requeue.
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
