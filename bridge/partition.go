package bridge

import (
	"hash/crc32"
	"strconv"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// partition is the subject of a topic's n-th partition.
func partition(topic string, n int) string { return topic + "." + strconv.Itoa(n) }

// partitionOf returns the subject that a message of a divided topic leaves on. It is
// chosen by the key, else by the name, else by the uid, so that what has an order
// keeps it. Consumers can compute the same: CRC-32 (IEEE) modulo the number.
func partitionOf(m *scheduler.Message, partitions int) string {
	by := m.Key
	if by == "" {
		by = m.ID
	}
	if by == "" {
		by = string(m.UID)
	}
	return partition(m.Topic, int(crc32.ChecksumIEEE([]byte(by))%uint32(partitions)))
}

// wholeTopic returns the topic of a consumer's retry that was pushed to the partition
// on which the message was delivered: its name belongs to the topic, which
// Tarry-Subject names. That header is believed only if the retry leaves on that very
// partition again, so that it lets nobody push to any other subject. For every other
// push wholeTopic returns the empty string.
func wholeTopic(topics *scheduler.Topics, p *wire.Push, topic string) string {
	if p.Attempt < 2 || topic == "" {
		return ""
	}
	set := topics.Of(topic)
	if set == nil || set.Partitions == 0 ||
		partitionOf(&scheduler.Message{ID: p.ID, Key: p.Key, Topic: topic}, set.Partitions) != p.Topic {
		return ""
	}
	return topic
}

// topicLook finds the settings of one message after the other; many in a row
// have one topic. Without settings it costs a comparison.
type topicLook struct {
	all   *scheduler.Topics
	topic string
	found *scheduler.Topic
}

// retry returns the schedule that is sent to the consumers of a message of that topic.
func (l *topicLook) retry(m *scheduler.Message) *scheduler.Retry {
	if m.Retry.Empty() && l.found != nil && l.topic == m.Topic {
		return &l.found.Retry
	}
	return &m.Retry
}

// of returns the subject a message leaves on, and whether it is lost where nobody
// listens.
func (l *topicLook) of(m *scheduler.Message) (subject string, drop bool) {
	if l.all == nil {
		return m.Topic, false
	}
	if m.Topic != l.topic {
		l.topic, l.found = m.Topic, l.all.Of(m.Topic)
	}
	switch {
	case l.found == nil:
		return m.Topic, false
	case l.found.Partitions > 0:
		return partitionOf(m, l.found.Partitions), l.found.Drop
	}
	return m.Topic, l.found.Drop
}
