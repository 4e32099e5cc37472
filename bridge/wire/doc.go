// Package wire says what a tagged message looks like on NATS and what is refused, and nothing else: it opens no
// connection, reads no clock and imports only the standard library. The intake, the HTTP and request APIs and the
// command line all ask it, so that a push means the same whichever door it came in by.
//
// A push by tag is an ordinary NATS message on the intake subject:
//
//	subject  delayed.orders.created       prefix + "." + the topic it is due on
//	headers  Tarry-Delay: 20m             or Tarry-At; exactly one of the two (a consumer's retry may have neither)
//	         Tarry-Id: order-7131         further tags, all optional
//	         traceparent: 00-4bf9...      user headers, kept as they are
//
// and what leaves tarry when it is due is
//
//	subject  orders.created
//	headers  traceparent: 00-4bf9...      the user headers
//	         Tarry-Id, Tarry-Due, Tarry-Attempt, Nats-Msg-Id: <uid>
//	         Tarry-Key, Tarry-Retry       when set
//	         Tarry-Subject                the topic, where it leaves on another subject (a partition's)
//
// # Rules
//
// Tag names match without case; their values are trimmed of surrounding blanks. A tag that is unknown, repeated or
// unreadable refuses the whole push: a typing error must never turn into a message that leaves at once, or never.
// Tarry-Due and Tarry-Subject are written by tarry alone; on a push they are dropped, so that a delivered or rejected
// message can be pushed again as it is. So is Tarry-Reason, but from a consumer's retry (Tarry-Attempt of 2 or more),
// with which it is kept and delivered; it is cut to what fits, and never refuses one. Nats-Msg-Id is dropped too: on
// the intake it belongs to the publishing client and names that one publish, not the message. Every other Nats-* header
// is refused: carried over to the target it would roll up, expire or condition the target's stream. Status is refused
// beside an empty body: client libraries take such a message for a word of the server's.
//
// Every refusal is an [*Error]: a stable word for machines, the field, and a sentence with the limit. Nothing in it
// repeats a body, and a value only in part.
//
// # Times
//
// Due times have millisecond precision. Whatever is finer rounds up, because a message may be late by a fraction but
// never early. The limit of ten years needs a clock, so it is its own step: [CheckDue].
//
// # Retries
//
// A consumer's retry is a push with the Tarry-Id of the message and the next Tarry-Attempt. It brings a delay or a
// time, or neither: then it waits as its schedule says, see [Retry].
//
// # The copy in bridge/tarry
//
// The producer library is a module of its own and may not import this one, so bridge/tarry/internal/wire holds copies
// of the files it needs. They must be the same to the byte, which a test over there checks; testdata/vectors.json pins
// the behaviour on both sides.
package wire
