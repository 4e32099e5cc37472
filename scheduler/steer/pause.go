package steer

import (
	"context"
	"fmt"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// TopicCount returns how many messages of a topic wait, are in flight and are dead. Its cost does not grow with the
// number of waiting or dead messages, but it scans the messages in flight. That may take many short calls; ctx limits
// their total time.
func (s *Scheduler) TopicCount(ctx context.Context, topic string) (scheduler.TopicCount, error) {
	if err := s.cfg.Admit(); err != nil {
		return scheduler.TopicCount{}, err
	}
	count, err := s.cfg.Timeline.Count(ctx, topic)
	counts := []scheduler.TopicCount{count}
	if err == nil {
		err = s.CountPulled(ctx, counts)
	}
	return counts[0], scheduler.Looked("count "+topic, err)
}

// TopicCounts returns the counts of up to limit topics that have messages, ordered by name and beginning after the
// given one. It reads the names of all topics and the messages in flight.
func (s *Scheduler) TopicCounts(ctx context.Context, after string, limit int) ([]scheduler.TopicCount, error) {
	if err := s.cfg.Admit(); err != nil {
		return nil, err
	}
	counts, err := s.cfg.Timeline.Counts(ctx, after, limit)
	if err == nil {
		err = s.CountPulled(ctx, counts)
	}
	return counts, scheduler.Looked("count topics", err)
}

// ReadyTopics lists the topics with messages that consumers may pull, among the first most topics by name, and reports
// whether those were all.
func (s *Scheduler) ReadyTopics(ctx context.Context, most int) (groups []scheduler.HeldGroup, whole bool, err error) {
	const page = 1000
	pauses, err := s.Pauses(ctx)
	if err != nil {
		return nil, false, err
	}
	for after := ""; most > 0; most -= page {
		counts, err := s.TopicCounts(ctx, after, page)
		if err != nil {
			return nil, false, err
		}
		for _, c := range counts {
			if after = c.Topic; c.Ready == 0 {
				continue
			}
			why := message.Why{Word: message.WhyUnpulled, Detail: "ready, and no consumer has pulled them"}
			if t := s.cfg.Topics.Of(c.Topic); t != nil && t.Webhook {
				why = message.Why{Word: message.WhyWebhook, Detail: "ready, and its webhook has no room for them yet"}
			}
			if p := scheduler.PauseOf(pauses, c.Topic); p != nil {
				why = p.Why(0)
			}
			groups = append(groups, scheduler.HeldGroup{Name: c.Topic, Count: c.Ready, Why: why})
		}
		if len(counts) < page {
			return groups, true, nil
		}
	}
	return groups, false, nil
}

// Pauses lists the patterns that are paused.
func (s *Scheduler) Pauses(ctx context.Context) ([]scheduler.Pause, error) {
	if err := s.cfg.Admit(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	pauses, _, err := s.cfg.Timeline.Pauses(ctx)
	return pauses, scheduler.Looked("list pauses", err)
}

// pauseWait is how long the answer to a pause or a resume waits for the leader.
const pauseWait = time.Second

// Pause holds back messages that fall due on topics that match the pattern. Pushes are accepted as before. inEffect
// reports whether the leader, this instance or another, has applied the pause: from then on nothing more is handed to
// NATS. Otherwise that is unknown; the leader reads the pauses within a second, and a new leader reads them before
// anything goes out.
//
// A pause takes effect in the timeline first, so that an emergency does not wait for a database, and is then written to
// the journal in every mode. If the journal does not record it, the error is ErrOutcomeUnknown: the pause is in effect,
// but would be lost with the store, or was made on a store that has been replaced. Pause may safely be called again.
func (s *Scheduler) Pause(ctx context.Context, pattern, by string) (inEffect bool, err error) {
	if err := s.cfg.Admit(); err != nil {
		return false, err
	}
	call, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	c, err := s.cfg.Timeline.Pause(call, scheduler.Pause{Pattern: pattern, By: by, At: s.cfg.Clock.Milli()})
	if err != nil {
		return false, fmt.Errorf("pause %s: %w", pattern, err)
	}
	return s.settlePause(ctx, call, c, "paused")
}

// Resume ends the pause of a pattern. It returns whether the pattern was paused and, like Pause, whether the leader has
// applied the change. If the journal does not record the resume, the error is ErrOutcomeUnknown: the pattern is
// resumed, but may be paused again when the store is lost. Calling Resume again repairs that, because the journal also
// records the resume of a pattern that is not paused.
func (s *Scheduler) Resume(ctx context.Context, pattern string) (was, inEffect bool, err error) {
	if err := s.cfg.Admit(); err != nil {
		return false, false, err
	}
	call, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	var c scheduler.PauseChange
	was, c, err = s.cfg.Timeline.Resume(call, pattern, s.cfg.Clock.Milli())
	if err != nil {
		return false, false, fmt.Errorf("resume %s: %w", pattern, err)
	}
	s.Hear("", 0)
	s.cfg.AnnouncePull("", 0)
	inEffect, err = s.settlePause(ctx, call, c, "resumed")
	return was, inEffect, err
}

// settlePause lets the leader apply a change and the journal record it, at the same time. It takes the place of
// Scheduler.change: a pause belongs to no message, and takes effect whether or not the journal is ready.
func (s *Scheduler) settlePause(ctx, call context.Context, c scheduler.PauseChange, is string) (inEffect bool,
	err error) {
	taken := make(chan bool, 1)
	go func() { taken <- s.takenOver(ctx) }() // until its time-out; waited for below
	if err = s.cfg.Journal.WritePause(call, c); err != nil {
		err = fmt.Errorf("%s is %s, but the journal did not confirm it: %w: %v", c.Pattern, is,
			scheduler.ErrOutcomeUnknown, err)
	}
	return <-taken, err
}

// takenOver makes the leader read the pauses at once, and reports whether the leader has done so.
func (s *Scheduler) takenOver(ctx context.Context) bool {
	ctx, stop := context.WithTimeout(ctx, pauseWait)
	defer stop()
	return s.cfg.AskPauses(ctx) == nil
}
