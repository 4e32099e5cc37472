package bridge

import (
	"fmt"
	"testing"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Consumers implement the rule in their own programs, so it never changes.
func TestPartitionOf_IsFixed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key, id string
		n       int
		want    string
	}{
		{"123456789", "", 1024, "orders.294"}, // CRC-32 of it is cbf43926, the check value of the standard
		{"123456789", "x", 8, "orders.6"}, {"", "123456789", 8, "orders.6"}, {"", "", 1, "orders.0"},
		{"", "", 1024, "orders.184"},
	} {
		m := &message.Message{UID: "t-000000000000000a", Key: c.key, ID: c.id, Topic: "orders"}
		if got := partitionOf(m, c.n); got != c.want {
			t.Errorf("%+v: got %s", c, got)
		}
	}
}

func TestTopicLook_FollowsTheTopics(t *testing.T) {
	t.Parallel()
	topics := &scheduler.Topics{}
	topics.Set([]*scheduler.Topic{{Pattern: "a.*", Drop: true}, {Pattern: "b", Partitions: 1},
		{Pattern: "c", Partitions: 1, Drop: true}}, message.Retry{})
	l := topicLook{all: topics}
	for range 2 {
		for topic, want := range map[string]string{"a.x": "a.x true", "a": "a false", "b": "b.0 false", "c": "c.0 true",
			"d": "d false"} {
			subject, drop := l.of(&message.Message{Topic: topic})
			if got := fmt.Sprint(subject, " ", drop); got != want {
				t.Errorf("%s: got %s, want %s", topic, got, want)
			}
		}
	}
}

func BenchmarkTopicLook(b *testing.B) {
	m := &message.Message{UID: "t-000000000000000a", Topic: "orders.created"}
	many := &scheduler.Topics{}
	var list []*scheduler.Topic
	for i := range 100 {
		list = append(list, &scheduler.Topic{Pattern: fmt.Sprintf("t%d.>", i)})
	}
	many.Set(list, message.Retry{})
	for name, all := range map[string]*scheduler.Topics{"none": nil, "empty": {}, "hundred, one topic": many} {
		b.Run(name, func(b *testing.B) {
			l := topicLook{all: all}
			for b.Loop() {
				l.of(m)
			}
		})
	}
}
