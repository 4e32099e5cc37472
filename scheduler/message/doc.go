// Package message is tarry's vocabulary: a delayed message, its identity, its bucket, its states, and the points in
// time at which it is due. It holds no behaviour: package scheduler decides, the stores keep, and bridge carries. All
// of them use these words, as do Lua, SQL, HTTP and the metrics.
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
// The table of transitions is in state.go, with what makes each one and what a recovery may do; the scripts of
// store/timeline get their table from it. A transition outside the table is refused for that message alone. The rest of
// its batch continues, and the message is unchanged. The refusal is counted, logged with the message's uid, and listed
// by a verify. A message stays in_flight until the leader that claimed it says how it ended, or until a leader with a
// higher term sweeps it back: a claim has no time-out.
//
// # Pull
//
// A message with Pull is never claimed by a leader: consumers lease it, on any instance. It is in_flight while it is
// leased. A lease ends by an acknowledgement (delivered) or by the consumer's word that the message is dead; it comes
// back by a refusal, by a release, or because its time is over, which only the leader decides. A waiting message that
// is due is shown as ready: the clock alone makes it so.
//
// Of the Serial messages of one topic and key at most one has the key: the leased one, or the one that waits for its
// retry. Whatever ends, changes or releases it gives the key up, and the first of the others by due time can be leased.
//
// # Uncertain
//
// A message is uncertain once a consumer may have seen it although tarry has no proof: its publish had an unknown
// outcome, or the leader that had claimed it died. The mark is permanent. Cancel of an uncertain message ends it (no
// further attempt) and answers maybe_delivered, never OK. A claimed message is uncertain for as long as it is claimed;
// a leased one is not, since only the holder of its receipt can end it.
// A definite refusal, or the return of a message that was never handed to NATS, restores the mark as it was before. A
// requeue passes the mark of a dead message on to its new life.
package message
