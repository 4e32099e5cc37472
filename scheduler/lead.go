package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// leadership is the state of one term on this instance. It lives in memory
// only: a successor learns all it needs from the timeline.
type leadership struct {
	s        *Scheduler
	term     uint64
	lease    func() time.Duration
	lanes    *laneBook
	holds    *holds
	scanners []*scanner
}

// The pace of the leader's safety net.
const (
	pollNear   = 100 * time.Millisecond // between head reads while a head is near
	pollFar    = time.Second            // and while all are far
	nearHead   = 2 * time.Second
	sweepBatch = 500
	trimBatch  = 1000
	trimWhile  = 200 * time.Millisecond // at most, per bucket and round
	trimPause  = time.Second            // between rounds
	// trimCalm is how long NATS must have been there before ends are forgotten: an
	// intake that was away may send again what it sent before, up to three of its
	// AckWaits later, and only the memory of ends recognizes that.
	trimCalm   = 90 * time.Second
	retryPause = 100 * time.Millisecond // after a failed call of the timeline
)

// Run is the leader's life under one term. lease tells how long the leadership
// is still sure; every call is bounded by it. Run begins the term in every
// bucket, sweeps what earlier leaders had claimed, and dispatches until ctx
// ends; then it waits, bounded by the stop time-out and the lease, for what is
// in flight and gives the rest back. It returns ErrStaleTerm when a store knew
// a higher term, ErrUncertified when the store's server is not the one that was
// certified (the leader certifies it and calls Run again, under the same term),
// else the cause of ctx's end.
func (s *Scheduler) Run(ctx context.Context, term uint64, lease func() time.Duration) error {
	l := &leadership{s: s, term: term, lease: lease, lanes: newLaneBook(), holds: newHolds(s.cfg.Topics)}
	for bucket := range s.cfg.Timeline.Buckets() {
		l.scanners = append(l.scanners, newScanner(l, bucket))
	}
	s.leading.Store(l)
	defer s.leading.CompareAndSwap(l, nil)

	group, ctx := errgroup.WithContext(ctx)
	for _, sc := range l.scanners {
		group.Go(func() error { return sc.run(ctx) })
		group.Go(func() error { return sc.settle(ctx) })
	}
	group.Go(func() error { return l.poll(ctx) })
	if s.cfg.DeadKeep > 0 {
		group.Go(func() error { return l.purgeDead(ctx) })
	}
	err := group.Wait()
	if over(err) {
		return fmt.Errorf("lead term %d: %w", term, err)
	}
	return context.Cause(ctx)
}

// over tells whether an error ends the run: no retry under it can succeed.
func over(err error) bool { return errors.Is(err, ErrStaleTerm) || errors.Is(err, ErrUncertified) }

// call bounds one call of the timeline by its time-out and by the lease. It
// refuses when the lease is over: nothing is written without one.
func (l *leadership) call(ctx context.Context, fn func(context.Context) error) error {
	left := l.lease()
	if left <= 0 {
		return fmt.Errorf("%w: the lease is over", ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, min(left, l.s.cfg.CallTimeout))
	defer cancel()
	return fn(ctx)
}

// poll is the safety net below the nudges: it reads every head, forgets old
// ends, and notices claims that nobody remembers.
func (l *leadership) poll(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	trimmed, away, paused := time.Now(), time.Now(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if !l.s.cfg.Publisher.Ready() {
			away = time.Now()
		}
		if time.Since(trimmed) >= trimPause && time.Since(away) >= trimCalm {
			for _, sc := range l.scanners {
				sc.trim(ctx)
			}
			trimmed = time.Now()
		}
		if time.Since(paused) >= pauseLook {
			if err := l.readPauses(ctx); over(err) {
				return err
			} else if err != nil && ctx.Err() == nil {
				l.s.log.Warn().Err(err).Uint64("term", l.term).Msg("what is paused cannot be read")
			}
			paused = time.Now()
		}
		near, err := l.look(ctx)
		if over(err) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			l.s.log.Warn().Err(err).Uint64("term", l.term).Msg("head read failed")
		}
		if near {
			timer.Reset(pollNear)
		} else {
			timer.Reset(pollFar)
		}
	}
}

// look is one round of poll; it tells whether a head is near.
func (l *leadership) look(ctx context.Context) (near bool, err error) {
	var heads []Head
	err = l.call(ctx, func(ctx context.Context) error {
		heads, err = l.s.cfg.Timeline.Heads(ctx)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("read heads: %w", err)
	}
	now := l.s.cfg.Clock.Milli()
	inFlight := 0
	for i, h := range heads {
		sc := l.scanners[i]
		if h.Term > l.term {
			return false, fmt.Errorf("bucket %d knows term %d: %w", i, h.Term, ErrStaleTerm)
		}
		if h.Due > 0 {
			near = near || h.Due < now.Add(nearHead)
			sc.nudge(h.Due)
			if h.Due <= now {
				sc.rouse() // it sleeps by a clock that was behind
			}
		}
		inFlight += sc.compare(h.Claimed)
	}
	l.s.metrics.inFlight.Set(float64(inFlight))
	l.s.metrics.parkedLanes.Set(float64(l.lanes.count()))
	return near, nil
}

// nextBeat is the next whole multiple of a pace, by the clock that due times
// are held against: they are whole milliseconds too.
func (s *Scheduler) nextBeat(pace time.Duration) time.Time {
	mono, now := time.Now(), s.cfg.Clock.Now()
	return mono.Add(now.Truncate(pace).Add(pace).Sub(now))
}

// sleep waits for d or for ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
