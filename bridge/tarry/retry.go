package tarry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// Retried is the place of a retry and its next attempt.
type Retried struct {
	Stored
	// Attempt is the number that the next delivery carries.
	Attempt int
	// Delay is how long the retry waits: as requested, else by the schedule that it carries, without jitter. Over
	// reports that this schedule has ended: the message becomes dead, with the reason, and can be requeued. For a
	// message without a schedule, that of its topic applies, which is not known here: then Delay is 0 and Over is
	// false.
	Delay time.Duration
	Over  bool
}

// Retry sends back a message that the consumer could not handle, and tarry delivers it again: on the subject on which
// it was read, at the time given by its schedule of retries (Tarry-Retry, else the topic's), under the same name, with
// the next Tarry-Attempt and the reason, cut to 255 bytes, as Tarry-Reason. After the last entry of the schedule the
// message is dead. A nil error means that the retry is stored, and the consumer then acknowledges its delivery:
//
//	if err := handle(msg); err != nil {
//		if _, err := client.Retry(ctx, msg, err.Error()); err != nil {
//			return // not acknowledged: JetStream delivers it again
//		}
//	}
//	msg.Ack()
//
// Tags change the retry. With [In] or [At] it is delivered at that time regardless of its schedule, and the consumer
// decides how often to retry, see [Attempt]. A delivered message does not carry priority and TTL, so the retry has only
// those of the tags. It keeps its name and its key: [As] and [Key] are refused.
//
// Retry accepts every message of the subject, whether tarry delivered it or a producer published it without a tag. The
// latter is attempt 1 and its retry attempt 2. Its name is composed of the stream, the sequence and the time at which
// the stream stored it, and is returned in [Stored].ID.
//
// Retry may be repeated: for one delivery one retry is stored, however often and by whichever consumer it is called
// ([Stored].Duplicate reports a repetition). Consumers that share a subject without sharing the work send the same
// message back and receive it once. A message of core NATS that tarry did not deliver cannot be recognized: each call
// stores a new message, and only the repetitions within one call are recognized.
//
// The copy of a dead or expired message is refused with [ErrCopy]; [Client.Requeue] requeues a dead message.
func (c *Client) Retry(ctx context.Context, msg jetstream.Msg, reason string, tags ...TagOption) (Retried, error) {
	if msg == nil {
		return Retried{}, nats.ErrInvalidMsg
	}
	place := ""
	if meta, err := msg.Metadata(); err == nil {
		place = placeOf(meta.Stream, meta.Sequence.Stream, meta.Timestamp)
	}
	return c.retry(ctx, newDelivery(msg.Subject(), msg.Headers(), msg.Data(), place), reason, tags)
}

// RetryMsg is [Client.Retry] for a message of core NATS or of nats.go's older JetStream interface.
func (c *Client) RetryMsg(ctx context.Context, msg *nats.Msg, reason string, tags ...TagOption) (Retried, error) {
	if msg == nil {
		return Retried{}, nats.ErrInvalidMsg
	}
	place := ""
	if meta, err := msg.Metadata(); err == nil {
		place = placeOf(meta.Stream, meta.Sequence.Stream, meta.Timestamp)
	}
	return c.retry(ctx, newDelivery(msg.Subject, msg.Header, msg.Data, place), reason, tags)
}

// Attempt returns the number of a delivery, from 1 up, from the message's header.
func Attempt(h nats.Header) int {
	if n, err := strconv.Atoi(find(h, HeaderAttempt)); err == nil && n > 0 {
		return n
	}
	return 1
}

func (c *Client) retry(ctx context.Context, d *delivery, reason string, tags []TagOption) (Retried, error) {
	if d.isCopy() {
		return Retried{}, fmt.Errorf("%w: %s has a copy of a message for %s; requeue that one",
			ErrCopy, strconv.QuoteToASCII(d.subject), strconv.QuoteToASCII(find(d.header, HeaderSubject)))
	}
	again, r := d.again(), Retried{Attempt: d.attempt + 1}
	key := find(again.Header, HeaderKey)
	Tag(again, tags...)
	if has(again.Header, HeaderID) || find(again.Header, HeaderKey) != key {
		return Retried{}, &Error{Word: WordRetry, Field: "tags",
			Detail: "of a retry take neither tarry.As nor tarry.Key: it keeps the name and the key of its message"}
	}
	// A message on an intake subject keeps its Nats-Msg-Id, which identifies this retry of this delivery.
	again.Subject = wire.IntakeSubject(c.prefix, again.Subject)
	set(again.Header, nats.MsgIdHdr, "retry-"+d.once+"-"+strconv.Itoa(r.Attempt))
	set(again.Header, HeaderID, d.id)
	set(again.Header, HeaderAttempt, strconv.Itoa(r.Attempt))
	if reason = wire.CleanReason(reason); reason != "" {
		set(again.Header, HeaderReason, reason)
	}
	out, err := c.rewrite(again)
	if err != nil {
		return Retried{}, err
	}
	schedule := out.push.Retry.Delays
	switch n := r.Attempt - 2; {
	case out.push.HasAt:
		r.Delay = max(0, time.Until(out.push.At))
	case !out.push.ByRetry():
		r.Delay = out.push.Delay
	case n < len(schedule):
		r.Delay = schedule[n]
	default:
		r.Over = len(schedule) > 0
	}
	if r.Stored, err = c.push(ctx, out); err != nil {
		return Retried{}, err
	}
	return r, nil
}

// delivery is a message as its consumer has it. The subject is the one on which it was read, even if a stream or an
// account maps subjects or a stream sources another: the consumer expects the retry on that subject.
type delivery struct {
	subject string
	header  nats.Header
	data    []byte

	id      string // the name under which it is tried again
	once    string // identifies this delivery: no other has it
	attempt int
}

// newDelivery reads name and attempt of a message that tarry delivered. Any other message is at its first attempt, and
// its place is its name. A message of core NATS has no place, so each call generates a new name.
func newDelivery(subject string, h nats.Header, data []byte, place string) *delivery {
	d := &delivery{subject: subject, header: h, data: data, attempt: 1}
	if id := find(h, HeaderID); id != "" && has(h, HeaderDue) && has(h, HeaderAttempt) {
		d.id, d.attempt = id, Attempt(h)
		d.once = cmp.Or(find(h, HeaderOnce), find(h, nats.MsgIdHdr), place, fresh())
		return d
	}
	d.id = cmp.Or(place, fresh())
	d.once = d.id
	return d
}

// placeOf names a message by where it is stored. The name includes the time because a stream that is deleted and
// created again counts from 1 again.
func placeOf(stream string, sequence uint64, at time.Time) string {
	rest := ":" + strconv.FormatUint(sequence, 10) + ":" + strconv.FormatInt(at.UnixNano(), 10)
	if len(stream)+len(rest) > wire.MaxID {
		sum := sha256.Sum256([]byte(stream))
		stream = hex.EncodeToString(sum[:16])
	}
	return stream + rest
}

// isCopy reports whether the message is a copy of one that ended: it carries a topic in Tarry-Subject, and its subject
// is not a partition of that topic.
func (d *delivery) isCopy() bool {
	topic := find(d.header, HeaderSubject)
	return topic != "" && !isPartition(d.subject, topic)
}

// again returns the message without the headers that belong to this delivery only.
func (d *delivery) again() *nats.Msg {
	m := &nats.Msg{Subject: d.subject, Header: make(nats.Header, len(d.header)+4), Data: d.data}
	maps.Copy(m.Header, d.header)
	maps.DeleteFunc(m.Header, func(name string, _ []string) bool { return reserved(name) })
	for _, name := range [...]string{HeaderKey, HeaderRetry} {
		if v := find(d.header, name); v != "" {
			set(m.Header, name, v)
		}
	}
	if topic := find(d.header, HeaderSubject); isPartition(d.subject, topic) {
		m.Subject = topic
	}
	return m
}

// isPartition reports whether the subject is a partition of the topic. The header alone is not trusted: any client that
// may publish to the consumer could make it send messages anywhere.
func isPartition(subject, topic string) bool {
	n, ok := strings.CutPrefix(subject, topic+".")
	if !ok || topic == "" {
		return false
	}
	_, err := strconv.ParseUint(n, 10, 32)
	return err == nil
}

// reserved reports whether a header belongs to tarry or the server and is not carried over.
func reserved(name string) bool {
	for _, prefix := range [...]string{"tarry-", "nats-"} {
		if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			return true
		}
	}
	return false
}
