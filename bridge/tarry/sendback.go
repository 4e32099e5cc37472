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
	// Delay is how long it waits by the schedule that it carries, jitter aside. Over tells that the schedule has come to its
	// end: tarry ends the message as dead, with the reason, and it can be requeued. A message that carries no schedule goes
	// by its topic's, of which nothing is known here: then Delay is 0 and Over false.
	Delay time.Duration
	Over  bool
}

// RetryLater gives a message back that the consumer could not handle, and says why. Tarry delivers it again on the same
// subject when its schedule of retries (Tarry-Retry, else the topic's) says, under the same Tarry-Id and with the next
// Tarry-Attempt; after the last entry it ends the message as dead. A nil error means stored, and then the consumer
// acknowledges the one it has:
//
//	if err := handle(msg); err != nil {
//		if _, err := conn.RetryLater(ctx, msg, err.Error()); err != nil {
//			return // not acknowledged: JetStream delivers it again
//		}
//	}
//	msg.Ack()
//
// It is safe to repeat: for one delivery one retry is stored, whoever asks, and however often ([Receipt].Duplicate tells).
// Consumers that share a subject without sharing the work give the same message back and get it once. The reason, cut to 255
// bytes, comes with the retry as Tarry-Reason. Priority and TTL are not on a delivered message, so the retry has none.
//
// A message that tarry did not deliver is refused with [ErrNotFromTarry], and so is the copy of a dead one; see the function
// of the same name for the former, and [Client.Requeue] for the latter.
func (c *Client) RetryLater(ctx context.Context, msg *nats.Msg, reason string) (Retried, error) {
	if msg == nil {
		return Retried{}, nats.ErrInvalidMsg
	}
	return c.sendBack(ctx, msg.Subject, msg.Header, msg.Data, reason)
}

// RetryMsgLater is RetryLater for a message of the jetstream package.
func (c *Client) RetryMsgLater(ctx context.Context, msg jetstream.Msg, reason string) (Retried, error) {
	if msg == nil {
		return Retried{}, nats.ErrInvalidMsg
	}
	return c.sendBack(ctx, msg.Subject(), msg.Headers(), msg.Data(), reason)
}

func (c *Client) sendBack(ctx context.Context, subject string, h nats.Header, data []byte, reason string) (Retried, error) {
	id, delivery := find(h, HeaderID), find(h, nats.MsgIdHdr)
	if id == "" || delivery == "" || !has(h, HeaderDue) || !has(h, HeaderAttempt) {
		return Retried{}, ErrNotFromTarry
	}
	if topic := find(h, HeaderSubject); topic != "" && !isPartition(subject, topic) {
		return Retried{}, fmt.Errorf("%w on its topic: on %s it is a copy, of a message for %s that ended; requeue that one", ErrNotFromTarry, strconv.QuoteToASCII(subject), strconv.QuoteToASCII(topic))
	}
	again := &nats.Msg{Subject: subject, Header: make(nats.Header, len(h)+2), Data: data}
	for name, values := range h {
		if !reserved(name) {
			again.Header[name] = values
		}
	}
	ours(again, h)
	r := Retried{Attempt: Attempt(h) + 1}
	set(ID(again, id), HeaderAttempt, strconv.Itoa(r.Attempt))
	if reason = wire.CleanReason(reason); reason != "" {
		set(again, HeaderReason, reason)
	}
	// On the intake subject it keeps its Nats-Msg-Id, which names this retry of this delivery and no other: the uid of the
	// delivery is never given to another message.
	again.Subject = wire.IntakeSubject(c.prefix, again.Subject)
	set(again, nats.MsgIdHdr, "retry-"+delivery+"-"+strconv.Itoa(r.Attempt))
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
