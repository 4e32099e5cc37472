// Package journaltest tests that every journal.Store has the same behaviour. Exercise runs a named test for each
// promise of journal.Store. ExerciseModel writes random histories in random order, split, repeated and concurrently,
// and compares the results. A correct store passes both.
//
// Details that store.go leaves out, since only tests depend on them:
//
//   - An absent body or header may be returned as nil or empty.
//   - reason, instance, address and stream may be truncated (a reason not below
//     1000 bytes, the others not below 250), and bytes that are not valid UTF-8
//     may be replaced; they never make a Write fail.
//   - A TTL is kept in whole milliseconds, rounded up; Stored, Claim and lanes
//     are not kept at all.
//   - A context that has ended is an error.
package journaltest
