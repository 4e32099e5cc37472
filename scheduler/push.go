package scheduler

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Push is what a producer asks for, checked by the door it came through.
type Push struct {
	// UID is set for a push from the intake stream, and for the retry of an unknown outcome (an id in the form of a uid
	// means exactly that uid).
	UID message.UID
	// ID and Key are the user's names, empty when not given.
	ID, Key  string
	Topic    string
	Headers  []message.Header
	Body     []byte
	Priority uint8
	TTL      time.Duration
	// Attempt is 0 for a first push, or the number a consumer's retry carries.
	Attempt uint32
	Retry   message.Retry
	// Merge says what to do when its name is taken; MaxWait bounds MergeDebounce, 0 for no bound.
	Merge   message.Merge
	MaxWait time.Duration

	// One of the two: At, or a Delay that counts from Age ago; or neither and ByRetry, for a consumer's retry that
	// waits as its schedule says.
	ByRetry bool
	At      message.Milli
	HasAt   bool
	Delay   time.Duration
	// Age is how long ago the intake stored the push, by the intake's own clock.
	Age time.Duration
	// Stored is the intake stream's sequence, 0 for other doors.
	Stored uint64

	// Options are the options as they were sent, in a fixed order; part of the digest.
	Options string
}

// Accepted answers a push.
type Accepted struct {
	UID     message.UID
	ID      string // the client id, else the uid
	Due     message.Milli
	State   message.State
	Version uint64
	// Duplicate: the same push had been accepted before; the fields are the first one's.
	Duplicate bool
	// Merged: the push went into a message that waited; the fields are that one's.
	Merged bool
	// Unjudged: it was kept although the journal, which remembers names, did not answer.
	Unjudged bool
	// Err is nil when the push is kept (P1). ErrDuplicateID comes with the message that has the id in UID, Due and
	// State.
	Err error
}

// digest hashes topic, body, user headers (but for a consumer's reason) and options as sent. It hashes the number of
// headers first, and before every part its length, so that no two different pushes read the same.
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
	// A consumer that sends a message back twice may word its reason differently.
	kept := 0
	for i := range p.Headers {
		if p.Headers[i].Name != reasonHeader {
			kept++
		}
	}
	part(p.Topic)
	part(p.Options)
	number(kept)
	for i := range p.Headers {
		if p.Headers[i].Name != reasonHeader {
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

// message is the push as a message, due by the given now.
func (p *Push) message(now time.Time) *message.Message {
	due := p.At
	if !p.HasAt {
		due = message.CeilMilli(now.Add(p.Delay - p.Age))
	}
	if p.Merge == message.MergeDebounce && p.MaxWait > 0 { // whatever it meets
		due = min(due, message.CeilMilli(now.Add(p.MaxWait-p.Age)))
	}
	m := &message.Message{
		UID: p.UID, ID: p.ID, Key: p.Key, Topic: p.Topic, Headers: p.Headers, Body: p.Body,
		Due: due, Priority: p.Priority, TTL: p.TTL, Attempt: max(p.Attempt, 1), Stored: p.Stored,
		Merge: p.Merge, MaxWait: p.MaxWait, Retry: p.Retry,
	}
	if p.ID != "" {
		m.Digest = p.digest()
	}
	return m
}
