package scheduler

import (
	"context"
	"fmt"
	"sync"
)

// Accept queues a push and calls done exactly once with its outcome, from
// another goroutine or, when it is refused at once, from this one. done must
// not block: other pushes of the same flush wait behind it.
func (s *Scheduler) Accept(p *Push, done func(Accepted)) { s.accept(p, done) }

// accept is Accept; it returns the push's uid, so that a caller who gives up
// waiting can name it.
func (s *Scheduler) accept(p *Push, done func(Accepted)) UID {
	now := s.cfg.Clock.Latest()
	m := p.message(now)
	refuse := func(err error) UID {
		s.metrics.refused.Inc()
		done(Accepted{UID: m.UID, ID: p.ID, Due: m.Due, Err: err})
		return m.UID
	}
	if limit := CeilMilli(now.Add(s.cfg.MaxDelay)); m.Due > limit {
		return refuse(fmt.Errorf("%w: due %s, limit %s", ErrTooFar, m.Due.Time().Format("2006-01-02T15:04:05.000Z07:00"), s.cfg.MaxDelay))
	}
	m.Due = max(m.Due, 1) // long past is simply now; 0 says that nothing waits
	if p.UID != "" && p.Stored == 0 {
		if age := now.Sub(p.UID.Time()); age > s.cfg.EndedKeep {
			return refuse(fmt.Errorf("%w: it was given out %s ago, the memory of ends is %s", ErrStaleUID, age.Round(1e9), s.cfg.EndedKeep))
		}
	}
	q := &queued{message: m, done: func(a Accepted) {
		s.observe(&a)
		done(a)
	}}
	bucket, chosen := s.bucketOf(m)
	if !chosen {
		bucket = s.queues.current()
	}
	if err := s.queues.identify(bucket, q); err != nil {
		return refuse(err)
	}
	uid := m.UID // the flusher may give another
	if err := s.queues.put(bucket, q); err != nil {
		return refuse(err)
	}
	return uid
}

// AcceptAll pushes a batch and waits for every outcome, in order. When ctx
// ends first, the outcomes still missing are ErrOutcomeUnknown.
func (s *Scheduler) AcceptAll(ctx context.Context, batch []*Push) []Accepted {
	var (
		mu      sync.Mutex
		results = make([]Accepted, len(batch))
		left    = len(batch)
		all     = make(chan struct{})
	)
	if left == 0 {
		return results
	}
	for i, p := range batch {
		results[i] = Accepted{UID: p.UID, ID: p.ID, Err: ErrOutcomeUnknown}
	}
	for i, p := range batch {
		uid := s.accept(p, func(a Accepted) {
			mu.Lock()
			defer mu.Unlock()
			results[i] = a
			if left--; left == 0 {
				close(all)
			}
		})
		mu.Lock()
		if results[i].UID == "" {
			results[i].UID = uid // to repeat with, should ctx end first
		}
		mu.Unlock()
	}
	select {
	case <-all:
		return results
	case <-ctx.Done():
		mu.Lock()
		defer mu.Unlock()
		return append([]Accepted(nil), results...)
	}
}

// bucketOf is the bucket that a message's identity or name decides, if any does.
func (s *Scheduler) bucketOf(m *Message) (bucket int, chosen bool) {
	n := s.cfg.Timeline.Buckets()
	if m.UID != "" {
		return m.UID.Bucket(n), true
	}
	if name := nameForHash(m.ID, m.Key); name != "" {
		return int(Hash(name)) % n, true
	}
	return 0, false
}

// observe counts an outcome.
func (s *Scheduler) observe(a *Accepted) {
	switch {
	case a.Err != nil:
		s.metrics.refused.Inc()
	case a.Duplicate:
		s.metrics.duplicates.Inc()
	default:
		s.metrics.accepted.Inc()
	}
}

// answer turns what the timeline says of a push into the answer to its producer.
func answer(m *Message, r AddResult) Accepted {
	a := Accepted{UID: m.UID, ID: m.ID, Due: m.Due, State: StateWaiting, Version: 1}
	if a.ID == "" {
		a.ID = string(m.UID)
	}
	switch r.Code {
	case AddedCanceled:
		a.State, a.Version = StateCanceled, 2
	case AddDuplicate, AddConflict:
		a.UID, a.Due, a.State, a.Version = r.First.UID, r.First.Due, r.First.State, r.First.Version
		a.Duplicate = r.Code == AddDuplicate
	}
	if r.Code == AddConflict {
		if a.State.Ended() {
			a.Err = fmt.Errorf("%w: the message %s with this id is %s", ErrDuplicateID, a.UID, a.State)
		} else {
			a.Err = fmt.Errorf("%w: the message %s with this id has other content", ErrDuplicateID, a.UID)
		}
	}
	return a
}
