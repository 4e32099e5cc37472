package tarry

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Pusher is a *Conn, a *JetStream, a *JetStreamContext or a *Client.
type Pusher interface {
	Push(ctx context.Context, msg *nats.Msg) (Receipt, error)
}

// RetryLater has a consumer see a message again after a delay of its own choice; [Client.RetryLater] goes by the schedule of
// the message and ends it after the last entry. It pushes the message, on the same subject, under the same
// Tarry-Id and with the next Tarry-Attempt. A nil error means stored, and then the consumer acknowledges the one it has:
//
//	if err := handle(msg); err != nil {
//		err = tarry.RetryLater(ctx, conn, msg, time.Minute)
//		...
//	}
//
// Calling it twice for one delivery stores one retry. How often to retry is the consumer's to say, see [Attempt]. A message
// that never went through tarry works too: its Nats-Msg-Id becomes the id, else its place in the stream; one from core NATS
// without either gets a new id, and there a second call is a second retry. Priority and TTL are not on a delivered message,
// so the retry has none.
func RetryLater(ctx context.Context, via Pusher, msg *nats.Msg, delay time.Duration) error {
	if msg == nil {
		return nats.ErrInvalidMsg
	}
	place := ""
	if meta, err := msg.Metadata(); err == nil {
		place = placeOf(meta.Stream, meta.Sequence.Stream)
	}
	return retry(ctx, via, msg.Subject, msg.Header, msg.Data, place, delay)
}

// RetryMsgLater is RetryLater for a message of the jetstream package.
func RetryMsgLater(ctx context.Context, via Pusher, msg jetstream.Msg, delay time.Duration) error {
	if msg == nil {
		return nats.ErrInvalidMsg
	}
	place := ""
	if meta, err := msg.Metadata(); err == nil {
		place = placeOf(meta.Stream, meta.Sequence.Stream)
	}
	return retry(ctx, via, msg.Subject(), msg.Headers(), msg.Data(), place, delay)
}

// Attempt reads from a message's header which delivery this is, from 1 up.
func Attempt(h nats.Header) int {
	if n, err := strconv.Atoi(find(h, HeaderAttempt)); err == nil && n > 0 {
		return n
	}
	return 1
}

// ours carries on what tarry wrote on a message and a retry of it keeps.
func ours(again *nats.Msg, h nats.Header) {
	for _, name := range [...]string{HeaderKey, HeaderRetry} {
		if v := find(h, name); v != "" {
			set(again, name, v)
		}
	}
	if topic := find(h, HeaderSubject); isPartition(again.Subject, topic) {
		again.Subject = topic
	}
}

// isPartition tells whether the subject is a partition of the topic. A header alone is not believed: whoever may publish to
// the consumer could have it send messages anywhere.
func isPartition(subject, topic string) bool {
	n, ok := strings.CutPrefix(subject, topic+".")
	if !ok || topic == "" {
		return false
	}
	_, err := strconv.ParseUint(n, 10, 32)
	return err == nil
}

func placeOf(stream string, sequence uint64) string {
	return stream + ":" + strconv.FormatUint(sequence, 10)
}

func retry(ctx context.Context, via Pusher, subject string, h nats.Header, data []byte, place string, delay time.Duration) error {
	again := &nats.Msg{Subject: subject, Header: make(nats.Header, len(h)+2), Data: data}
	for name, values := range h {
		if !reserved(name) {
			again.Header[name] = values
		}
	}
	id := find(h, HeaderID)
	for _, next := range []string{find(h, nats.MsgIdHdr), place} {
		if id == "" {
			id = next
		}
	}
	if id == "" {
		id = fresh()
	}
	ours(again, h)
	set(ID(again, id), HeaderAttempt, strconv.Itoa(Attempt(h)+1))
	_, err := via.Push(ctx, Delay(again, delay))
	return err
}

// reserved headers are tarry's or the server's and are not the user's to carry on.
func reserved(name string) bool {
	for _, prefix := range [...]string{"tarry-", "nats-"} {
		if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			return true
		}
	}
	return false
}
