package schedulertest

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Start is the time at which tests begin, and when Message's messages are due.
const Start message.Milli = 1_900_000_000_000

// With changes a message under construction.
type With func(*draft)

type draft struct {
	message message.Message
	bucket  int
	door    bool
}

// Message builds the n-th message that is accepted: its uid sorts after those of lower n. Without a name it belongs to
// bucket 0 and has a topic of its own; with one it belongs to its name's bucket, and to the topic "content".
func Message(n int, with ...With) *message.Message {
	d := draft{message: message.Message{
		Topic: topicOf(n), Body: fmt.Appendf(nil, "body %d", n), Due: Start, Attempt: 1,
	}}
	for _, w := range with {
		w(&d)
	}
	m := &d.message
	if m.ID != "" && m.Topic == topicOf(n) {
		m.Topic = "content"
	}
	// The hash of an unnamed push is its sequence / 256: so the bucket is chosen.
	uid, err := message.IntakeUID(uint64(d.bucket)*256,
		Start.Add(-24*time.Hour+time.Duration(n)*time.Millisecond).Time(), m.ID, m.Key)
	if err != nil {
		panic(err) // n is out of the range of times
	}
	if d.door {
		uid = ofADoor(uid)
	}
	m.UID = uid
	if m.ID != "" && m.Digest == (message.Digest{}) {
		m.Digest = digest(m.Topic, string(m.Body))
	}
	return m
}

func topicOf(n int) string { return fmt.Sprintf("orders.%d", n) }

func digest(parts ...string) (d message.Digest) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
	copy(d[:], sum[:])
	return d
}

// In puts a message without a name into a bucket.
func In(bucket int) With { return func(d *draft) { d.bucket = bucket } }

// Named gives a client id.
func Named(id string) With { return func(d *draft) { d.message.ID = id } }

// Keyed gives a business key.
func Keyed(key string) With { return func(d *draft) { d.message.Key = key } }

// DueIn makes it due that long after Start, or before it.
func DueIn(after time.Duration) With {
	return func(d *draft) { d.message.Due = Start.Add(after) }
}

// Priority sets the priority.
func Priority(p uint8) With { return func(d *draft) { d.message.Priority = p } }

// Attempt makes it a consumer's retry.
func Attempt(n uint32) With { return func(d *draft) { d.message.Attempt = n } }

// Stored says at which sequence the intake stream stored it.
func Stored(sequence uint64) With { return func(d *draft) { d.message.Stored = sequence } }

// Content sets the topic and the body, which the digest of a named message stands for.
func Content(text string) With {
	return func(d *draft) { d.message.Topic, d.message.Body = "content", []byte(text) }
}

// On sets the topic.
func On(topic string) With { return func(d *draft) { d.message.Topic = topic } }

// Body sets the body.
func Body(body []byte) With { return func(d *draft) { d.message.Body = body } }

// Headers sets the headers, given as name, value, name, value.
func Headers(pairs ...string) With {
	return func(d *draft) {
		for i := 0; i+1 < len(pairs); i += 2 {
			d.message.Headers = append(d.message.Headers, message.Header{Name: pairs[i], Value: pairs[i+1]})
		}
	}
}

// Merging says how it merges.
func Merging(how message.Merge) With { return func(d *draft) { d.message.Merge = how } }

// MaxWait bounds how long debouncing pushes it off.
func MaxWait(d time.Duration) With { return func(m *draft) { m.message.MaxWait = d } }

// ByADoor gives a uid as other doors than the intake do, at the same place in the order of acceptance as far as time
// decides it.
func ByADoor() With { return func(d *draft) { d.door = true } }

// ofADoor clears the bit of a uid that says it is the intake's: the second of the ninth character.
func ofADoor(uid message.UID) message.UID {
	const alphabet, at = "0123456789abcdefghjkmnpqrstvwxyz", 10
	i := strings.IndexByte(alphabet, uid[at])
	return uid[:at] + message.UID(alphabet[i&^8]) + uid[at+1:]
}

// Retrying gives a schedule of retries.
func Retrying(jitter uint8, delays ...time.Duration) With {
	return func(d *draft) { d.message.Retry = message.Retry{Delays: delays, Jitter: jitter} }
}

// TTL sets the time to live after due.
func TTL(d time.Duration) With { return func(m *draft) { m.message.TTL = d } }

// NameBucket is the bucket, of n, that a name lives in.
func NameBucket(id, key string, n int) int {
	if key == "" {
		key = id
	}
	return int(message.Hash(key)) % n
}
