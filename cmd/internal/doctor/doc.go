// Package doctor checks everything that tarry serve depends on, with the same settings, and reports what is wrong and
// what to change: every check covers a fault that has caused a loss of messages, or would keep an instance from
// starting.
//
// It reads and never changes: no key, stream, znode or row is made, and nothing that runs is disturbed. What it cannot
// avoid leaves no trace: connections, a ZooKeeper session for each server that it closes itself, and a message without
// a listener on tarry.<namespace>.doctor. What only a change could prove is judged by what the servers report (ACLs,
// permissions, EXPLAIN).
//
// A check ends as one of four:
//
//	ok       as it should be
//	warn     works, and loses something on a bad day, or soon will not work
//	fail     tarry serve does not start, does not deliver, or loses messages as it is
//	unknown  the server does not show it; what to look at stands in its place
//
// unknown is neither a warning nor a failure, not even in strict mode: most managed Redis services deny CONFIG to their
// users, who cannot change that.
//
// The dependencies are checked concurrently, and so are the servers of each. Every call has a time-out, so a frozen
// server costs its own checks and no others. Clocks are compared at the end, when all have been read.
//
// No password, token or DSN is ever part of a text: see hide.
package doctor
