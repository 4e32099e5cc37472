package request

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// NudgeConfig configures a Nudge.
type NudgeConfig struct {
	Conn      *nats.Conn
	Namespace string
	// Heard is called with every announcement, those of this instance included. It must not block, and must tolerate a
	// bucket that does not exist.
	Heard func(bucket message.Bucket, due message.Milli)
	// HeardTopic is called with every announcement for consumers that pull, those of this instance included. It must not
	// block. The topic is empty if all may have changed.
	HeardTopic func(topic string, due message.Milli)
	Log        zerolog.Logger
}

// Nudge informs the leader, on any instance, that a message due earlier than all others was accepted, and the polls of
// all instances that one of their topic was. It is a hint over core NATS: a lost one delays the leader, or a poll,
// until its next safety look.
type Nudge struct {
	cfg     NudgeConfig
	subject string
	wake    chan struct{} // capacity 1

	mu      sync.Mutex
	waiting map[message.Bucket]message.Milli // the earliest due time by bucket
	topics  map[string]message.Milli         // the same by topic; "" stands for all of them
}

// maxTopics bounds the topics that wait to be announced. Beyond it all polls are told to look.
const maxTopics = 4096

// NewNudge returns a Nudge. Every field of cfg must be set.
func NewNudge(cfg NudgeConfig) *Nudge {
	return &Nudge{cfg: cfg, subject: "tarry." + cfg.Namespace + ".nudge", wake: make(chan struct{}, 1),
		waiting: map[message.Bucket]message.Milli{}, topics: map[string]message.Milli{}}
}

// Announce announces that a bucket's head is now due earlier. It never blocks. Of several waiting announcements of one
// bucket, only the earliest due time is sent.
func (n *Nudge) Announce(bucket message.Bucket, due message.Milli) {
	n.mu.Lock()
	if before, ok := n.waiting[bucket]; !ok || due < before {
		n.waiting[bucket] = due
	}
	n.mu.Unlock()
	scheduler.Signal(n.wake)
}

// AnnounceTopic announces that a message of a topic is now due earlier, or that any may be if the topic is empty. It
// never blocks.
func (n *Nudge) AnnounceTopic(topic string, due message.Milli) {
	n.mu.Lock()
	before, ok := n.topics[topic]
	switch {
	case !ok && len(n.topics) >= maxTopics:
		n.topics = map[string]message.Milli{"": 0}
	case !ok || due < before:
		n.topics[topic] = due
	}
	n.mu.Unlock()
	scheduler.Signal(n.wake)
}

// Run sends and receives announcements until ctx ends.
func (n *Nudge) Run(ctx context.Context) error {
	sub, err := n.cfg.Conn.Subscribe(n.subject, func(msg *nats.Msg) {
		if bucket, due, err := DecodeNudge(msg.Data); err == nil {
			n.cfg.Heard(bucket, due)
		} else if topic, due, err := DecodeTopicNudge(msg.Data); err == nil {
			n.cfg.HeardTopic(topic, due)
		} // other messages are not ours: a safety poll finds what they may have announced
	})
	if err != nil {
		return fmt.Errorf("nudge: listen: %w", err)
	}
	defer link.Unsubscribe(sub)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-n.wake:
		}
		n.mu.Lock()
		heads, topics := n.waiting, n.topics
		n.waiting, n.topics = map[message.Bucket]message.Milli{}, map[string]message.Milli{}
		n.mu.Unlock()
		for topic, due := range topics {
			if err := n.cfg.Conn.Publish(n.subject, EncodeTopicNudge(topic, due)); err != nil {
				n.cfg.Log.Debug().Err(err).Msg("nudge for polls not sent")
			}
		}
		for bucket, due := range heads {
			if err := n.cfg.Conn.Publish(n.subject, EncodeNudge(bucket, due)); err != nil {
				n.cfg.Log.Debug().Err(err).Int("bucket", int(bucket)).Msg("nudge not sent")
			}
		}
	}
}

// A nudge on the wire: a version byte, the bucket, the due time in unix milliseconds, both in big endian.
const (
	nudgeVersion = 1
	nudgeLen     = 1 + 4 + 8
)

// EncodeNudge writes a nudge.
func EncodeNudge(bucket message.Bucket, due message.Milli) []byte {
	b := append(make([]byte, 0, nudgeLen), nudgeVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(bucket))
	return binary.BigEndian.AppendUint64(b, uint64(due))
}

// DecodeNudge reads a nudge. The caller checks whether the bucket exists.
func DecodeNudge(b []byte) (bucket message.Bucket, due message.Milli, err error) {
	if len(b) != nudgeLen || b[0] != nudgeVersion {
		return 0, 0, fmt.Errorf("nudge of %d bytes: want version %d and %d bytes", len(b), nudgeVersion, nudgeLen)
	}
	n, ms := binary.BigEndian.Uint32(b[1:]), int64(binary.BigEndian.Uint64(b[5:]))
	if n > maxBucket || ms < 0 {
		return 0, 0, fmt.Errorf("nudge for bucket %d at %d: want 0 to %d, and a time since 1970", n, ms, maxBucket)
	}
	return message.Bucket(n), message.Milli(ms), nil
}

// A nudge for polls: a version byte, the due time in unix milliseconds in big endian, the topic. Older instances ignore
// it.
const topicNudgeVersion = 2

// EncodeTopicNudge writes a nudge for polls.
func EncodeTopicNudge(topic string, due message.Milli) []byte {
	b := append(make([]byte, 0, 1+8+len(topic)), topicNudgeVersion)
	return append(binary.BigEndian.AppendUint64(b, uint64(due)), topic...)
}

// DecodeTopicNudge reads a nudge for polls.
func DecodeTopicNudge(b []byte) (topic string, due message.Milli, err error) {
	if len(b) < 9 || b[0] != topicNudgeVersion {
		return "", 0, fmt.Errorf("nudge for polls of %d bytes: want version %d", len(b), topicNudgeVersion)
	}
	ms := int64(binary.BigEndian.Uint64(b[1:]))
	if ms < 0 {
		return "", 0, fmt.Errorf("nudge for polls at %d: want a time since 1970", ms)
	}
	return string(b[9:]), message.Milli(ms), nil
}

const maxBucket = 1<<16 - 1 // a bucket comes from a 16-bit hash
