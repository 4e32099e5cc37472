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

// With is an option of Message.
type With func(*draft)

type draft struct {
	message message.Message
	bucket  message.Bucket
	direct  bool
	stamped message.Milli
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
	// The hash of an unnamed push is its sequence / 256, which chooses the bucket. The rest orders pushes of the intake.
	if d.stamped == 0 {
		d.stamped = Start.Add(-24*time.Hour + time.Duration(n)*time.Millisecond)
	}
	uid, err := message.IntakeUID(uint64(d.bucket)*256+m.Stored%256, d.stamped.Time(), m.ID, m.Key)
	if err != nil {
		panic(err) // n is out of the range of times
	}
	if d.direct {
		uid = directUID(uid)
	}
	m.UID = uid
	if m.ID != "" && m.Digest == (message.Digest{}) {
		m.Digest = digest(m.Topic, m.Body)
	}
	return m
}

func topicOf(n int) string { return fmt.Sprintf("orders.%d", n) }

func digest(topic string, body []byte) (d message.Digest) {
	h := sha256.New()
	fmt.Fprintf(h, "%q", topic)
	h.Write(body)
	copy(d[:], h.Sum(nil))
	return d
}

// In sets the bucket of a message without a name.
func In(bucket message.Bucket) With { return func(d *draft) { d.bucket = bucket } }

// Named sets the client id.
func Named(id string) With { return func(d *draft) { d.message.ID = id } }

// Called sets the call of its producer.
func Called(call string) With { return func(d *draft) { d.message.Call = call } }

// Keyed sets the business key.
func Keyed(key string) With { return func(d *draft) { d.message.Key = key } }

// DueIn sets the due time, as an offset from Start.
func DueIn(after time.Duration) With {
	return func(d *draft) { d.message.Due = Start.Add(after) }
}

// Priority sets the priority.
func Priority(p uint8) With { return func(d *draft) { d.message.Priority = p } }

// Attempt sets the attempt; a consumer's retry has more than 1.
func Attempt(n uint32) With { return func(d *draft) { d.message.Attempt = n } }

// Stored sets the sequence at which the intake stream stored the message.
func Stored(sequence uint64) With { return func(d *draft) { d.message.Stored = sequence } }

// Comparing sets since when sequences compare, and when the intake stored the message by the accepting instance's
// clock.
func Comparing(since, storedAt message.Milli) With {
	return func(d *draft) { d.message.Since, d.message.StoredAt = since, storedAt }
}

// Stamped sets the time at which the intake stored the message.
func Stamped(at message.Milli) With { return func(d *draft) { d.stamped = at } }

// Content sets the topic and the body, which the digest of a named message stands for.
func Content(text string) With {
	return func(d *draft) { d.message.Topic, d.message.Body = "content", []byte(text) }
}

// On sets the topic.
func On(topic string) With { return func(d *draft) { d.message.Topic = topic } }

// Body sets the body.
func Body(body []byte) With { return func(d *draft) { d.message.Body = body } }

// Headers sets the headers from pairs of name and value.
func Headers(pairs ...string) With {
	return func(d *draft) {
		for i := 0; i+1 < len(pairs); i += 2 {
			d.message.Headers = append(d.message.Headers, message.Header{Name: pairs[i], Value: pairs[i+1]})
		}
	}
}

// Merging sets how the push merges.
func Merging(how message.Merge) With { return func(d *draft) { d.message.Merge = how } }

// MaxWait limits how long debouncing delays the message.
func MaxWait(d time.Duration) With { return func(m *draft) { m.message.MaxWait = d } }

// Direct gives the uid of a push that did not come through the intake, at the same place in the order of acceptance as
// far as time decides it.
func Direct() With { return func(d *draft) { d.direct = true } }

// directUID clears the bit that marks a uid of the intake.
func directUID(uid message.UID) message.UID {
	const alphabet, at = "0123456789abcdefghjkmnpqrstvwxyz", 10
	i := strings.IndexByte(alphabet, uid[at])
	return uid[:at] + message.UID(alphabet[i&^8]) + uid[at+1:]
}

// Retrying sets the schedule of retries.
func Retrying(jitter uint8, delays ...time.Duration) With {
	return func(d *draft) { d.message.Retry = message.Retry{Delays: delays, Jitter: jitter} }
}

// TTL sets the time to live after the due time.
func TTL(d time.Duration) With { return func(m *draft) { m.message.TTL = d } }

// NameBucket returns which of n buckets a name belongs to.
func NameBucket(id, key string, n message.Bucket) message.Bucket {
	if key == "" {
		key = id
	}
	return message.BucketOf(key, n)
}
