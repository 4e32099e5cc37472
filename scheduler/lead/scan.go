package lead

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// shared is what the scanner and the settler of a bucket both use.
type shared struct {
	l      *leadership
	bucket message.Bucket
	log    zerolog.Logger
	flight *flight
	inbox  *inbox
}

// scanner is the one reader of a bucket while this instance leads: it sleeps until the earliest due time, claims, and
// hands over to the publisher. Its settler ends or returns the claimed messages.
type scanner struct {
	shared
	settler *settler
	changed chan error // capacity 1: the error that ends live
	// handing is held while a batch is judged and handed over; capacity 1.
	handing chan struct{}

	// Used only by the scanning goroutine.
	lanes     map[message.Lane]bool // lanes that hold messages of this bucket; true where the last turn met strays
	laneWait  time.Time             // no lane has a turn before this time
	laneFirst bool                  // lanes and the bucket take turns
	joining   map[message.Lane]int  // how many messages are on their way into a lane
	paced     time.Time             // no claim from the bucket before this time
}

func newScanner(l *leadership, bucket message.Bucket) *scanner {
	sh := shared{l: l, bucket: bucket, flight: newFlight(), inbox: newInbox(),
		log: l.log.With().Int("bucket", int(bucket)).Uint64("term", l.term).Logger()}
	return &scanner{
		shared:  sh,
		settler: newSettler(sh),
		changed: make(chan error, 1),
		handing: make(chan struct{}, 1),
		lanes:   map[message.Lane]bool{},
		joining: map[message.Lane]int{},
	}
}

const (
	readyPause = 20 * time.Millisecond // between looks at a publisher that is not ready
	// claimPace lets a few messages gather while they fall due one by one. While more are due the next claim follows at
	// once. See docs/figures.md: on a busy machine, the processor time of scripts for single messages is what delays
	// the last percent of messages. All scanners keep the same beat, so that this process, Redis and NATS wake once for
	// all buckets.
	claimPace = 2 * time.Millisecond
	// maxInFlightBytes limits the bodies in flight over all buckets. Huge messages reach this limit before the limit on
	// their number.
	maxInFlightBytes = 64 << 20
)

// live begins the term in this bucket, then scans and settles until ctx ends, or until an error that prevents it from
// going on.
func (sc *scanner) live(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		select {
		case err := <-sc.changed:
			return err
		case <-ctx.Done():
			return nil
		}
	})
	group.Go(func() error { return sc.run(ctx) })
	group.Go(func() error { return sc.settler.run(ctx) })
	return group.Wait()
}

// stop ends live with an error met by another goroutine.
func (sc *scanner) stop(err error) {
	select {
	case sc.changed <- err:
	default:
	}
}

// run begins the term in this bucket and scans until ctx ends.
func (sc *scanner) run(ctx context.Context) error {
	defer close(sc.settler.stopped)
	if err := sc.begin(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	sc.log.Info().Int("lanes", len(sc.lanes)).Msg("scanning")
	for ctx.Err() == nil {
		worked, err := sc.step(ctx)
		switch {
		case over(err):
			return err
		case err != nil:
			if ctx.Err() == nil {
				sc.log.Warn().Err(err).Msg("scan failed")
			}
			_ = scheduler.Sleep(ctx, retryPause)
		case !worked:
			sc.wait(ctx)
		}
	}
	return nil
}

// begin raises the term, sweeps, and learns the lanes. It keeps trying while the store does not answer. It sweeps the
// claims of an earlier run under this term like those of other leaders, since that run is over.
func (sc *scanner) begin(ctx context.Context) error {
	began, swept := false, 0
	for ctx.Err() == nil {
		err := sc.l.call(ctx, func(ctx context.Context) error {
			if !began {
				if err := sc.l.cfg.Timeline.Begin(ctx, sc.bucket, sc.l.term); err != nil {
					return fmt.Errorf("begin term: %w", err)
				}
				began = true
			}
			n, err := sc.l.cfg.Timeline.Sweep(ctx, sc.bucket, sc.l.term, sc.l.claims[sc.bucket],
				sweepBatch, sc.l.cfg.Clock.Milli())
			if err != nil {
				return fmt.Errorf("sweep: %w", err)
			}
			if swept += n; n >= sweepBatch {
				return errMore
			}
			lanes, err := sc.l.cfg.Timeline.Lanes(ctx, sc.bucket)
			if err != nil {
				return fmt.Errorf("list lanes: %w", err)
			}
			for _, l := range lanes {
				sc.addLane(l.Lane)
			}
			return nil
		})
		if err == nil { // the pauses must be known before anything goes out
			err = sc.l.readPauses(ctx)
		}
		switch {
		case err == nil:
			if swept > 0 {
				sc.l.metrics.swept.Add(float64(swept))
				sc.log.Warn().Int("messages", swept).Msg("swept what an earlier leader had claimed")
			}
			sc.inbox.nudge(1) // look at once
			return nil
		case over(err):
			return fmt.Errorf("bucket %d: %w", sc.bucket, err)
		case errors.Is(err, errMore):
			continue
		}
		sc.log.Warn().Err(err).Msg("cannot begin yet")
		_ = scheduler.Sleep(ctx, retryPause)
	}
	return nil
}

var errMore = errors.New("more to sweep")

// step claims and hands over one batch; it reports whether there was anything to do. Lanes and the bucket take turns.
func (sc *scanner) step(ctx context.Context) (bool, error) {
	if err := sc.reconcile(ctx); err != nil {
		return false, err
	}
	if !sc.l.cfg.Publisher.Ready() || sc.l.lease() <= 0 {
		_ = scheduler.Sleep(ctx, readyPause)
		return true, nil
	}
	sc.adoptLanes()
	room := sc.room()
	if room <= 0 {
		scheduler.Signal(sc.settler.hurry)
		return false, nil // the settler rouses the scanner when there is room
	}
	first, second := sc.stepBucket, sc.stepLane
	if sc.laneFirst = !sc.laneFirst; sc.laneFirst {
		first, second = second, first
	}
	if worked, err := first(ctx, room); worked || err != nil {
		return worked, err
	}
	return second(ctx, room)
}

// room returns how many more messages may be in flight in this bucket. It returns 0 until a claim is worthwhile, so
// that a full window is not refilled in tiny claims.
func (sc *scanner) room() int {
	window := max(sc.l.cfg.Pending/len(sc.l.scanners), 1)
	messages, bytes := sc.flight.load()
	room := window - messages
	if bytes >= maxInFlightBytes/len(sc.l.scanners) {
		return 0
	}
	if room < window && room < min(sc.l.cfg.ClaimBatch, window)/4 {
		return 0
	}
	return room
}

// stepBucket claims from the bucket if its head is due.
func (sc *scanner) stepBucket(ctx context.Context, room int) (bool, error) {
	next := sc.inbox.next()
	if next == 0 || next > sc.l.cfg.Clock.Milli() || time.Until(sc.paced) > 0 {
		return false, nil
	}
	sc.inbox.claiming()
	claimed, err := sc.claim(ctx, "", min(room, sc.l.cfg.ClaimBatch))
	if err != nil {
		sc.inbox.nudge(next)
		return false, err
	}
	sc.inbox.claimed(claimed.Head)
	sc.dispatch(ctx, claimed.Messages, origin{})
	if claimed.Head == 0 || claimed.Head > sc.l.cfg.Clock.Milli() { // nothing more is due
		sc.paced = sc.l.nextBeat(claimPace)
	}
	return len(claimed.Messages) > 0, nil
}

// claim takes up to n due messages of the bucket or of a lane into memory.
func (sc *scanner) claim(ctx context.Context, lane message.Lane, n int) (scheduler.Claimed, error) {
	cfg := &sc.l.cfg
	var claimed scheduler.Claimed
	started := time.Now()
	number := &sc.l.claims[sc.bucket]
	*number++
	err := sc.l.call(ctx, func(ctx context.Context) (err error) {
		claimed, err = sc.l.cfg.Timeline.Claim(ctx, sc.bucket, scheduler.Claim{Term: sc.l.term,
			Number: *number,
			Now:    cfg.Clock.Milli(), Limit: n, Bytes: cfg.ClaimBytes, Lane: lane})
		return err
	})
	sc.l.metrics.stepSeconds.Observe(time.Since(started).Seconds())
	if err != nil {
		if !errors.Is(err, scheduler.ErrStaleTerm) && !errors.Is(err, scheduler.ErrUnavailable) &&
			!errors.Is(err, scheduler.ErrFull) {
			sc.flight.doubt.Store(true)
		}
		return scheduler.Claimed{}, fmt.Errorf("claim bucket %d: %w", sc.bucket, err)
	}
	for _, uid := range claimed.Missing {
		sc.l.metrics.missing.Inc()
		sc.log.Error().Str("uid", string(uid)).Msg("an entry of the order has no message that can be read")
	}
	sc.l.metrics.claimed.Add(float64(len(claimed.Messages)))
	sc.flight.add(claimed.Messages)
	return claimed, nil
}

// wait sleeps until the next message is due, a lane has its turn, or rouse is called.
func (sc *scanner) wait(ctx context.Context) {
	d := time.Hour
	if sc.room() > 0 {
		if next := sc.inbox.next(); next > 0 {
			d = max(next.Time().Sub(sc.l.cfg.Clock.Now()), time.Until(sc.paced))
		}
		if len(sc.lanes) > 0 {
			d = min(d, time.Until(sc.laneWait))
		}
	}
	if d <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-sc.inbox.wake:
	case <-time.After(d):
	}
}

// reconcile returns claims whose replies were lost: those that the store holds for this term and memory does not. Their
// messages were never handed to NATS, so their marks stay.
func (sc *scanner) reconcile(ctx context.Context) error {
	if !sc.flight.doubt.Load() {
		return nil
	}
	tl := sc.l.cfg.Timeline
	var after message.UID
	for {
		var held []scheduler.Held
		var lost []scheduler.Back
		err := sc.l.call(ctx, func(ctx context.Context) (err error) {
			if held, err = tl.Held(ctx, sc.bucket, sc.l.term, after, sweepBatch); err != nil {
				return fmt.Errorf("list claims: %w", err)
			}
			if lost = sc.flight.lost(held); len(lost) == 0 {
				return nil
			}
			if err = tl.Return(ctx, sc.bucket, sc.l.term, lost, sc.l.cfg.Clock.Milli()); err != nil {
				return fmt.Errorf("return lost claims: %w", err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if len(lost) > 0 {
			sc.l.metrics.returned.Add(float64(len(lost)))
			sc.log.Warn().Int("messages", len(lost)).Msg("returned claims whose replies were lost")
			sc.inbox.nudge(1)
		}
		if len(held) < sweepBatch {
			break
		}
		after = held[len(held)-1].UID
	}
	sc.flight.reconciled()
	return nil
}
