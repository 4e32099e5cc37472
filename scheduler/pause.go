package scheduler

import (
	"context"
	"errors"
	"fmt"
)

// TopicCount tells how many messages of a topic wait, are in flight and are dead, at
// no cost that grows with what waits or is dead; what is in flight is looked through.
// It takes many short calls where much is: ctx bounds them together.
func (s *Scheduler) TopicCount(ctx context.Context, topic string) (TopicCount, error) {
	count, err := s.cfg.Timeline.Count(ctx, topic)
	return count, looked("count "+topic, err)
}

// TopicCounts tells the same of up to limit topics that have any, in the order of
// their names, the first ones after the one that is given. It looks through the names
// of all topics, and what is in flight.
func (s *Scheduler) TopicCounts(ctx context.Context, after string, limit int) ([]TopicCount, error) {
	counts, err := s.cfg.Timeline.Counts(ctx, after, limit)
	return counts, looked("count topics", err)
}

// Pauses lists what is paused.
func (s *Scheduler) Pauses(ctx context.Context) ([]Pause, error) {
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	pauses, err := s.cfg.Timeline.Pauses(ctx)
	return pauses, looked("list pauses", err)
}

// Pause holds back what falls due on topics that match the pattern. Where another
// instance leads, that one reads the pauses once a second: so long messages may
// still go out. Pushes are accepted as ever.
//
// It takes effect in the timeline first, so that an emergency does not wait for a
// database, and is written to the journal then, in every mode. Where the journal
// does not take it the error is ErrOutcomeUnknown: the pause stands, but would be
// forgotten with the store, or was made on a store that has been replaced. To ask
// again is safe.
func (s *Scheduler) Pause(ctx context.Context, pattern, by string) error {
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	c, err := s.cfg.Timeline.Pause(ctx, Pause{Pattern: pattern, By: by, At: s.cfg.Clock.Milli()})
	if err != nil {
		return fmt.Errorf("pause %s: %w", pattern, err)
	}
	s.tellOfPauses(ctx)
	if err := s.cfg.Journal.WritePause(ctx, c); err != nil {
		return fmt.Errorf("%s is paused, but the journal does not say that it knows: %w: %v", pattern, ErrOutcomeUnknown, err)
	}
	return nil
}

// Resume lets the pattern go again; it tells whether it was paused. Its error is
// as that of Pause: the pattern goes, but may be paused again when the store is
// lost. A resume of what is not paused tells the journal, too, so that to ask
// again mends that.
func (s *Scheduler) Resume(ctx context.Context, pattern string) (bool, error) {
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	was, c, err := s.cfg.Timeline.Resume(ctx, pattern, s.cfg.Clock.Milli())
	if err != nil {
		return false, fmt.Errorf("resume %s: %w", pattern, err)
	}
	s.tellOfPauses(ctx)
	if err := s.cfg.Journal.WritePause(ctx, c); err != nil {
		return was, fmt.Errorf("%s is resumed, but the journal does not say that it knows: %w: %v", pattern, ErrOutcomeUnknown, err)
	}
	return was, nil
}

// tellOfPauses lets a leader in this process know at once. It reads them again
// soon, whatever becomes of this.
func (s *Scheduler) tellOfPauses(ctx context.Context) {
	if l := s.leading.Load(); l != nil {
		_ = l.readPauses(ctx)
	}
}

// looked is the error of a call that writes nothing: its outcome is never
// unknown.
func looked(step string, err error) error {
	switch {
	case errors.Is(err, ErrOutcomeUnknown):
		return fmt.Errorf("%s: %w: %v", step, ErrUnavailable, err)
	case err != nil:
		return fmt.Errorf("%s: %w", step, err)
	}
	return nil
}
