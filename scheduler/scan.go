package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// scanner is the one reader of a bucket while this instance leads: it sleeps until the earliest due time, claims, and
// hands over to the publisher. Its settler (settle.go) ends or returns the claimed messages.
type scanner struct {
	l       *leadership
	bucket  int
	name    string // in the logs
	log     zerolog.Logger
	wake    chan struct{} // capacity 1
	changed chan error    // capacity 1: the error that ends live
	away    atomic.Bool   // the bucket did not answer the last head look-up
	// handing is held while a batch is judged and handed over; capacity 1.
	handing chan struct{}

	// Used only by the scanning goroutine.
	lanes     map[message.Lane]bool // lanes that hold messages of this bucket; true where the last turn met strays
	laneWait  time.Time             // no lane has a turn before this time
	laneFirst bool                  // lanes and the bucket take turns
	joining   map[message.Lane]int  // how many messages are on their way into a lane
	paced     time.Time             // no claim from the bucket before this time
	claims    *uint64               // numbers the claims

	mu       sync.Mutex
	head     message.Milli // earliest due time known, or 0
	nudged   message.Milli // earliest due time nudged since the last claim began, or 0
	inFlight map[message.UID]*message.Message
	weight   int                  // total size of the bodies in flight
	adopt    map[message.Lane]int // how many messages the settler has parked in a lane
	laneOpen bool                 // a lane was opened and has its turn now
	doubt    bool                 // claims may exist that inFlight does not know
	strange  int                  // polls in a row that saw more claims than inFlight
	compared time.Time            // when claims were last compared one by one

	settling settling
	copies   copies
}

func newScanner(l *leadership, bucket int) *scanner {
	settling := newSettling()
	name := fmt.Sprintf("scanner-%d", bucket)
	return &scanner{
		l: l, bucket: bucket, name: name,
		log:      l.s.log.With().Int("bucket", bucket).Str("scanner", name).Uint64("term", l.term).Logger(),
		wake:     make(chan struct{}, 1),
		handing:  make(chan struct{}, 1),
		changed:  make(chan error, 1),
		claims:   &l.s.claims[bucket],
		lanes:    map[message.Lane]bool{},
		joining:  map[message.Lane]int{},
		adopt:    map[message.Lane]int{},
		compared: time.Now(),
		inFlight: map[message.UID]*message.Message{},
		settling: settling,
		copies:   copies{s: l.s, settling: settling, tries: map[message.UID]int{}},
	}
}

// rouse wakes the scanner once.
func (sc *scanner) rouse() {
	signal(sc.wake)
}

// nudge informs the scanner of a message due at the given time.
func (sc *scanner) nudge(due message.Milli) {
	sc.mu.Lock()
	earlier := sc.nudged == 0 || due < sc.nudged
	if earlier {
		sc.nudged = due
	}
	earlier = earlier && (sc.head == 0 || due < sc.head)
	sc.mu.Unlock()
	if earlier {
		sc.rouse()
	}
}

// next returns the earliest due time known, or 0 if there is none.
func (sc *scanner) next() message.Milli {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if sc.head == 0 || (sc.nudged != 0 && sc.nudged < sc.head) {
		return sc.nudged
	}
	return sc.head
}

const (
	readyPause = 20 * time.Millisecond // between looks at a publisher that is not ready
	// strangePolls is how many polls in a row must see more claims in the store than in memory before the claims are
	// compared one by one. A claim on its way looks the same for a moment.
	strangePolls = 5
	// comparePause is how long a claim that Redis executed late may go unnoticed under a load in which memory is always
	// ahead of the store.
	comparePause = 30 * time.Second
	// claimPace lets a few messages gather while they fall due one by one. While more are due the next claim follows at
	// once. See docs/figures.md: on a busy machine, the processor time of scripts for single messages is what delays
	// the last percent of messages. All scanners keep the same beat, so that this process, Redis and NATS wake once for
	// all buckets.
	claimPace = 2 * time.Millisecond
	// maxInFlightBytes limits the bodies in flight over all buckets. Huge messages reach this limit before the limit on
	// their number.
	maxInFlightBytes = 64 << 20
)

// compare compares the store's number of claims with memory and returns how many messages are in flight here. If the
// store has more claims for a while, a reply was lost.
func (sc *scanner) compare(claimed int) int {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	n := len(sc.inFlight)
	if time.Since(sc.compared) > comparePause {
		sc.doubt = true
		sc.rouse()
	}
	if claimed <= n {
		sc.strange = 0
		return n
	}
	if sc.strange++; sc.strange >= strangePolls {
		sc.doubt = true
		sc.rouse()
	}
	return n
}

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
	group.Go(func() error { return sc.settle(ctx) })
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
	defer sc.settling.scanned()
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
			sleep(ctx, retryPause)
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
				if err := sc.l.s.cfg.Timeline.Begin(ctx, sc.bucket, sc.l.term); err != nil {
					return fmt.Errorf("begin term: %w", err)
				}
				began = true
			}
			n, err := sc.l.s.cfg.Timeline.Sweep(ctx, sc.bucket, sc.l.term, *sc.claims, sweepBatch,
				sc.l.s.cfg.Clock.Milli())
			if err != nil {
				return fmt.Errorf("sweep: %w", err)
			}
			if swept += n; n >= sweepBatch {
				return errMore
			}
			lanes, err := sc.l.s.cfg.Timeline.Lanes(ctx, sc.bucket)
			if err != nil {
				return fmt.Errorf("list lanes: %w", err)
			}
			for _, name := range lanes {
				if name.Kind() != message.LaneReady { // consumers pull from it
					sc.addLane(name)
				}
			}
			return nil
		})
		if err == nil { // the pauses must be known before anything goes out
			err = sc.l.readPauses(ctx)
		}
		switch {
		case err == nil:
			if swept > 0 {
				sc.l.s.metrics.swept.Add(float64(swept))
				sc.log.Warn().Int("messages", swept).Msg("swept what an earlier leader had claimed")
			}
			sc.nudge(1) // look at once
			return nil
		case over(err):
			return fmt.Errorf("bucket %d: %w", sc.bucket, err)
		case errors.Is(err, errMore):
			continue
		}
		sc.log.Warn().Err(err).Msg("cannot begin yet")
		sleep(ctx, retryPause)
	}
	return nil
}

var errMore = errors.New("more to sweep")

// step claims and hands over one batch; it reports whether there was anything to do. Lanes and the bucket take turns.
func (sc *scanner) step(ctx context.Context) (bool, error) {
	if err := sc.reconcile(ctx); err != nil {
		return false, err
	}
	if !sc.l.s.cfg.Publisher.Ready() || sc.l.lease() <= 0 {
		sleep(ctx, readyPause)
		return true, nil
	}
	sc.adoptLanes()
	room := sc.room()
	if room <= 0 {
		return false, nil // the settler rouses the scanner when there is room
	}
	sc.laneFirst = !sc.laneFirst
	if sc.laneFirst {
		if worked, err := sc.stepLane(ctx, room); worked || err != nil {
			return worked, err
		}
		return sc.stepBucket(ctx, room)
	}
	if worked, err := sc.stepBucket(ctx, room); worked || err != nil {
		return worked, err
	}
	return sc.stepLane(ctx, room)
}

// room returns how many more messages may be in flight in this bucket. It returns 0 until a claim is worthwhile, so
// that a full window is not refilled by twos and threes.
func (sc *scanner) room() int {
	window := max(sc.l.s.cfg.Pending/len(sc.l.scanners), 1)
	sc.mu.Lock()
	room, heavy := window-len(sc.inFlight), sc.weight >= maxInFlightBytes/len(sc.l.scanners)
	sc.mu.Unlock()
	if heavy {
		return 0
	}
	if room < window && room < min(sc.l.s.cfg.ClaimBatch, window)/4 {
		return 0
	}
	return room
}

// stepBucket claims from the bucket if its head is due.
func (sc *scanner) stepBucket(ctx context.Context, room int) (bool, error) {
	next := sc.next()
	if next == 0 || next > sc.l.s.cfg.Clock.Milli() || time.Until(sc.paced) > 0 {
		return false, nil
	}
	sc.mu.Lock()
	sc.nudged = 0
	sc.mu.Unlock()
	claimed, err := sc.claim(ctx, "", min(room, sc.l.s.cfg.ClaimBatch))
	if err != nil {
		sc.nudge(next)
		return false, err
	}
	sc.mu.Lock()
	sc.head = claimed.Head
	sc.mu.Unlock()
	sc.dispatch(ctx, claimed.Messages, origin{})
	if claimed.Head == 0 || claimed.Head > sc.l.s.cfg.Clock.Milli() { // nothing more is due
		sc.paced = sc.l.s.nextBeat(claimPace)
	}
	return len(claimed.Messages) > 0, nil
}

// claim takes up to n due messages of the bucket or of a lane into memory.
func (sc *scanner) claim(ctx context.Context, lane message.Lane, n int) (Claimed, error) {
	cfg := &sc.l.s.cfg
	var claimed Claimed
	started := time.Now()
	*sc.claims++
	err := sc.l.call(ctx, func(ctx context.Context) (err error) {
		claimed, err = cfg.Timeline.Claim(ctx, sc.bucket, Claim{Holder: Leader(sc.l.term), Number: *sc.claims,
			Now: cfg.Clock.Milli(), Limit: n, Bytes: cfg.ClaimBytes, Lane: lane})
		return err
	})
	sc.l.s.metrics.stepSeconds.Observe(time.Since(started).Seconds())
	if err != nil {
		if !errors.Is(err, ErrStaleTerm) && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrFull) {
			sc.mu.Lock()
			sc.doubt = true
			sc.mu.Unlock()
		}
		return Claimed{}, fmt.Errorf("claim bucket %d: %w", sc.bucket, err)
	}
	for _, uid := range claimed.Missing {
		sc.l.s.metrics.missing.Inc()
		sc.log.Error().Str("uid", string(uid)).Msg("an entry of the order has no message that can be read")
	}
	sc.l.s.metrics.claimed.Add(float64(len(claimed.Messages)))
	sc.mu.Lock()
	for _, m := range claimed.Messages {
		if earlier := sc.inFlight[m.UID]; earlier != nil { // returned; the settler does not know yet
			sc.weight -= len(earlier.Body)
		}
		sc.inFlight[m.UID] = m
		sc.weight += len(m.Body)
	}
	sc.mu.Unlock()
	return claimed, nil
}

// wait sleeps until the next message is due, a lane has its turn, or rouse is called.
func (sc *scanner) wait(ctx context.Context) {
	d := time.Hour
	if sc.room() > 0 {
		if next := sc.next(); next > 0 {
			d = max(next.Time().Sub(sc.l.s.cfg.Clock.Now()), time.Until(sc.paced))
		}
		if len(sc.lanes) > 0 {
			d = min(d, time.Until(sc.laneWait))
		}
	}
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-sc.wake:
	case <-timer.C:
	}
}

// reconcile returns claims whose replies were lost: those that the store holds for this term and memory does not. Their
// messages were never handed to NATS, so their marks stay.
func (sc *scanner) reconcile(ctx context.Context) error {
	sc.mu.Lock()
	doubt := sc.doubt
	sc.mu.Unlock()
	if !doubt {
		return nil
	}
	tl := sc.l.s.cfg.Timeline
	var after message.UID
	for {
		var held []Held
		var lost []Back
		err := sc.l.call(ctx, func(ctx context.Context) (err error) {
			if held, err = tl.Held(ctx, sc.bucket, Leader(sc.l.term), after, sweepBatch); err != nil {
				return fmt.Errorf("list claims: %w", err)
			}
			sc.mu.Lock()
			for _, h := range held {
				if m := sc.inFlight[h.UID]; m == nil || m.Claim != h.Claim {
					lost = append(lost, Back{UID: h.UID, Claim: h.Claim, Keep: true})
				}
			}
			sc.mu.Unlock()
			if len(lost) == 0 {
				return nil
			}
			if err = tl.Return(ctx, sc.bucket, Leader(sc.l.term), lost, sc.l.s.cfg.Clock.Milli()); err != nil {
				return fmt.Errorf("return lost claims: %w", err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if len(lost) > 0 {
			sc.l.s.metrics.returned.Add(float64(len(lost)))
			sc.log.Warn().Int("messages", len(lost)).Msg("returned claims whose replies were lost")
			sc.nudge(1)
		}
		if len(held) < sweepBatch {
			break
		}
		after = held[len(held)-1].UID
	}
	sc.mu.Lock()
	sc.doubt, sc.strange, sc.compared = false, 0, time.Now()
	sc.mu.Unlock()
	return nil
}
