// Package api is tarry over HTTP: the routes under /v1, /livez, /readyz and /metrics of one instance. Any instance
// answers; a standby accepts pushes and cancels as well as the leader does.
//
//	request ─▶ observe ─▶ route ─▶ admit ─▶ handler ─▶ Service (the scheduler)
//	           log,       path,    token,   body, query:
//	           metrics,   method   origin   read whole, judged whole,
//	           panics                       before anything is written
//
// A handler writes its success itself and returns everything else as an error; one place turns errors into
// {"error":"stable_word","detail":"..."} with the right status (bridge/answer knows the scheduler's, problem.go those
// of HTTP). So no answer is plain text, not even 404, 405 and 500.
//
// # Memory
//
// A request body is read once, into memory of its own, and the messages share it. That memory is never reused for
// another request, because a push whose outcome is unknown may still wait for the store after the answer. The bodies
// being read are bounded together; beyond the bound a request is answered 503 busy. Only bytes that have arrived count,
// so a client that announces much and sends little blocks nobody.
//
// # What only the journal answers
//
//	GET  /v1/messages?topic=&key=&state=&due_from=&due_to=&limit=&cursor=   a page by due, without headers and bodies
//	GET  /v1/messages/{id}/history                                          every change, by version
//	GET  /v1/forecast?topic=&step=&until=                                   what falls due, step by step; overdue apart
//	POST /v1/messages/{id}/restore  {dry_run}
//	POST /v1/restore                {overdue, topic, dry_run, rate}         long
//	POST /v1/verify                 {repair}                                long
//	POST /v1/redeliver              {since, topic, dry_run}                 long
//
// Where the journal is off they answer 501 needs_journal. A parameter or field that cannot be meant is refused with
// "invalid_" and its name, and then nothing was asked or changed: invalid_topic, invalid_key, invalid_state,
// invalid_due_from, invalid_due_to, invalid_limit (1 to 1000), invalid_cursor (also one of another query), invalid_step
// (1s at least, 10,000 steps at most), invalid_until, invalid_overdue, invalid_dry_run, invalid_rate (0 to 1,000,000),
// invalid_repair, invalid_since (a time, or a duration ago; never in the future). An empty parameter is one that cannot
// be meant, too: a script whose variable is unset must not restore every topic.
//
// A list comes with the journal's lag, read before the page: what the page may miss is no more than that and what
// happened since. The lag is left out while the store cannot tell it.
//
// A long operation has no time-out. It ends when its client goes away, and with 503 stopping when the instance stops.
// One of a kind runs at a time; a second is answered 409 already_running. The answer is a report as one JSON object,
// or, to a client that accepts application/x-ndjson, lines of {"progress":{...}}, one a second, and a last line
// {"report":{...}} or {"error":"...","detail":"..."}. A failure before the first line is answered with its status. Each
// operation leaves a line in the log: what, from which address, dry or not.
//
// # What changes what waits and what is dead
//
//	PATCH /v1/messages/{id}?key=        {delay | at | shift, priority, body | body_base64 | body_json, headers}
//	POST  /v1/messages/{id}/run?key=    due now
//	POST  /v1/messages/cancel           {topic, key, due_from, due_to, all, dry_run}                        long
//	POST  /v1/messages/reschedule       the same, and one of delay, at and shift                            long
//	GET   /v1/dead?topic=&limit=&cursor=    a page bucket by bucket, by when they died
//	POST  /v1/dead/requeue              {id, key, body | body_base64 | body_json, headers} | {ids}, and delay
//	                                    {topic, from, to, older, all, dry_run}, and delay                   long
//	POST  /v1/dead/purge                {id, key} | {ids} | {topic, from, to, older, all, dry_run}          long
//	                                    where it selects
//	GET   /v1/topics?limit=&cursor=     a page by name, of those that have messages; all that is paused
//	GET   /v1/topics/{topic}
//	POST  /v1/topics/{pattern}/pause    POST /v1/topics/{pattern}/resume
//
// PATCH and run change one message that waits, and only while it stands at the version of If-Match, where that is
// given: else 412 version_mismatch. Their answers and those of a look-up carry that version as the ETag. A message that
// is in flight, may have been delivered or has ended is as it was (409).
//
// A selection that selects everything must say so, "all":true; a dry run counts and changes nothing. Refusals of single
// messages are counted, not listed: in_flight, maybe_delivered, ended, failed. An operation on many that fails reports
// beside its problem what it had done until then, as "report". If one dead message is named, the status is its result;
// several have a result each, as in a batch, and a dry run of them is refused.
//
// A topic here may be a pattern of NATS's, but not in GET /v1/topics/{topic}. In a path > is written %3E where a client
// insists. Pausing a paused pattern replaces who paused it and since when. Resuming a pattern that is not paused,
// spelled exactly so, is 404 not_paused. While messages move the counts of a topic are not of one instant, and a topic
// that has no messages left may be listed with zeros.
//
// # Who may call
//
// With a token every route but /livez and /readyz wants one. Without any, where the address is not loopback, the
// settings refuse to start. Of a token tarry keeps the hash; it is held against all that are known, in the same time
// whatever it is. What a token may do are its rights:
//
//	read      GET of messages, lists, history, forecast, dead, topics, cluster, metrics: of all topics
//	push      POST of messages and batches, by patterns of topics; and DELETE, PATCH and run of single messages that
//	          wait for such a topic
//	operate   cancel and reschedule of many, requeue, purge, pause, resume, restore, verify, redeliver, resign;
//	          DELETE, PATCH and run of any message; and read
//
// What a right is missing for is 403 forbidden, in a batch for that item, and changes nothing. A caller whose rights
// depend on the topic acts on the uid that was judged, not on the name; a cancel of a name that means nothing leaves no
// tombstone, and a push that would merge into another topic's message is forbidden: names are shared by all topics. Its
// look-up and its change are two steps, so that a merge into a name that just then changes hands is judged by what was.
//
// Each request to a route that needs operate leaves one line in the log, "operator action": who, from where, what, how
// it went. Bodies and tokens are never logged.
//
// A browser on this machine can be made to post to loopback by any page it shows: requests that a browser
// marks as coming from another origin are refused, with or without a token.
package api
