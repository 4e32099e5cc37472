package publish

import (
	"fmt"
	"testing"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

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
