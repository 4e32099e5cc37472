// Package world runs instances of tarry in a bubble of time, over doubles of Redis, SQL, NATS and ZooKeeper, lets a
// seed decide what their users and their faults do, and holds what the users saw against the promises
// (deploy/check/history).
//
// An instance is a scheduler, a leader, a journal's writer, drainer and recovery, its HTTP API and its webhooks, wired
// as cmd/internal/app wires them. Redis is store/memory, and SQL the journal of store/memory: both pass the suites that
// the real ones pass. ZooKeeper is a few lines, and so are consumers on NATS. In some worlds there is a nats-server
// instead, and each instance has its intake, its request API and its publisher there. Half of what users do they send
// to the HTTP API, whose answers get lost; the target of the webhooks fails in six ways. Every call goes by the bus,
// which lets one call go on at a time, and the seed picks which: calls are refused, not answered, executed without an
// answer, or late; instances are stopped, killed at any call, frozen, cut from ZooKeeper, and their clocks step;
// servers are away; Redis loses everything. Then the faults end, and everything has to come to its end.
//
// What belongs to the runtime, deploy/world/run.sh leaves to the seed too, so that a seed replays to the byte. Without
// it a seed is another run each time, of the same kind; so is one of a world with a nats-server, which runs in the
// bubble, and draws and hurries as it likes. tarry.Consume is of another module, and not here. Redis itself cannot run
// in the bubble, since calls over a network are not part of its time: what is said here of the store is said of the
// model to which schedulertest holds Redis's scripts.
package world
