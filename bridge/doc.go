// Package bridge is tarry's side of NATS: the connection, the Publisher that
// puts due messages on their subjects, the Intake that takes tagged messages
// in, the request API, the nudge between instances and NATS's clock.
//
// # A publish
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
// Every message given to Send gets exactly one of these, once, within the
// publish time-out; the table in pending.go is the only place that knows which
// are open, and taking a message out of it is the right to answer for it.
//
// NotSent, Unanswered, NoListener and Refused are certain: nothing was stored.
// Where a stream holds the subject it alone is the destination: who listens
// beside it may have heard what it refused. Unknown is the only doubt, and it is
// answered by publishing again under the same Nats-Msg-Id, which a stream within
// its duplicate window does not store twice.
//
// # Routes
//
// Whether a stream holds a subject is never found out by trying: a publish to
// a subject that has only a core subscriber would be delivered and then time
// out. The subject filters of all streams are listed, kept, and matched here;
// a hundred thousand different subjects cost no look-up and leave nothing
// behind. The list is read again every few seconds, when the server announces a
// change of streams, and after any answer that contradicts it.
//
// A server that does not answer the list keeps the routes as they were: a
// stream that is away is an outage to wait for, not a reason to fall back to
// core. Only several readings in a row that find nobody to ask while nothing is
// known, or the server's word that JetStream is off, mean core for everything.
// A stream that is not in the list any more is gone once the server says so of
// its name: pages are cut by number, and one that is deleted meanwhile makes the
// next page pass over another.
//
// The list does not have all: an account may map a subject to another one, and
// a subject may lead to a stream in another domain or account. Such a stream
// answers as any other. hidden.go says what its answers teach.
//
// An answer of another stream than the list names counts for nothing while that
// one may still answer: whoever listens on a subject sees where to answer, and
// could pose as a stream. On core only its own messages are concerned. Tokens
// hold a random part, so nobody can answer for a message that he has not heard.
//
// # One by one, not as a fast batch
//
// nats-server 2.14 and later can acknowledge many messages with one answer ("fast
// batch", allow_batched). It is not used, for three reasons. It is hardly faster,
// since the server's own work stays the same: on nats-server 2.15.2, with tarry's
// headers and a consumer that receives all, 74,000 messages a second against 64,000
// to 70,000 of single asynchronous publishes. The answer lacks each message's
// sequence, which the journal must keep. And the owner of every stream would have
// to switch it on.
//
// # Core
//
// A core publish carries a reply subject of ours, and behind each batch goes a
// barrier: an empty message to ourselves on the same connection. The server
// works in order, so "no responders" for any message of the batch arrives
// before the barrier does. When a barrier is back, every message still open had
// a listener. Where the subject is new, a tenth of a second more shows whether
// that was a stream. Consumers' answers on the reply subject are ignored, unless
// they read as a stream's answer. The server reports a permission violation in
// order too, but nats.go passes it on by another goroutine: see barrier.go.
//
// # Who may call
//
// Publisher.Send is the leader's, from any number of goroutines, while Run
// runs. Everything else is every instance's. One *nats.Conn may serve all
// parts; a second one for the Publisher shares less.
//
// # Namespaces
//
// Two namespaces share a server by different prefixes: the intake streams of
// overlapping ones cannot both exist, and the second is refused by name. They
// may deliver into one stream; since both can give out the same uid, the
// Nats-Msg-Id outside of the default namespace is the uid, "@" and the
// namespace.
//
// # Permissions
//
// The user of an instance publishes to the topics, the calls of $JS.API that
// deploy/README.md lists, $JS.ACK.<intake>.>, tarry.<namespace>.> and _INBOX.>, and subscribes to _INBOX.>,
// tarry.<namespace>.>, $SRV.> and $JS.EVENT.ADVISORY.STREAM.>; without the last
// one new streams are noticed some seconds later.
//
// $SRV.> is what `nats micro` asks of every service. It is answered as all requests
// are: to inboxes alone, and only what a client published there itself, so that the
// right to ask it is no right to publish where an instance may. A client with an inbox
// prefix of its own is not answered.
//
// # What fails
//
// NATS away: Send answers NotSent at once (the client keeps no reconnect
// buffer), what was pending becomes Unknown, Ready is false. JetStream away:
// 503 and time-outs, per stream. NATS back with an older stream than the intake's
// consumer: the consumer is made anew (intakewatch.go). Permissions missing: said once in the log
// with the subject that is needed.
package bridge
