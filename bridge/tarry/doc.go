// Package tarry lets a NATS producer delay a message by a header. It wraps the connection the producer already has:
//
//	nc, err := nats.Connect(url)
//	conn, err := tarry.Wrap(nc)                    // the one new line
//
//	msg := nats.NewMsg("orders.created")
//	msg.Header.Set("Tarry-Delay", "20m")           // or tarry.Delay(msg, 20*time.Minute)
//	err = conn.PublishMsg(msg)                     // nil: stored; due on orders.created in 20 minutes
//
// A [Conn] is a *nats.Conn in all else, and a [JetStream] (from [WrapJetStream]) is a jetstream.JetStream in all else.
// Consumers change nothing: they read orders.created as ever and need not import this package. Those that do can send back
// what they could not handle, see below.
//
// # What happens to a call
//
//	no tag ──────────────────────────────────▶ nats.go, unchanged: same results, same errors
//	tag ──▶ checked ──▶ rewritten to delayed.orders.created
//	                    ├─ the intake stream exists ──▶ published to it, the PubAck awaited (or its future returned)
//	                    └─ it does not              ──▶ a request to tarry.<namespace>.api.push, the answer awaited
//
// A message is tagged when it has a Tarry-Delay or Tarry-At header, in any case, or ADR-51's Nats-Schedule with "@at" and
// Nats-Schedule-Target. Which of the two ways it takes is looked up once and remembered, never tried out: publishing to a
// subject without a stream can deliver a message and report an error. The caller's message is not changed.
//
// A nil error means stored. Through the intake stream this holds while every tarry instance is down; what tarry then
// refuses (an id that is taken, say) goes to its stream of rejects. That is why every rule that needs no server is checked
// here first, and told as an [*Error].
//
// # Identity and retries
//
// Nats-Msg-Id of a tagged message becomes Tarry-Id, the name by which it is canceled, looked up and told from others. What
// goes out has a fresh Nats-Msg-Id for every call: this call's own retries after a lost PubAck are stored once, and a later
// call with new content is never mistaken for an old one. Where the time runs out before an answer comes the error is
// [ErrOutcomeUnknown]: the message may be stored or not, and publishing it again is safe if it has a Tarry-Id.
//
// # What a tag excludes
//
// A request (RequestMsg with a tag) would wait for an answer that comes after the delay; it is refused. So are a reply
// subject, and every Nats-* header that tells a stream what to do with a message: Nats-Expected-*, Nats-TTL, Nats-Rollup,
// and schedules other than "@at". A second message under the same ADR-51 schedule subject does not replace the first, as it
// does in NATS; give both the same Tarry-Id and the second is refused, or with Tarry-On-Duplicate: replace takes its place.
//
// # Consumers
//
// [Client.RetryLater] gives a message back that could not be handled:
//
//	if err := handle(msg); err != nil {
//		if _, err := conn.RetryLater(ctx, msg, err.Error()); err != nil {
//			return                                 // not acknowledged: JetStream delivers it again
//		}
//	}
//	msg.Ack()
//
// It comes again when its schedule says (Tarry-Retry of the producer, else the setting retry of its topic), with the next
// Tarry-Attempt and the reason as Tarry-Reason; after the last entry it ends as dead, where it can be looked at, requeued
// ([Client.Requeue]) and, if the topic's settings say so, read from a subject of its own. It waits outside the consumer, which
// a NakWithDelay does not: that counts against MaxAckPending, and is forgotten with the consumer.
//
// With the topic setting partitions: N a message due on orders.created leaves on orders.created.<n>, where n is the CRC-32
// (IEEE) of its Tarry-Key, else of its Tarry-Id, modulo N. One JetStream consumer for each n with MaxAckPending: 1 handles the
// messages of one key one after the other and in order, and those of other partitions side by side; see the example of
// partitions. Tarry-Subject tells the topic, and a retry goes there. (It comes after what was due in the meantime.)
//
// # Steering
//
// [Client.Get], [Client.Cancel], [Client.Reschedule] and [Client.Run] are about one message, by its id or uid;
// [Client.CancelMany] and [Client.RescheduleMany] about all that wait and match. Each answers what really happened, and needs
// a running instance.
//
// # Rights
//
// Publishing by tag needs the right to publish to delayed.<subject>, and to $JS.API.STREAM.NAMES for the look-up
// ([ByStream] and [ByRequest] save it). Requests to tarry.<namespace>.api.* can name any subject, so give that right with
// care.
package tarry
