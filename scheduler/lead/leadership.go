package lead

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// leadership is the state of one term on this instance. It is in memory only: a successor reads all that it needs from
// the timeline.
type leadership struct {
	*Leader
	term     uint64
	lease    func() time.Duration
	lanes    *laneBook
	holds    *holds
	scanners []atomic.Pointer[scanner] // the present scanner of each bucket
	away     []atomic.Bool             // buckets that did not answer the last head look-up; poll writes
	overs    []chan message.Milli      // of each bucket, capacity 1: when something may be over
}

// How often the leader's safety net runs.
const (
	pollNear   = 100 * time.Millisecond // between head reads while a head is near
	pollLeased = 250 * time.Millisecond // while all are far, and messages are leased or may expire unpulled
	pollFar    = time.Second            // and otherwise
	nearHead   = 2 * time.Second
	sweepBatch = 500
	trimBatch  = 1000
	trimWhile  = 200 * time.Millisecond // at most, per bucket and round
	trimPause  = time.Second            // between rounds
	trimIdle   = 5 * time.Second        // while nothing is forgotten
	// trimCalm is how long NATS and the journal must have been available before ends are forgotten. After an outage the
	// intake delivers earlier pushes again, up to three of its AckWaits later. It also does so after pushes were handed
	// back because the journal could not keep them. Only the memory of ends recognizes these repeats.
	trimCalm = 90 * time.Second
	// trimLatest is how long ends are kept at most, so that an outage does not fill the store.
	trimLatest = 24 * time.Hour
	retryPause = 100 * time.Millisecond // after a failed call of the timeline
)

// keep scans a bucket until ctx ends. If its server changes meanwhile it starts over once the bucket is whole again,
// independently of the other buckets.
func (l *leadership) keep(ctx context.Context, bucket message.Bucket) error {
	for {
		if l.cfg.Whole != nil {
			if err := l.cfg.Whole(ctx, l.term, bucket); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
		}
		sc := newScanner(l, bucket)
		l.scanners[bucket].Store(sc)
		err := sc.live(ctx)
		if l.cfg.Whole == nil || ctx.Err() != nil || !errors.Is(err, scheduler.ErrUncertified) {
			return err
		}
		l.lanes.leave(bucket, sc.lanes)
		sc.log.Warn().Err(err).Msg("the store changed under this leader")
	}
}

// openLanes ends every scanner's wait for a lane's turn.
func (l *leadership) openLanes() {
	for bucket := range l.scanners {
		l.scanners[bucket].Load().inbox.openLane()
	}
}

// over reports whether an error ends the run: no retry under it can succeed.
func over(err error) bool {
	return errors.Is(err, scheduler.ErrStaleTerm) || errors.Is(err, scheduler.ErrUncertified)
}

// over reports whether an error ends the leadership. If buckets are made whole, a bucket whose server is not the
// certified one ends only its own scanner, however long that takes.
func (l *leadership) over(err error) bool {
	return errors.Is(err, scheduler.ErrStaleTerm) || l.cfg.Whole == nil && over(err)
}

// call makes one call of the timeline, bounded by its time-out and by the lease. It refuses if the lease is over:
// nothing is written without one.
func (l *leadership) call(ctx context.Context, fn func(context.Context) error) error {
	left := l.lease()
	if left <= 0 {
		return fmt.Errorf("%w: the lease is over", scheduler.ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, min(left, l.cfg.CallTimeout))
	defer cancel()
	return fn(ctx)
}

// poll is the safety net behind the nudges: it reads every head, and notices claims that no scanner remembers.
func (l *leadership) poll(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		next, err := l.look(ctx)
		if l.over(err) {
			return err
		}
		if err != nil && !errors.Is(err, scheduler.ErrUncertified) && ctx.Err() == nil {
			l.log.Warn().Err(err).Uint64("term", l.term).Msg("head read failed")
		}
		timer.Reset(next)
	}
}

// forget returns what forgets old ends, to be called once per trimPause. It is apart from poll, which must not wait
// for it.
func (l *leadership) forget() func(context.Context) error {
	trimmed, pause, away := time.Now(), trimPause, time.Now()
	calm := min(trimCalm, l.cfg.EndedKeep) // EndedKeep is shorter only in tests
	return func(ctx context.Context) error {
		if !l.cfg.Publisher.Ready() || l.cfg.Journal != nil && l.cfg.Journal.Ready() != nil || !l.intakeAnswers(ctx) {
			away = time.Now()
		}
		if time.Since(trimmed) < pause {
			return nil
		}
		var longer time.Duration
		if time.Since(away) < calm {
			longer = max(trimLatest-l.cfg.EndedKeep, 0)
		}
		forgotten := 0
		for bucket := range l.scanners {
			if !l.away[bucket].Load() { // waiting for its time-out would delay the others
				forgotten += l.scanners[bucket].Load().trim(ctx, longer)
			}
		}
		if forgotten > 0 && longer > 0 {
			l.metrics.early.Add(float64(forgotten))
			l.log.Warn().Int("messages", forgotten).Msg("ends are forgotten although NATS or the journal was away " +
				"for a day: a push whose acknowledgement was lost may be delivered again")
		}
		trimmed, pause = time.Now(), trimPause
		if forgotten == 0 {
			pause = trimIdle
		}
		return nil
	}
}

// intakeAnswers reports whether the consumer of the intake answers, if there is an intake.
func (l *leadership) intakeAnswers(ctx context.Context) bool {
	if l.cfg.Intake == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	return l.cfg.Intake(ctx) == nil
}

// look does one round of poll and returns how long it is until the next.
func (l *leadership) look(ctx context.Context) (next time.Duration, err error) {
	// An answer concerns the scans that ran when the question was asked. A bucket that was made whole since then has a
	// new scan, which must not end because of an earlier error.
	asked := make([]*scanner, len(l.scanners))
	for bucket := range l.scanners {
		asked[bucket] = l.scanners[bucket].Load()
	}
	var heads []scheduler.Head
	err = l.call(ctx, func(ctx context.Context) error {
		heads, err = l.cfg.Timeline.Heads(ctx)
		return err
	})
	if err != nil && (len(heads) == 0 || l.cfg.Whole == nil) {
		return pollFar, fmt.Errorf("read heads: %w", err)
	}
	next = pollFar
	now := l.cfg.Clock.Milli()
	inFlight := 0
	for i, h := range heads {
		sc := asked[i]
		if l.away[i].Store(h.Err != nil); h.Err != nil {
			if over(h.Err) {
				sc.stop(fmt.Errorf("read heads: %w", h.Err))
			}
			continue
		}
		if h.Term > l.term {
			return pollFar, fmt.Errorf("bucket %d knows term %d: %w", i, h.Term, scheduler.ErrStaleTerm)
		}
		if h.Over > 0 {
			next = min(next, pollLeased)
			l.mayBeOver(message.Bucket(i), h.Over)
		}
		if h.Due > 0 {
			if h.Due < now.Add(nearHead) {
				next = pollNear
			}
			sc.inbox.nudge(h.Due)
			if h.Due <= now {
				sc.inbox.rouse() // it may sleep by a clock that was behind
			}
		}
		inFlight += sc.flight.compare(h.Claimed)
		if sc.flight.doubt.Load() {
			sc.inbox.rouse()
		}
	}
	l.metrics.inFlight.Set(float64(inFlight))
	l.metrics.parkedLanes.Set(float64(l.lanes.count()))
	if err != nil && !errors.Is(err, scheduler.ErrUncertified) { // each scanner gets this error, and logs it itself
		return next, fmt.Errorf("%w: read heads: %v", scheduler.ErrUnavailable, err)
	}
	return next, nil
}

// nextBeat returns the next whole multiple of pace by the clock that due times are compared with. Due times are whole
// milliseconds too.
func (l *Leader) nextBeat(pace time.Duration) time.Time {
	mono, now := time.Now(), l.cfg.Clock.Now()
	return mono.Add(now.Truncate(pace).Add(pace).Sub(now))
}

// every calls do once per period until ctx ends or do returns an error.
func every(ctx context.Context, pace time.Duration, do func(context.Context) error) error {
	tick := time.Tick(pace)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
		if err := do(ctx); err != nil {
			return err
		}
	}
}

// waitFor waits for a signal, at most d.
func waitFor(signal <-chan struct{}, d time.Duration) {
	select {
	case <-signal:
	case <-time.After(d):
	}
}

// trim forgets ends that have been kept long enough, and longer, in bounded steps and for a bounded time. After a
// failure it waits for the next round. It returns how many ends it forgot.
func (sh *shared) trim(ctx context.Context, longer time.Duration) (forgotten int) {
	for until := time.Now().Add(trimWhile); time.Now().Before(until); {
		var n int
		err := sh.l.call(ctx, func(ctx context.Context) (err error) {
			n, err = sh.l.cfg.Timeline.Trim(ctx, sh.bucket, sh.l.term, sh.l.cfg.Clock.Milli().Add(-longer), trimBatch)
			return err
		})
		if err != nil && !over(err) && ctx.Err() == nil {
			sh.log.Warn().Err(err).Msg("trim failed")
		}
		if forgotten += n; err != nil || n < trimBatch {
			break
		}
	}
	return forgotten
}
