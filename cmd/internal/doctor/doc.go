// Package doctor checks everything that tarry serve depends on, with the same settings. It reports what is wrong and
// what to change. Every check covers a fault that has caused a loss of messages, or that would keep an instance from
// starting.
//
// It reads and never changes anything: it makes no key, stream, znode or row, and disturbs nothing that runs. What it
// cannot avoid leaves no trace: connections, a ZooKeeper session for each server, which it closes itself, and a message
// on tarry.<namespace>.doctor, to which nobody listens. What only a change could prove, it concludes from what the
// servers report (ACLs, permissions, EXPLAIN).
//
// What a server reports and the settings say are facts, and what a check makes of them is a table of rules (rules.go),
// from which docs/operations.md has its list. Only rights, ensembles, clocks and files need code of their own.
//
// A check has one of four outcomes:
//
//	ok       as it should be
//	warn     works, but may lose something after a fault, or will soon stop working
//	fail     tarry serve does not start, does not deliver, or loses messages
//	unknown  the server does not show it; the advice says what to look at
//
// unknown is neither a warning nor a failure, not even in strict mode: most managed Redis services deny CONFIG to their
// users, who cannot change that.
//
// The dependencies are checked concurrently, and so are the servers of each. Every call has a time-out, so a frozen
// server affects only its own checks. Clocks are compared at the end, when all have been read.
//
// No text contains a password, token or DSN: see hider.
package doctor
