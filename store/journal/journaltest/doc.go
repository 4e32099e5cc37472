// Package journaltest holds every journal.Store to one behaviour. Exercise runs
// a named test for each thing that journal.Store promises; ExerciseModel writes
// random histories in random order, torn, repeated and at the same time, and
// compares what is found. A store passes both or is wrong.
//
// What store.go does not say, because only a test asks:
//
//   - Body and headers of nothing may come back nil or empty.
//   - reason, instance, address and stream may come back cut (a reason not below
//     1000 bytes, the others not below 250), and with what is not valid UTF-8
//     replaced; they never make a Write fail.
//   - A TTL is kept in whole milliseconds, rounded up; Stored, Claim and lanes
//     are not kept at all.
//   - A context that has ended is an error.
package journaltest
