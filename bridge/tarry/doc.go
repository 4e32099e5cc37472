// Package tarry lets a NATS producer delay a message by a header. It wraps the connection the producer already has:
//
//	nc, err := nats.Connect(url)
//	conn, err := tarry.Wrap(nc)                    // the one new line
//
//	msg := nats.NewMsg("orders.created")
//	msg.Header.Set("Tarry-Delay", "20m")           // or tarry.Tag(msg, tarry.In(20*time.Minute))
//	err = conn.PublishMsg(msg)                     // nil: stored; due on orders.created in 20 minutes
//
// A [Conn] is a *nats.Conn in all else, and a [JetStream] (from [WrapJetStream]) is a jetstream.JetStream in all else.
// Behind each is a [Client], which Tarry returns: it has the calls that nats.go has no method for. A program that wraps
// nothing makes one by [NewClient]. Consumers change nothing: they read orders.created as ever and need not import this
// package. Those that do can have tarry deliver again what they could not handle, see below.
//
// # Words
//
//	Tag        what a producer asks for, as a header: In, At, As, Key, Priority, TTL, OnDuplicate, MaxWait, Retries
//	Attempt    the number of a delivery, from 1 up
//	Retry      the call by which a consumer asks for the next attempt; what it returns is Retried
//	Schedule   the delays of the retries of a message, which the tag Retries sets
//	Stored     what a push returns: the place of the message
//	State      where a message is in its life
//
// # What happens to a call
//
//	no tag ──────────────────────────────────▶ nats.go, unchanged: same results, same errors
//	tag ──▶ checked ──▶ rewritten to delayed.orders.created
//	                    ├─ the intake stream exists ──▶ published to it, the PubAck awaited (or its future returned)
//	                    └─ it does not              ──▶ a request to tarry.<namespace>.api.push, the answer awaited
//
// A message is tagged when it has a Tarry-Delay or Tarry-At header, in any case, or ADR-51's Nats-Schedule with "@at"
// and Nats-Schedule-Target. Which of the two routes it takes is looked up once and remembered, never tried out:
// publishing to a subject without a stream can deliver a message and report an error. The caller's message is not
// changed. A message without a tag is refused if it has a Tarry-* header that tarry does not know, or one that means
// nothing without a due time (Tarry-Id, Tarry-Priority, Tarry-TTL, Tarry-On-Duplicate, Tarry-Max-Wait, Tarry-Deliver):
// a forgotten or misspelt tag must not let it leave at once. Tarry-Key and Tarry-Retry alone are fine: they are for a
// consumer that retries it. What tarry delivered (it has Tarry-Due) can be passed on as it is.
//
// A nil error means stored. Through the intake stream this holds while every tarry instance is down; what tarry then
// refuses (an id that is taken, say) goes to its stream of rejects. That is why every rule that needs no server is
// checked here first, and its refusal is an [*Error].
//
// # Identity
//
// Nats-Msg-Id of a tagged message becomes Tarry-Id, the name by which it is canceled, looked up and recognized. What
// goes out has a fresh Nats-Msg-Id for every call: this call's own repetitions after a lost PubAck are stored once, and
// a later call with new content is never mistaken for an old one. Where the time runs out before an answer comes the
// error is [ErrOutcomeUnknown]: the message may be stored or not, and publishing it again is safe if it has a Tarry-Id.
// A name belongs to its topic and its key, and is remembered for ended.keep (10 minutes unless set otherwise) after its
// message ended, with a journal for names.keep (7 days).
//
// # What a tag excludes
//
// A request (RequestMsg with a tag) would wait for an answer that comes after the delay; it is refused. So are a reply
// subject, and every Nats-* header that asks a stream to do something with a message: Nats-Expected-*, Nats-TTL,
// Nats-Rollup, schedules other than "@at", and Status beside empty data, which NATS clients take for an answer of the
// server. A second message under the same ADR-51 schedule subject does not replace the first, as it does in NATS; give
// both the same Tarry-Id and the second is refused, or with Tarry-On-Duplicate: replace takes its place.
//
// Publish options of nats.go together with a tag are refused as well, before anything is sent: what they ask for cannot
// be read. [As] stands for jetstream.WithMsgID and nats.MsgId, [At] for jetstream.WithScheduleAt; the others have no
// tag. Options alone are no tag: jetstream.WithScheduleAt on a message without one asks NATS itself for a schedule.
//
// # Consumers
//
// [Client.Retry] has tarry deliver a message again that could not be handled:
//
//	if err := handle(msg); err != nil {
//		if _, err := client.Retry(ctx, msg, err.Error()); err != nil {
//			return                                 // not acknowledged: JetStream delivers it again
//		}
//	}
//	msg.Ack()
//
// It comes again when its schedule says (Tarry-Retry of the producer, else the setting retry of its topic), with the
// next Tarry-Attempt and the reason as Tarry-Reason; after the last entry it ends as dead, where it can be looked at,
// requeued ([Client.Requeue]) and, if the topic's settings say so, read from a subject of its own. With the tag [In] it
// comes after that delay instead. It waits outside the consumer, which a NakWithDelay does not: that counts against
// MaxAckPending, and is forgotten with the consumer.
//
// On a subject that producers also publish to without a tag the same call takes every message. One that tarry did not
// deliver is attempt 1; its retry is attempt 2, on the subject where it was read, under a name made of its stream, its
// sequence and the time at which it was stored. A message of core NATS has no such place: each call stores a message of
// its own.
//
// With the topic setting partitions: N a message due on orders.created leaves on orders.created.<n>, where n is the
// CRC-32 (IEEE) of its Tarry-Key, else of its Tarry-Id, modulo N. One JetStream consumer for each n with MaxAckPending:
// 1 handles the messages of one key one after the other and in order, and those of other partitions side by side; see
// the example of partitions. Tarry-Subject is the topic, and a retry goes there. (It comes after what was due in the
// meantime.)
//
// # Steering
//
// [Client.Get], [Client.Cancel], [Client.Reschedule] and [Client.Run] are about one message, by its id or uid;
// [Client.CancelMany] and [Client.RescheduleMany] about all that wait and match. Each returns what really happened, and
// needs a running instance. The first four know a message as soon as its publish has returned: for what stands in the
// intake stream still, they wait a second at most. [Client.PushBatch] stores up to a thousand messages at once.
//
// # Rights
//
// Publishing by tag needs the right to publish to delayed.<subject>, and to $JS.API.STREAM.NAMES for the look-up
// ([WithRoute] saves it). Requests to tarry.<namespace>.api.* can name any subject, so give that right with care.
package tarry
