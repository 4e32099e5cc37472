// Package app builds an instance of tarry from its parts; it is the only package that knows them all. The settings
// choose what an instance runs on: ZooKeeper, Redis and NATS or, with store: memory, files and components inside this
// process. tarry dev is the latter with settings that need no file.
//
//	edges (end first, on stop)          inner parts (end last)
//	  http, intake, requests              scheduler's flushers
//	  election ── lead.go ── scheduler    publisher, clocks, machine id
//
//	open.go, local.go   what is opened before: store, journal, NATS
//
// New binds listeners and checks what can be checked without a server. Run serves until its context ends: it answers
// /livez and /readyz from its first moment, waits for the servers it needs with a clear log line each, and only then
// accepts messages and stands for election. On stop the edges end first, each finishing its work in progress; the inner
// parts, which the edges need for that, end last.
//
// # The house
//
// Packages import only packages below them; imports_test.go has the table.
//
//	cmd/tarry                                  the commands
//	  cmd/internal/app                         this package
//	    cmd/internal/config                    settings
//	    bridge, bridge/api                     NATS and HTTP
//	      bridge/ops                        outcomes as answers, the same over both
//	        bridge/wire                        forms of requests and answers; standard library only
//	    store/timeline, store/memory           what waits, in Redis or in this process
//	    store/journal                          what happened, in SQL
//	      scheduler                            decides: accept, judge, claim, settle; stores implement its ports
//	        scheduler/message                  the words: message, uid, state, kind, lane, time
//	    election                               Node: session, member, health; Race: one lease and term
//
// election and scheduler do not know each other: lead.go joins them. The states of a message are drawn in
// scheduler/message, the permitted calls in scheduler, and the keys of Redis in store/timeline.
//
// App owns everything that New opens. Run closes it at its end; Close does so for an instance that never runs.
package app
