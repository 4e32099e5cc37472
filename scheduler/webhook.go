package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// What webhooks need beside Pull and Settle.

// Await waits until a message of a topic may be ready, which Pull then finds out. It asks nothing of the timeline, so
// any number of topics may be awaited. It returns false once the time is over.
func (s *Scheduler) Await(ctx context.Context, topic string, within time.Duration) bool {
	_, err := s.polls.wait(ctx, Poll{Topic: topic, Wait: within})
	return errors.Is(err, errMaybeReady)
}

// Upcoming lists the topics from which a message can be pulled within a time from now. A topic may occur more often.
func (s *Scheduler) Upcoming(ctx context.Context, within time.Duration) ([]string, error) {
	if err := s.cfg.Admit(); err != nil {
		return nil, err
	}
	topics, err := s.cfg.Timeline.Upcoming(ctx, s.cfg.Clock.Milli().Add(within))
	return topics, Looked("list topics", err)
}

// Failing notes that a webhook's target failed, or that it did not, and returns since when it has failed without a
// success, or the zero time.
func (s *Scheduler) Failing(ctx context.Context, target string, failed bool) (since time.Time, err error) {
	if err := s.cfg.Admit(); err != nil {
		return since, err
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	at := message.Milli(0)
	if failed {
		at = s.cfg.Clock.Milli()
	}
	first, err := s.cfg.Timeline.Failing(ctx, target, at)
	if err == nil && first > 0 {
		since = first.Time()
	}
	return since, err
}
