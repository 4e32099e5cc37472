// Package journal records what happens to every message in SQL: MySQL 8 or MariaDB 10.11 for production, SQLite for a
// single machine. A lost Redis is rebuilt from the journal, and the journal answers questions about messages that Redis
// has long forgotten.
//
//	             one Lua script                  group commit
//	push ──────▶ message + outbox entry ───────▶ Writer ───────▶ messages, transitions ──▶ entry deleted
//	             │                                  ▲
//	             └ entries not committed in time ─── Drainer (the leader, or any instance while there is none)
//
// # The outbox
//
// Every script that changes a message writes the change, and the message itself if it is new, to its bucket's stream in
// the same script: state and log cannot diverge. An entry leaves the outbox only after its changes are committed. The
// instance whose script wrote an entry has it in memory and commits it from there (Writer). The Drainer reads the
// entries that the instance did not commit in time, because it died, SQL was slow or its memory was full, from the
// start of the stream. There is no cursor: a promoted replica may assign lower ids, which a cursor would skip. No entry
// is trimmed before it is written: at the limit, new pushes are refused, and due messages are still delivered.
//
// # What cannot be written
//
// SQL may refuse a row for good, and an entry may be damaged. Neither blocks the entries behind it, the trimming of
// ends, the lag or a recovery:
//
//	refused change      the others of its entry are written, and it as a bare state, without content
//	refused bare        the entry is quarantined: it is kept apart in the timeline, where verify lists it
//	damaged entry       quarantined
//	a newer tarry's     stays in the outbox for an instance that knows its form
//
// This applies only to errors caused by the rows themselves. The Drainer waits for a database that is unreachable,
// unfit or does not answer in time. It also waits for room in the quarantine, which is bounded: if row after row is
// refused, the rows are hardly the cause.
//
// Before the Drainer quarantines an entry, it writes the current states of the entry's messages in the timeline to the
// journal: usually the journal then lacks only their history. If that is not possible, the journal may list a message
// as waiting although it has ended, and the timeline may have forgotten the end. A message that such an entry names and
// that the timeline does not know is therefore never restored. The bucket itself has its messages and is certified all
// the same; the log names the messages whose changes the journal lacks. If the store is emptied later, the quarantine
// is lost too, and the messages are restored as the journal has them.
//
// # Order does not matter
//
// A change carries the message's version, its acceptance being 1. A row's state is guarded by its version, and its
// content by the version of the change that brought it (the column content). So changes of one uid may be committed in
// any order, by any instance, and any number of times. Every retry is safe, even after a commit whose answer was lost.
// The end of a message may be committed before its acceptance, and the store be lost with that: the journal has the end
// alone then, and a push that comes again does not wait for more (message.Info.EndOnly).
//
// # Modes
//
//	off    no outbox, no journal; messages that Redis loses are lost
//	async  a push is answered after Redis; losing Redis may lose the contents of the outbox (the lag is a metric)
//	sync   every change is answered after its commit; while SQL is away
//	       changes are refused before they are made, and due messages are still delivered
//
// A sync change that is not committed in time is outcome_unknown. Its retry finds that the change was made, and is
// answered once the journal holds it.
//
// # Fences
//
// A Redis that was replaced may still answer on connections opened before (the old primary after a promotion). Changes
// written to it are lost with it. So each certification of a Redis has a number, kept in Redis and, per bucket, here. A
// sync commit names the number under which its change was made, and is refused once a higher number is recorded
// (scheduler.ErrFenced). The leader raises the fence before it compares Redis with the journal, so that no answered
// change can slip in between.
//
// # Pauses
//
// A pause (scheduler.Pause) is not a message and does not go through an outbox. An instance changes it in the timeline,
// where it takes effect at once, and then writes it here, in async mode too, since pauses are few. A call whose write
// fails returns an error. The timeline gives each change a time later than that of the previous change, so any instance
// may write it at any time: the later change wins. Before the recovery certifies a bucket it restores the pauses of a
// store that may have lost some. That undoes a resume that never reached the journal, whose caller received an error.
//
// # Tables
//
// messages has one row for each message: content, state, version. transitions has one row for each change, with the
// message's state after it. meta holds the namespace (one database belongs to one namespace), the highest term, fences
// the certification of each bucket, and pauses the last change of each pattern's pause. Migrations are in migrations/,
// by dialect.
package journal
