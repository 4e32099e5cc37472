// Package api serves tarry over HTTP: the routes under /v1, and /livez, /readyz and /metrics of one instance. Any
// instance answers; a standby accepts pushes and cancels as well as the leader does.
//
//	request ─▶ observe ─▶ route ─▶ admit ─▶ handler ─▶ Service (the scheduler)
//	           log,       path,    token,   body, query:
//	           metrics,   method   origin   read whole, judged whole,
//	           panics                       before anything is written
//
// A handler writes its successful answer itself and returns everything else as an error. One place turns errors into
// {"error":"stable_word","detail":"..."} with the right status (bridge/ops knows the scheduler's errors, problem.go
// those of HTTP). No answer is plain text, not even 404, 405 and 500.
//
// # Memory
//
// A request body is read once, into newly allocated memory, which the messages share. That memory is never reused for
// another request, because a push whose outcome is unknown may still wait for the store after the answer. The bodies
// being read are bounded together; beyond the bound a request is answered 503 busy. Only bytes that have arrived count,
// so a client that announces a large body and sends little of it blocks nobody.
//
// # Where it stands
//
// The table of operations (bridge/ops) says what there is; docs/api.md and openapi.json are written from it. Routes of
// other systems are mounted beside it (bridge/seeds).
//
// # What only the journal answers
//
// Where the journal is off, list, history, forecast, restore, verify and redeliver answer 501 needs_journal. An invalid
// parameter or field is refused with "invalid_" and its name before anything is read or changed. An empty parameter is
// invalid too: a script whose variable is unset must not restore every topic.
//
// A list includes the journal's lag, read before the page: the page misses no more than that lag and the changes since.
// The lag is omitted while the store cannot report it.
//
// A long operation has no time-out. It ends when its client goes away, and with 503 stopping when the instance stops.
// Only one operation of each kind runs at a time, of those on many messages four; another is answered 409
// already_running. The answer is a report as one JSON object, or, to a client that accepts application/x-ndjson, lines
// of {"progress":{...}}, one a second, and a last line {"report":{...}} or {"error":"...","detail":"..."}. A failure
// before the first line is answered with its status. Each operation is logged with its kind, the caller's address and
// whether it is a dry run.
//
// # Changing waiting and dead messages
//
// PATCH and run change one waiting message. With If-Match they change it only at that version; otherwise the answer is
// 412 version_mismatch. Their answers and those of a look-up carry the version as the ETag. A message that is in
// flight, may have been delivered or has ended stays unchanged (409).
//
// A selection of everything must be explicit, "all":true; a dry run counts and changes nothing. Refusals of single
// messages are counted, not listed: in_flight, maybe_delivered, ended, failed. If an operation on many messages fails,
// its problem has a "report" of what it had done until then. If the request names one dead message, the status is its
// result; several messages have a result each, as in a batch, and a dry run for them is refused.
//
// A topic here may be a NATS pattern, except in GET /v1/topics/{topic}. In a path, > may also be written %3E. Pausing a
// paused pattern replaces who paused it and since when. Resuming a pattern that is not paused in exactly this spelling
// is answered 404 not_paused. While messages move, the counts of a topic are not a snapshot, and a topic without
// messages may be listed with zeros.
//
// # Who may call
//
// If tokens are configured, every route except /livez and /readyz requires one. Without tokens, the instance refuses to
// start with an address that is not loopback. tarry keeps only the hash of a token and compares it with all known
// hashes, in constant time. A token has these rights:
//
//	read      GET of messages, lists, history, forecast, dead, topics, rejects, cluster, metrics: of all topics
//	push      POST of messages and batches, by patterns of topics; DELETE, PATCH and run of single messages on such a
//	          topic; GET of these messages, of their history and of why, without headers and bodies; list and requeue
//	          of rejects
//	operate   cancel and reschedule of many, requeue, purge, pause, resume, restore, verify, redeliver, resign,
//	          forget; DELETE, PATCH and run of any message; and read
//
// A request without the needed right is answered 403 forbidden, in a batch for that item only, and changes nothing. If
// a caller's rights depend on the topic, its change applies only to a message on the topic that was checked, even if
// another message has the name by then. For a caller that may only push, messages on other topics do not exist: a
// request for their ids is answered 404 unknown_id. A change that names such a topic is answered 403 forbidden.
//
// Each request to a route that needs operate, and each requeue of rejects, is logged in one line, "operator action",
// with the caller, its address, the action and the outcome. Bodies and tokens are never logged.
//
// Any web page can make a browser on this machine post to loopback. Requests that a browser marks as coming from
// another origin are therefore refused, with or without a token.
package api
