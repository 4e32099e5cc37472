// Package api is tarry over HTTP: the routes under /v1, /livez, /readyz and /metrics of one instance. Any instance
// answers; a standby accepts pushes and cancels as well as the leader does.
//
//	request ─▶ observe ─▶ route ─▶ admit ─▶ handler ─▶ Service (the scheduler)
//	           log,       path,    token,   body, query:
//	           metrics,   method   origin   read whole, judged whole,
//	           panics                       before anything is written
//
// A handler writes its success itself and returns everything else as an error; one place turns errors into
// {"error":"stable_word","detail":"..."} with the right status (bridge/answer knows the scheduler's, problem.go those of
// HTTP). So no answer is plain text, not even 404, 405 and 500.
//
// # Memory
//
// A request body is read once, into memory of its own, and the messages share it: that memory is never used again for
// another request, because a push whose outcome is unknown may still wait for the store after the answer. What all bodies
// being read take together is bounded; beyond it a request is told 503 busy. Only bytes that have arrived count, so a
// client that promises much and sends little holds nothing back.
//
// # Who may call
//
// With a token every route but /livez and /readyz wants it. Without one, where the address is not loopback, the settings
// refuse to start. A browser on this machine can be made to post to loopback by any page it shows: requests that a browser
// marks as coming from another origin are refused, with or without a token.
package api
