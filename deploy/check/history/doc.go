// Package history is what happened to a tarry as its users saw it, and what its promises say about that.
//
// A history is a file of JSON lines, one event a line, in any order:
//
//	{"at":"2030-01-31T08:00:00.000001Z","kind":"push","phase":"invoke","call":1,"message":"m1","body":"a"}
//	{"at":"2030-01-31T08:00:01Z","kind":"push","phase":"ok","call":1,"uid":"u1","due":"2030-01-31T08:20:00Z"}
//	{"at":"2030-01-31T08:20:00.002Z","kind":"deliver","message":"m1","uid":"u1","attempt":1,"body":"a"}
//
// Every time is of the recorder's own clock, by which "early" is judged; an event is recorded right before a call is
// made, and right after its answer or a message came. Fields that are empty are left out.
//
//	at       when it happened, RFC 3339 in UTC
//	kind     push, cancel, reschedule, settle, look, deliver, lease, lead, fault, end
//	phase    of a call: invoke, then ok, fail (certainly without effect) or unknown; of a fault: invoke and ok, its end
//	call     of a call or a fault: the same number in its invoke and its answer
//	by       which caller, consumer or instance
//	message  the recorder's own name of a message, which its body or a header carries
//	dead     of a push: the message that it requeues
//	key      of a push: messages of this key are leased one after the other (a serial topic's)
//	uid      tarry's name of it, as answered or delivered
//	attempt  which try this is, from 1
//	due      of push, reschedule and nack: the time that was asked for (invoke) or answered (ok)
//	ttl      of a push: how long after its due time it may be delivered, if it has one
//	body     the body, or a digest of it; of a reschedule the new one, if it is an edit
//	word     of a deliver by a webhook, "accepted" if its target has answered with success, else "posted";
//	         of a push (ok), "taken" if NATS alone has answered so far;
//	         what a call answered that did not do what was asked for, as an error's code; the state of a look (a call
//	         that changes nothing) and of an end; ack, nack, dead, release or extend of a settle (invoke); what a fault
//	         may cause (invoke): repeats, the loss of leases, or loss of what was answered
//	receipt  of a lease, and of what settles it
//	until    the end of a lease; in the answer of an extend, too
//	term     of a leadership
//
// A delivery to a NATS consumer or a webhook is a deliver; one to a consumer that pulls is a lease. An end says what
// became of a message where anybody can see it, once nothing happens any more: its state, as tarry get names it.
package history
