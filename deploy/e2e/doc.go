// Package e2e tests the built binary from outside: real redis-server, nats-server and ZooKeeper, tarry as processes,
// and consumers that are plain nats.go. It imports nothing of tarry but deploy/lab, so it sees what an operator sees:
// HTTP, NATS, the protocol of Redis, logs and exit codes.
//
// Most stories have one shape:
//
//	load ──pushes, cancels──▶ tarry ×3 ──▶ NATS ──▶ consumers ──▶ history
//	faults ──kill -9, SIGTERM, SIGSTOP──▶  ▲                         │
//	         Redis MONITOR ◀───────────────┘                       check
//
// The load pushes numbered messages (header X-Seq) by tag and by HTTP through every instance, with due times spread
// over the run, and cancels some of them. It writes down what it asked, when, and what was answered. Consumers write
// down what arrived, when, and whole. The story breaks things at moments it chooses by what it sees, never by waiting a
// while, and writes down from when to when a duplicate can be its fault.
//
// The checker holds the history against the promises: kept, never early, never after a cancel that was answered OK,
// duplicates only around a fault and under one Nats-Msg-Id, bodies and headers byte for byte. All processes are on one
// machine, so there is one clock, and no tolerance. It has tests of its own: each way to spoil a good history must be
// found (mutants_test.go).
//
// A watcher on MONITOR sees each script that each instance runs, and whether it wrote: no write under a term may follow
// a write under a higher one, and only leaders claim.
//
// With a journal (journal_*_test.go) the story may lose Redis as well: emptied, restarted without its file or with half
// of it, replaced by a replica that missed the last writes. In sync mode the checker then forgives nothing but
// duplicates of what was delivered just before. At the end the outbox must be empty and the journal equal what
// happened: one row for each acknowledged push, its versions from 1 without a gap, its end, and no term that falls.
// Instances built with failpoints kill themselves at the worst moments of a commit and of a recovery; the database is
// frozen, killed and filled.
//
// Stories mostly wait, so .ci/test runs several at a time, and those of deploy/topology beside them. One that loads the
// machine, and those that time a takeover, run beside no other of this package. Stories of a few
// seconds are package short, which runs beside the unit tests; what all stories share is package site.
//
// Every instance gets its credentials, and every body begins, with a marker. When a test ends, none of them may be in
// the log of any instance (site_test.go). The binary has the race detector when the test has it; a race in a process
// fails its test. .ci/test runs the stories here without it, as users run tarry, and those of package short with it;
// .ci/race runs these with it too.
package e2e
