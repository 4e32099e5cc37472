package link

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Place is a push's place in the intake stream, from which its uid is derived.
type Place struct {
	Sequence uint64
	At       time.Time
}

// UID returns the uid of the push at that place. If NATS's clock was outside the range of a uid (before 2025, on a
// machine that lost its clock), the stored time is mapped into the first year of uids: the same push is still the same
// message, and another push another one.
func (s Place) UID(id, key string) (message.UID, error) {
	at := s.At
	if at.Before(message.Epoch) || at.After(message.Epoch.AddDate(uidYears, 0, 0)) {
		const year = 365 * 24 * 60 * 60 * 1000
		at = message.Epoch.Add(time.Duration((s.At.UnixMilli()%year+year)%year) * time.Millisecond)
	}
	return message.IntakeUID(s.Sequence, at, id, key)
}

// uidYears is how long uids last, rounded down.
const uidYears = 69

// ParsePlace reads the reply subject of a consumer's message:
//
//	$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>
//	$JS.ACK.<domain>.<account>.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>.<…>
//
// Only the place is read, to keep the cost per push low.
func ParsePlace(reply string) (s Place, ok bool) {
	rest, ok := strings.CutPrefix(reply, "$JS.ACK.")
	if !ok {
		return Place{}, false
	}
	skip := 3 // stream, consumer, delivered
	switch n := strings.Count(rest, "."); {
	case n == 6:
	case n >= 8:
		skip += 2
	default:
		return Place{}, false
	}
	for range skip {
		_, rest, _ = strings.Cut(rest, ".")
	}
	text, rest, _ := strings.Cut(rest, ".")
	sequence, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return Place{}, false
	}
	_, rest, _ = strings.Cut(rest, ".")
	text, _, _ = strings.Cut(rest, ".")
	nanos, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return Place{}, false
	}
	return Place{Sequence: sequence, At: time.Unix(0, nanos)}, true
}

// PlaceOfID reads the push's place in the intake from the id of its reject.
func PlaceOfID(id string) (Place, bool) {
	parts := strings.Split(id, "-")
	n := len(parts)
	if n < 3 {
		return Place{}, false
	}
	sequence, err := strconv.ParseUint(parts[n-1], 10, 64)
	ns, err2 := strconv.ParseInt(parts[n-2], 10, 64)
	if err != nil || err2 != nil {
		return Place{}, false
	}
	return Place{Sequence: sequence, At: time.Unix(0, ns)}, true
}

// PlaceID returns the id under which a reject is stored. A push that is redelivered, because its acknowledgement was
// lost, makes only one reject.
func PlaceID(stream string, place Place) string {
	return fmt.Sprintf("%s-%d-%d", stream, place.At.UnixNano(), place.Sequence)
}

// RefuseUID refuses a push from the intake that names a uid, itself or as its id.
func RefuseUID(p *wire.Push) error {
	field := wire.HeaderID
	if p.UID != "" {
		field = wire.HeaderUID
	}
	if p.UID == "" && (p.Attempt > 0 || !message.IsUID(p.ID)) {
		return nil
	}
	return &wire.Error{Word: wire.WordID, Field: field,
		Detail: "has the form of a uid; those are given by tarry, " +
			"and a push that was stored in the intake needs none to be repeated safely"}
}

// partition returns the subject of a topic's n-th partition.
func partition(topic string, n int) string { return topic + "." + strconv.Itoa(n) }

// PartitionOf returns the subject on which a message of a partitioned topic leaves. The key determines the partition,
// or else the name, or else the uid, so messages with the same key or name stay in order. Consumers can compute the
// partition too: it is the CRC-32 (IEEE) of that text modulo the number of partitions.
func PartitionOf(m *message.Message, partitions int) string {
	by := cmp.Or(m.Key, m.ID, string(m.UID))
	return partition(m.Topic, int(crc32.ChecksumIEEE([]byte(by))%uint32(partitions)))
}

// WholeTopic returns the topic of a retry that a consumer pushed to the partition on which the message was delivered.
// The header Tarry-Subject names that topic, to which the message's name belongs. The header is trusted only if the
// retry leaves on the same partition again, so nobody can use it to push to another subject. For every other push
// WholeTopic returns the empty string.
func WholeTopic(topics *scheduler.Topics, p *wire.Push, topic string) string {
	if p.Attempt < 2 || topic == "" {
		return ""
	}
	set := topics.Of(topic)
	if set == nil || set.Partitions == 0 ||
		PartitionOf(&message.Message{ID: p.ID, Key: p.Key, Topic: topic}, set.Partitions) != p.Topic {
		return ""
	}
	return topic
}
