// Package publish puts due messages on their NATS subjects and learns what became of each.
//
//	           Send                    the client has the bytes
//	NotSent ◀──────── message ────────────────▶ pending
//	                                             │
//	  Delivered   PubAck, duplicate or not  ◀────┤  stream
//	  Unanswered  error for now, 503        ◀────┤  stream
//	  Delivered   the barrier came back,    ◀────┤  core
//	              and no stream answers
//	  NoListener  503 came before it        ◀────┤  core
//	  Refused     size, permission, subject ◀────┤
//	  Unknown     time-out, connection lost ◀────┘
//
// Every message passed to Send gets exactly one of these outcomes, once, within the publish time-out. Only the table in
// pending.go records which messages are open, and whichever goroutine takes a message out of it decides its outcome.
//
// NotSent, Unanswered, NoListener and Refused are certain: nothing was stored. If a stream holds the subject, only the
// stream is the destination: other subscribers may have received a message that the stream refused. Unknown is the only
// uncertain outcome. It is resolved by publishing again with the same Nats-Msg-Id, which a stream does not store twice
// within its duplicate window.
//
// # Routes
//
// The Publisher never tries out whether a stream holds a subject: a publish to a subject that has only a core
// subscriber would be delivered and then time out. Instead it lists the subject filters of all streams, keeps them and
// matches them itself; a hundred thousand different subjects cost no look-up and no memory. It reads the list again
// every few seconds, when the server announces a change of streams, and after any answer that contradicts the list.
//
// If the server does not answer the list request, the routes stay unchanged: an unreachable stream is an outage to wait
// for, not a reason to fall back to core. All subjects count as core only after several readings in a row without
// JetStream: the server must report that JetStream is off or, while no stream is known, that there is no responder. A
// stream that disappears from the list counts as gone once the server, asked for it by name, does not find it: the
// server pages the list by offset, so the page after a deletion skips another stream.
//
// The list is incomplete: an account may map a subject to another one, and a subject may lead to a stream in another
// domain or account. That stream answers like any other. hidden.go explains what the Publisher learns from its answers.
//
// An answer from another stream than the listed one is ignored while the listed one may still answer: every subscriber
// of a subject sees the reply subject and could pose as a stream. On core the answer of any stream is accepted: a
// subscriber can forge it only for messages that it receives anyway. Tokens have a random part, so no client can answer
// for a message that it has not received.
//
// # One by one, not as a fast batch
//
// nats-server 2.14 and later can acknowledge many messages with one answer ("fast batch", allow_batched). It is not
// used, for three reasons. It is hardly faster, since the server's own work stays the same: with nats-server 2.15.2,
// with tarry's headers and a consumer that receives all, 74,000 messages a second against 64,000 to 70,000 of single
// asynchronous publishes. The answer lacks each message's sequence, which the journal must keep. The owner of every
// stream would have to enable it.
//
// # Core
//
// A core publish carries one of our reply subjects, and each batch is followed by a barrier: an empty message to
// ourselves on the same connection. The server works in order, so "no responders" for any message of the batch arrives
// before the barrier does. When a barrier has come back, every message that is still open had a listener. If the
// subject is new, waiting a tenth of a second more shows whether the listener was a stream. Consumers' answers on the
// reply subject are ignored unless they have the form of a stream's answer. The server reports a permission violation
// in order too, but nats.go reports it from another goroutine: see barrier.go.
//
// # Who may call
//
// Only the leader calls Publisher.Send, from any number of goroutines, while Run runs. Broker publishes again what a
// stream has lost, on an operator's order, from any instance.
package publish
