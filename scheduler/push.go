package scheduler

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Push is a producer's request, checked by the API that received it.
type Push struct {
	// UID is set for a push from the intake stream, and for the retry of an unknown outcome (an id in the form of a uid
	// means exactly that uid).
	UID message.UID
	// ID and Key are the user's names, empty if not given.
	ID, Key string
	Topic   string
	Headers []message.Header
	Body    []byte
	TTL     time.Duration
	Retry   message.Retry
	// Attempt is 0 for a first push, or the number that a consumer's retry carries.
	Attempt  uint32
	Priority uint8
	// Deliver says whether consumers pull the message, and Lease for how long one may hold it; 0 is the topic's.
	Deliver Deliver
	// Call identifies the call by which its producer pushes it; see message.Message.
	Call string
	// Merge says what happens if the name is already in use. MaxWait bounds MergeDebounce; 0 is no bound.
	Merge message.Merge
	// Either HasAt is set, and At is the due time, or Delay counts from Age ago, or ByRetry is set for a consumer's
	// retry that waits as its schedule says.
	HasAt, ByRetry bool
	MaxWait, Lease time.Duration
	At             message.Milli
	Delay          time.Duration
	// Age is how long ago the intake stored the push, by the intake's own clock, if Aged says that this is known.
	Age  time.Duration
	Aged bool
	// Stored is the sequence in the intake stream, or 0 for a push that did not come through it.
	Stored uint64
	// Since is the stream's time from which sequences tell the order of its pushes; see message.Message.
	Since message.Milli

	// By is the caller who pushes.
	By string
	// Options are the options as they were sent, in a fixed order. They are part of the digest.
	Options string
}

// Deliver is how a message reaches its consumers.
type Deliver uint8

// The ways to deliver.
const (
	// DeliverTopic: as the topic's settings say.
	DeliverTopic Deliver = iota
	// DeliverMQ: NATS carries it.
	DeliverMQ
	// DeliverPull: consumers pull it.
	DeliverPull
)

// Accepted is the answer to a push.
type Accepted struct {
	UID     message.UID
	ID      string // the client id, else the uid
	Due     message.Milli
	State   message.State
	Version uint64
	// Duplicate: the same push had been accepted before. The fields are those of the first one.
	Duplicate bool
	// Merged: the push was merged into a waiting message. The fields are those of that message.
	Merged bool
	// Unjudged: the push was accepted although the journal, which remembers names, did not answer.
	Unjudged bool
	// Bare: the journal's database refused the content for good, so only the timeline has it.
	Bare bool
	// Err is nil if the push is kept (P1). With ErrDuplicateID, UID, Due and State are those of the message that has
	// the id.
	Err error
}

// aboutSending reports whether a header says something of one sending of a push and nothing of its content: a consumer
// that sends a message back twice may word its reason differently, and each sending may belong to another trace. The
// names are those of OpenTelemetry's propagators: W3C's, B3, Jaeger's and AWS X-Ray's.
func aboutSending(header string) bool {
	switch header {
	case ReasonHeader:
		return true
	case "":
		return false
	}
	switch header[0] | ' ' { // most headers are none of these
	case 't', 'b', 'x', 'u':
	default:
		return false
	}
	switch strings.ToLower(header) {
	case "traceparent", "tracestate", "baggage", "b3", "x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid",
		"x-b3-sampled", "x-b3-flags", "uber-trace-id", "x-amzn-trace-id":
		return true
	}
	return false
}

// digest hashes topic, body, user headers (except those about a sending) and options as sent. It hashes the number of
// headers first and the length of every part before the part, so that two different pushes never hash the same input.
func (p *Push) digest() message.Digest {
	h := sha256.New()
	var n [8]byte
	number := func(v int) {
		binary.BigEndian.PutUint64(n[:], uint64(v))
		h.Write(n[:])
	}
	part := func(s string) {
		number(len(s))
		h.Write([]byte(s))
	}
	kept := 0
	for i := range p.Headers {
		if !aboutSending(p.Headers[i].Name) {
			kept++
		}
	}
	part(p.Topic)
	part(p.Options)
	number(kept)
	for i := range p.Headers {
		if !aboutSending(p.Headers[i].Name) {
			part(p.Headers[i].Name)
			part(p.Headers[i].Value)
		}
	}
	number(len(p.Body))
	h.Write(p.Body)
	var d message.Digest
	copy(d[:], h.Sum(nil))
	return d
}

// Message returns the push as a message, with its due time computed from the given now.
func (p *Push) Message(now time.Time) *message.Message {
	due := p.At
	if !p.HasAt {
		due = message.CeilMilli(now.Add(p.Delay - p.Age))
	}
	if p.Merge == message.MergeDebounce && p.MaxWait > 0 { // whether or not it merges
		due = min(due, message.CeilMilli(now.Add(p.MaxWait-p.Age)))
	}
	m := &message.Message{
		UID: p.UID, ID: p.ID, Key: p.Key, Topic: p.Topic, Headers: p.Headers, Body: p.Body,
		Due: due, Priority: p.Priority, TTL: p.TTL, Attempt: max(p.Attempt, 1), Stored: p.Stored,
		Merge: p.Merge, MaxWait: p.MaxWait, Retry: p.Retry, By: p.By, Call: p.Call,
	}
	if p.Merge != message.MergeReject && p.Stored > 0 {
		m.Since, m.StoredAt = p.Since, message.Milli(now.Add(-p.Age).UnixMilli())
		if !p.Aged { // the uid's time is off by a step of NATS's clock, now by all that it waited
			m.StoredAt = min(m.StoredAt, message.CeilMilli(p.UID.Time()))
		}
	}
	if p.ID != "" {
		m.Digest = p.digest()
	}
	return m
}

// ReasonHeader is the header in which a consumer that sends a message back says why.
const ReasonHeader = "Tarry-Reason"
