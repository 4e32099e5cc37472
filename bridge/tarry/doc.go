// Package tarry lets a NATS producer delay a message by a header. It wraps the producer's existing connection:
//
//	nc, err := nats.Connect(url)
//	conn, err := tarry.Wrap(nc)                    // the one new line
//
//	msg := nats.NewMsg("orders.created")
//	msg.Header.Set("Tarry-Delay", "20m")           // or tarry.Tag(msg, tarry.In(20*time.Minute))
//	err = conn.PublishMsg(msg)                     // nil: stored; due on orders.created in 20 minutes
//
// In all other respects a [Conn] behaves like a *nats.Conn, and a [JetStream] (from [WrapJetStream]) like a
// jetstream.JetStream. The Tarry method of each returns its [Client], with the calls for which nats.go has no method. A
// program that wraps nothing creates one with [NewClient]. Consumers need no change: they read orders.created as before
// and need not import this package. A consumer that does can send back messages that it could not handle, see below. A
// consumer without NATS fetches what was pushed for pull with a [Puller], over HTTP.
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
//	tag ──▶ checked ──▶ a request to tarry.<namespace>.push.orders.created, the direct door, the answer awaited
//	                    └─ certainly not written ──▶ published to delayed.orders.created, the intake stream,
//	                                                 the PubAck awaited
//
// Nothing is certainly written where no instance answers, where the server refuses the client the door, and where the
// instance answers that it is stopping, busy or full, or that its store does not answer. After a time-out the client
// repeats the request and never turns to the stream. A PublishMsg that returns a PubAck takes the stream at once, whose
// acknowledgement has a sequence; without a stream it takes the door. [WithRoute] fixes either of them.
//
// A message is tagged if it has a Tarry-Delay or Tarry-At header, in upper or lower case, or the headers Nats-Schedule
// with "@at" and Nats-Schedule-Target of ADR-51. The intake stream is looked up once and remembered. It is never
// found by trying: publishing to a subject without a stream can deliver a message and still return an error. The
// caller's message is not changed. A message without a tag is refused if it has an unknown Tarry-* header, or one that
// means nothing without a due time (Tarry-Id, Tarry-Priority, Tarry-TTL, Tarry-On-Duplicate, Tarry-Max-Wait,
// Tarry-Deliver): a message with a forgotten or misspelled tag must not be delivered at once. Tarry-Key and Tarry-Retry
// are allowed without a tag: they are for a consumer that retries the message. A message that tarry delivered (it has
// Tarry-Due) can be forwarded unchanged.
//
// A nil error means that the message is stored. Through the door tarry itself has stored it, and what it refuses, such
// as a duplicate id, is the error of the call. The intake stream stores a message even while every tarry instance is
// down; if tarry later refuses it, the message is moved to the stream of rejects. [Stored] says which it was. Every
// rule that needs no server is checked here first, and a violation is an [*Error].
//
// # Identity
//
// The Nats-Msg-Id of a tagged message becomes its Tarry-Id, the name by which it is canceled, looked up and recognized.
// Every call sends a new Nats-Msg-Id: the repetitions of one call after a lost PubAck are stored once, and a later call
// with new content is never taken for a repetition. If no answer arrives in time the error is [ErrOutcomeUnknown]: the
// message may or may not be stored, and publishing it again is safe if it has a Tarry-Id. A name belongs to its topic
// and key. After its message has ended it is remembered for ended.keep (10 minutes by default), or with a journal for
// names.keep (7 days by default).
//
// # What a tag excludes
//
// A request (RequestMsg with a tag) is refused, because its answer would arrive after the delay. So are a reply
// subject, every Nats-* header that is an instruction to a stream (Nats-Expected-*, Nats-TTL, Nats-Rollup, schedules
// other than "@at"), and Status with empty data, which NATS clients take for an answer of the server. Unlike in NATS, a
// second message under the same ADR-51 schedule subject does not replace the first. If both have the same Tarry-Id, the
// second is refused, or replaces the first with Tarry-On-Duplicate: replace.
//
// A tag together with publish options of nats.go is refused as well, before anything is sent, because the options
// cannot be read. Use [As] instead of jetstream.WithMsgID and nats.MsgId, and [At] instead of jetstream.WithScheduleAt;
// the other options have no tag. An option alone is not a tag: without a tag, jetstream.WithScheduleAt requests a
// schedule of NATS itself.
//
// # Consumers
//
// [Consume] has messages handled, from a JetStream consumer or pulled over HTTP: it bounds how many are in work,
// extends their leases until each is settled, sends back what failed, and stops without losing any:
//
//	err := tarry.Consume(ctx, tarry.FromJetStream(client, consumer), handle, tarry.Concurrency(20))
//
// A consumer that reads otherwise sends back a message by [Client.Retry], and tarry delivers it again:
//
//	if err := handle(msg); err != nil {
//		if _, err := client.Retry(ctx, msg, err.Error()); err != nil {
//			return                                 // not acknowledged: JetStream delivers it again
//		}
//	}
//	msg.Ack()
//
// The message is delivered again according to its schedule (Tarry-Retry of the producer, else the setting retry of its
// topic), with the next Tarry-Attempt and the reason as Tarry-Reason. After the last entry of the schedule it is dead:
// it can be inspected, requeued ([Client.Requeue]) and, if configured for the topic, read from a separate subject. With
// the tag [In] it is delivered after that delay instead. Unlike after NakWithDelay, the message waits outside the
// consumer: it does not count against MaxAckPending, and it is not lost with the consumer.
//
// On a subject to which producers also publish without a tag, the same call accepts every message. A message that tarry
// did not deliver is attempt 1. Its retry is attempt 2, on the subject where it was read, under a name composed of its
// stream, its sequence and the time at which it was stored. A message of core NATS has no such place: each call stores
// a new message.
//
// With the topic setting partitions: N a message due on orders.created leaves on orders.created.<n>, where n is the
// CRC-32 (IEEE) of its Tarry-Key, else of its Tarry-Id, modulo N. One JetStream consumer for each n with MaxAckPending:
// 1 handles the messages of one key one after the other and in order, and those of other partitions concurrently; see
// the example of partitions. Tarry-Subject is the topic, to which a retry is published. (It is delivered after messages
// that were due in the meantime.)
//
// # Steering
//
// [Client.Get], [Client.Cancel], [Client.Reschedule] and [Client.Run] concern one message, by its id or uid;
// [Client.CancelMany] and [Client.RescheduleMany] concern all waiting messages that match. Each returns what really
// happened, and needs a running instance. The first four find a message as soon as its publish has returned: if it is
// still in the intake stream, they wait up to a second for it. [Client.PushBatch] stores up to a thousand messages at
// once.
//
// # Rights
//
// Publishing by tag needs the permission to publish to tarry.<namespace>.push.<subject>, or to delayed.<subject> and to
// $JS.API.STREAM.NAMES for the look-up ([WithRoute] avoids it), or both. Requests to tarry.<namespace>.api.* can name
// any subject, so grant that permission with care.
package tarry
