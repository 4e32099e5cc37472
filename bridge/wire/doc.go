// Package wire defines the form of a tagged message on NATS and the rules for refusing one. It opens no connection,
// reads no clock and imports only the standard library. The intake, the HTTP and request APIs and the command line all
// use it, so a push means the same through every API.
//
// A push by tag is an ordinary NATS message on the intake subject:
//
//	subject  delayed.orders.created       prefix + "." + the topic it is due on
//	headers  Tarry-Delay: 20m             or Tarry-At; exactly one of the two (a consumer's retry may have neither)
//	         Tarry-Id: order-7131         further tags, all optional
//	         traceparent: 00-4bf9...      user headers, kept as they are
//
// The message that tarry delivers when it is due is
//
//	subject  orders.created
//	headers  traceparent: 00-4bf9...      the user headers
//	         Tarry-Id, Tarry-Due, Tarry-Attempt, Nats-Msg-Id: <uid>
//	         Tarry-Key, Tarry-Retry       when set
//	         Tarry-Subject                the topic, if the message leaves on another subject (a partition's)
//
// # Rules
//
// Tag names match without case; their values are trimmed of surrounding blanks. A push with an unknown, repeated or
// unreadable tag is refused as a whole: a typing error must not make a message leave at once, or never. Only tarry
// writes Tarry-Due and Tarry-Subject. On a push they are dropped, so that a delivered or rejected message can be pushed
// again unchanged. Tarry-Reason is dropped too, except on a consumer's retry (Tarry-Attempt of 2 or more), where it is
// kept and delivered; a reason that is too long is truncated, never refused. Nats-Msg-Id is dropped as well: on the
// intake it belongs to the publishing client and names that one publish, not the message. Every other Nats-* header is
// refused: carried over to the target it would roll up, expire or condition the target's stream. Status is refused
// beside an empty body, because client libraries mistake that message for a status message from the server.
//
// Every refusal is an [*Error]: a stable word for programs, the field, and a sentence with the limit. It never repeats
// a body, and quotes a value only in part.
//
// # Times
//
// Due times have millisecond precision. Finer values are rounded up, because a message may be late by a fraction of a
// millisecond but never early. The limit of ten years needs a clock, so it is a step of its own: [CheckDue].
//
// # Retries
//
// A consumer's retry is a push with the Tarry-Id of the message and the next Tarry-Attempt. It has a delay or a time,
// or neither; with neither it waits according to its schedule, see [Retry].
//
// # The rules in bridge/tarry
//
// The producer library is a module of its own and may not import this one, so go generate in bridge/tarry/internal/wire
// writes the files that it needs from those here. A test in that package compares them; testdata/vectors.json pins the
// behaviour on both sides.
package wire
