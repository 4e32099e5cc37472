package memory

import (
	"context"

	"github.com/tarry-mq/tarry/scheduler"
)

// counts is how many messages of a topic a bucket holds in each state that
// Counts tells. Only topics that have any are kept: a topic may be one
// message's own.
type counts struct{ waiting, inFlight, dead int }

// count follows an entry into an order or out of it.
func (b *bucket) count(e *entry, by int) {
	if e.state.Ended() && e.state != scheduler.StateDead {
		return
	}
	topic := e.message.Topic
	c := b.topics[topic]
	switch e.state {
	case scheduler.StateWaiting:
		c.waiting += by
	case scheduler.StateInFlight:
		c.inFlight += by
	default:
		c.dead += by
	}
	if c == (counts{}) {
		delete(b.topics, topic)
	} else {
		b.topics[topic] = c
	}
}

// Counts tells how many messages a topic has, or every topic up to a limit.
func (t *Timeline) Counts(ctx context.Context, topic string, limit int) ([]scheduler.TopicCount, error) {
	var found []scheduler.TopicCount
	at := map[string]int{}
	add := func(topic string, c counts) {
		i, known := at[topic]
		if !known {
			if len(found) >= limit {
				return // and no bucket before this one had it
			}
			i = len(found)
			at[topic] = i
			found = append(found, scheduler.TopicCount{Topic: topic})
		}
		found[i].Waiting += c.waiting
		found[i].InFlight += c.inFlight
		found[i].Dead += c.dead
	}
	if topic != "" {
		limit = 1
	}
	for n := range t.buckets {
		err := t.in(ctx, n, func(b *bucket) error {
			if topic != "" {
				if c, any := b.topics[topic]; any {
					add(topic, c)
				}
				return nil
			}
			for topic, c := range b.topics {
				add(topic, c)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}
