// Package app wires an instance of tarry from its parts: the one place that
// knows them all. Serve is a production instance (ZooKeeper, Redis, NATS), Dev
// is everything in one process; both are made of the same core.
//
//	edges (end first, on stop)          inner parts (end last)
//	  http, intake, requests              scheduler's flushers
//	  election ── lead.go ── scheduler    publisher, clocks, machine id
//
// New binds listeners and checks what can be checked without a server. Run
// serves until its context ends: it answers /livez and /readyz from its first
// moment, waits for the servers it needs with a clear log line each, and only
// then takes messages in and stands for election. On stop the edges end, each
// finishing what it has begun; then the inner parts, which the edges need for
// that, end too.
//
// Whatever New opens has an owner here and is closed by Run.
package app
