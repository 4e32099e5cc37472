package app

import (
	"fmt"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/scheduler"
)

// topicSettings are what the settings say of topics.
type topicSettings struct {
	retry  string
	topics []config.Topic
}

// use makes the settings count from now on, all or none of them.
func (s topicSettings) use(t *scheduler.Topics) error {
	fallback, err := scheduleOf(s.retry)
	if err != nil {
		return fmt.Errorf("retry: %w", err)
	}
	list := make([]*scheduler.Topic, len(s.topics))
	for i, c := range s.topics {
		schedule, err := scheduleOf(c.Retry)
		if err != nil {
			return fmt.Errorf("topics[%d].retry: %w", i, err)
		}
		list[i] = &scheduler.Topic{
			Pattern: c.Pattern, Retry: schedule, TTL: c.TTL, Rate: c.Rate, CatchUp: c.CatchUpRate,
			Dead: c.Dead, Expired: c.Expired, Drop: c.Core == "drop", Partitions: c.Partitions,
		}
	}
	t.Set(list, fallback)
	return nil
}

// scheduleOf reads a schedule; an empty text is none.
func scheduleOf(text string) (scheduler.Retry, error) {
	if text == "" {
		return scheduler.Retry{}, nil
	}
	r, err := wire.ParseRetry(text)
	return scheduler.Retry(r), err
}
