package link

import (
	"hash/crc32"
	"strconv"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// partition returns the subject of a topic's n-th partition.
func partition(topic string, n int) string { return topic + "." + strconv.Itoa(n) }

// PartitionOf returns the subject on which a message of a partitioned topic leaves. The key determines the partition,
// or else the name, or else the uid, so messages with the same key or name stay in order. Consumers can compute the
// partition too: it is the CRC-32 (IEEE) of that text modulo the number of partitions.
func PartitionOf(m *message.Message, partitions int) string {
	by := m.Key
	if by == "" {
		by = m.ID
	}
	if by == "" {
		by = string(m.UID)
	}
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
