package tarry

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// Retried says what became of a message that was sent back.
type Retried struct {
	Receipt
	// Attempt is the number that the next delivery carries.
	Attempt int
	// Delay is how long it waits by the schedule that it carries, jitter aside. Over reports that the schedule has come
	// to its end: tarry ends the message as dead, with the reason, and it can be requeued. A message that carries no
	// schedule goes by its topic's, of which nothing is known here: then Delay is 0 and Over false.
	Delay time.Duration
	Over  bool
}

// RetryLater gives a message back that the consumer could not handle, with the reason. Tarry delivers it again on the
// subject on which it was read when its schedule of retries (Tarry-Retry, else the topic's) says, under the same name
// and with the next Tarry-Attempt; after the last entry it ends the message as dead. A nil error means stored, and then
// the consumer acknowledges the one it has:
//
//	if err := handle(msg); err != nil {
//		if _, err := conn.RetryLater(ctx, msg, err.Error()); err != nil {
//			return // not acknowledged: JetStream delivers it again
//		}
//	}
//	msg.Ack()
//
// It takes every message of the subject, whether tarry delivered it or a producer published it without a tag. The
// latter is attempt 1 and its retry attempt 2; its name is made of the stream, the sequence and the time at which the
// stream stored it, and [Retried].ID has it.
//
// It is safe to repeat: for one delivery one retry is stored, whoever asks, and however often ([Receipt].Duplicate says
// so). Consumers that share a subject without sharing the work give the same message back and get it once. A message of
// core NATS that tarry did not deliver has nothing to recognize it by: there each call stores a message of its own, and
// is repeated safely only within the call.
//
// The reason, cut to 255 bytes, comes with the retry as Tarry-Reason. Priority and TTL are not on a delivered message,
// so the retry has none. The copy of a dead or expired message is refused with [ErrCopy]; [Client.Requeue] gives a dead
// message another life.
func (c *Client) RetryLater(ctx context.Context, msg *nats.Msg, reason string) (Retried, error) {
	if msg == nil {
		return Retried{}, nats.ErrInvalidMsg
	}
	return c.sendBack(ctx, taken(msg), reason)
}

// RetryMsgLater is RetryLater for a message of the jetstream package.
func (c *Client) RetryMsgLater(ctx context.Context, msg jetstream.Msg, reason string) (Retried, error) {
	if msg == nil {
		return Retried{}, nats.ErrInvalidMsg
	}
	return c.sendBack(ctx, takenByJetStream(msg), reason)
}

func (c *Client) sendBack(ctx context.Context, d *delivery, reason string) (Retried, error) {
	if d.isCopy() {
		return Retried{}, fmt.Errorf("%w: %s has a copy of a message for %s; requeue that one",
			ErrCopy, strconv.QuoteToASCII(d.subject), strconv.QuoteToASCII(find(d.header, HeaderSubject)))
	}
	again, r := d.again(), Retried{Attempt: d.attempt + 1}
	if reason = wire.CleanReason(reason); reason != "" {
		set(again, HeaderReason, reason)
	}
	// On the intake subject it keeps its Nats-Msg-Id, which names this retry of this delivery and no other.
	again.Subject = wire.IntakeSubject(c.prefix, again.Subject)
	set(again, nats.MsgIdHdr, "retry-"+d.once+"-"+strconv.Itoa(r.Attempt))
	out, err := c.rewrite(again, nil)
	if err != nil {
		return Retried{}, err
	}
	if schedule := out.push.Retry.Delays; len(schedule) > 0 {
		if n := r.Attempt - 2; n < len(schedule) {
			r.Delay = schedule[n]
		} else {
			r.Over = true
		}
	}
	if r.Receipt, err = c.push(ctx, c.js, out); err != nil {
		return Retried{}, err
	}
	return r, nil
}
