package tarry

import (
	"context"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Pusher is a *Conn, a *JetStream, a *JetStreamContext or a *Client.
type Pusher interface {
	Push(ctx context.Context, msg *nats.Msg) (Receipt, error)
}

// RetryLater has a consumer see a message again after a delay of its own choice; [Client.RetryLater] goes by the
// schedule of the message and ends it after the last entry. It pushes the message, on the same subject, under the same
// name and with the next Tarry-Attempt. A nil error means stored, and then the consumer acknowledges the one it has:
//
//	if err := handle(msg); err != nil {
//		err = tarry.RetryLater(ctx, conn, msg, time.Minute)
//		...
//	}
//
// How often to retry is the consumer's to say, see [Attempt]. As for [Client.RetryLater], calling it twice for one
// delivery stores one retry, except for a message of core NATS that tarry did not deliver. Priority and TTL are not on
// a delivered message, so the retry has none.
func RetryLater(ctx context.Context, via Pusher, msg *nats.Msg, delay time.Duration) error {
	if msg == nil {
		return nats.ErrInvalidMsg
	}
	return taken(msg).retry(ctx, via, delay)
}

// RetryMsgLater is RetryLater for a message of the jetstream package.
func RetryMsgLater(ctx context.Context, via Pusher, msg jetstream.Msg, delay time.Duration) error {
	if msg == nil {
		return nats.ErrInvalidMsg
	}
	return takenByJetStream(msg).retry(ctx, via, delay)
}

// Attempt reads from a message's header which delivery this is, from 1 up.
func Attempt(h nats.Header) int {
	if n, err := strconv.Atoi(find(h, HeaderAttempt)); err == nil && n > 0 {
		return n
	}
	return 1
}

func (d *delivery) retry(ctx context.Context, via Pusher, delay time.Duration) error {
	_, err := via.Push(ctx, Delay(d.again(), delay))
	return err
}
