// Package journal keeps what happened to every message in SQL: MySQL 8 or
// MariaDB 10.11 for production, SQLite for one machine. A Redis that was lost is
// rebuilt from it, and it answers what a user asks long after Redis forgot.
//
//	             one Lua script                  group commit
//	push ──────▶ message + outbox entry ───────▶ Writer ───────▶ messages, transitions ──▶ entry deleted
//	             │                                  ▲
//	             └ what nobody committed in time ── Drainer (the leader, or any instance while there is none)
//
// # The outbox
//
// Every script that changes a message writes the change, and the message itself
// when it is new, to its bucket's stream in the same script: state and log
// cannot part. An entry leaves the outbox only when its changes are committed.
// The instance whose script wrote an entry has it in memory and commits it from
// there (Writer); what it did not commit in time, because it died, SQL was slow
// or its memory was full, is read from the start of the stream by the Drainer.
// There is no cursor: a promoted replica may hand out lower ids, which a cursor
// would skip. Nothing is trimmed unwritten: at the limit new pushes are refused,
// and what is due still goes out.
//
// # What cannot be written
//
// SQL may refuse a row for good, and an entry may be damaged. Neither holds up what
// stands behind it, nor the memory of ends, the lag and a recovery:
//
//	refused change      the others of its entry are written, and it as a bare state, without content
//	refused bare        the entry is quarantined: it stands apart in the timeline, where verify lists it
//	damaged entry       quarantined
//	a newer tarry's     stays in the outbox for one that knows its form
//
// That is for the fault of rows alone. A database that is away, unfit or does not
// answer in time is waited for, and so is room in the quarantine, which is bounded:
// where row after row is refused the fault is hardly theirs.
//
// Before an entry goes the Drainer writes down how its messages stand in the timeline:
// mostly that is all the journal missed but for the history. Where it cannot either,
// the journal may tell of a message as waiting that has ended, and the timeline may
// have forgotten that. So nothing restores what such an entry names and the timeline
// does not know. A bucket is certified all the same, since it has its messages, and the
// log says whose changes the journal lacks. What is emptied later loses the quarantine
// too: then what the journal has comes back.
//
// # Order does not matter
//
// A change carries the message's version, its acceptance being 1. A row's state
// is guarded by version, its content by the version that content came with
// (content). So changes of one uid may be committed in any order, by anybody,
// and any number of times; every retry is safe, also after a commit whose answer
// was lost.
//
// # Modes
//
//	off    no outbox, no journal; what Redis loses is lost
//	async  a push is answered after Redis; losing Redis may lose what the outbox held (the lag is told)
//	sync   every answered change is answered after the commit that holds it; while SQL is away
//	       changes are refused before they are made, and due messages still go out
//
// A sync change whose commit does not come in time is outcome_unknown. Its
// retry finds the change made, and is answered once the journal holds it.
//
// # Fences
//
// A Redis that was replaced may still answer on connections opened before (the
// old primary after a promotion). What is written to it then is lost with it. So
// each certification of a Redis has a number, kept in Redis and, per bucket, here.
// A sync commit names the number under which its change was made, and is refused
// once a higher one stands (scheduler.ErrFenced). The leader raises the fence before it
// compares Redis with the journal, so that no answered change can come between.
//
// # Pauses
//
// A pause (scheduler.Pause) is not a message and does not go through an outbox. An
// instance changes it in the timeline, where it takes effect at once, and then writes
// it here, in async mode too, since pauses are few. A call whose write fails returns
// an error. The timeline gives each change a time later than that of the change
// before, so any instance may write it at any time: the later one stays. Before the
// recovery certifies a bucket it restores the pauses of a store that may have lost
// some. That undoes a resume which never reached the journal, and whose caller got
// an error for it.
//
// # Tables
//
// messages has one row a message: content, state, version. transitions has one
// row a change, with what the message became by it. meta holds the namespace (one database belongs to one
// namespace), the highest term, fences the certification of each bucket, and
// pauses the last change of each pattern's pause.
// Migrations are in migrations/, by dialect.
package journal
