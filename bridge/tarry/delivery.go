package tarry

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// delivery is a message as its consumer has it. The subject is the one on which it was read, also where a stream or an
// account maps subjects or a stream takes from another: that is where the consumer looks for it again.
type delivery struct {
	subject string
	header  nats.Header
	data    []byte

	id      string // the name under which it is tried again
	once    string // no other delivery has it
	attempt int
}

func taken(m *nats.Msg) *delivery {
	place := ""
	if meta, err := m.Metadata(); err == nil {
		place = placeOf(meta.Stream, meta.Sequence.Stream, meta.Timestamp)
	}
	return newDelivery(m.Subject, m.Header, m.Data, place)
}

func takenByJetStream(m jetstream.Msg) *delivery {
	place := ""
	if meta, err := m.Metadata(); err == nil {
		place = placeOf(meta.Stream, meta.Sequence.Stream, meta.Timestamp)
	}
	return newDelivery(m.Subject(), m.Headers(), m.Data(), place)
}

// newDelivery reads name and attempt of a message that tarry delivered. Any other message is at its first attempt, and
// its place is its name. A message of core NATS has no place, so each call makes a name of its own.
func newDelivery(subject string, h nats.Header, data []byte, place string) *delivery {
	d := &delivery{subject: subject, header: h, data: data, attempt: 1}
	if id := find(h, HeaderID); id != "" && has(h, HeaderDue) && has(h, HeaderAttempt) {
		d.id, d.attempt = id, Attempt(h)
		d.once = cmp.Or(find(h, nats.MsgIdHdr), place, fresh())
		return d
	}
	d.id = cmp.Or(place, fresh())
	d.once = d.id
	return d
}

// placeOf names a message by where it is stored. The time is there for a stream that is deleted and made anew, which
// counts from 1 again.
func placeOf(stream string, sequence uint64, at time.Time) string {
	rest := ":" + strconv.FormatUint(sequence, 10) + ":" + strconv.FormatInt(at.UnixNano(), 10)
	if len(stream)+len(rest) > wire.MaxID {
		sum := sha256.Sum256([]byte(stream))
		stream = hex.EncodeToString(sum[:16])
	}
	return stream + rest
}

// isCopy reports whether the message is a copy of one that ended, on a subject that is neither its topic nor one of the
// topic's partitions.
func (d *delivery) isCopy() bool {
	topic := find(d.header, HeaderSubject)
	return topic != "" && !isPartition(d.subject, topic)
}

// again is the message for its next attempt: without what belonged to this delivery alone.
func (d *delivery) again() *nats.Msg {
	m := &nats.Msg{Subject: d.subject, Header: make(nats.Header, len(d.header)+4), Data: d.data}
	maps.Copy(m.Header, d.header)
	maps.DeleteFunc(m.Header, func(name string, _ []string) bool { return reserved(name) })
	for _, name := range [...]string{HeaderKey, HeaderRetry} {
		if v := find(d.header, name); v != "" {
			set(m, name, v)
		}
	}
	if topic := find(d.header, HeaderSubject); isPartition(d.subject, topic) {
		m.Subject = topic
	}
	return set(ID(m, d.id), HeaderAttempt, strconv.Itoa(d.attempt+1))
}

// isPartition reports whether the subject is a partition of the topic. A header alone is not believed: whoever may
// publish to the consumer could have it send messages anywhere.
func isPartition(subject, topic string) bool {
	n, ok := strings.CutPrefix(subject, topic+".")
	if !ok || topic == "" {
		return false
	}
	_, err := strconv.ParseUint(n, 10, 32)
	return err == nil
}

// reserved reports whether a header is tarry's or the server's and not the user's to carry on.
func reserved(name string) bool {
	for _, prefix := range [...]string{"tarry-", "nats-"} {
		if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			return true
		}
	}
	return false
}
