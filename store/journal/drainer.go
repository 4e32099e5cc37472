package journal

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
)

// DrainerConfig is what a Drainer is made of.
type DrainerConfig struct {
	Store    Store
	Timeline scheduler.Mending
	Buckets  int
	Clock    *scheduler.Clock
	// Duty reports whether it falls to this instance to drain: it leads, or nobody
	// does.
	Duty func(ctx context.Context) bool
	// Keep is how long ended messages stay in the journal, 0 for ever.
	Keep       time.Duration
	Timeout    time.Duration
	Log        zerolog.Logger
	Registerer prometheus.Registerer
}

// Drainer reads from the start of the outbox what no writer committed in time,
// commits it, measures the lag, and prunes.
type Drainer struct {
	cfg     DrainerConfig
	log     zerolog.Logger
	metrics *drainMetrics
}

const (
	drainPause = 250 * time.Millisecond
	// drainAge is how old an entry must be: longer than its writer keeps it.
	drainAge     = scheduler.Milli(1000)
	drainEntries = 256
	lagPause     = time.Second
	fullPause    = time.Minute
	prunePause   = 10 * time.Second
	// pruneBatch and pruneRest throttle the pruning: so many messages, then a rest.
	pruneBatch = 500
	pruneRest  = 100 * time.Millisecond
)

// NewDrainer builds a Drainer; Run must run.
func NewDrainer(cfg DrainerConfig) *Drainer {
	return &Drainer{cfg: cfg, log: cfg.Log, metrics: newDrainMetrics(cfg.Registerer)}
}

// Run drains until ctx ends.
func (d *Drainer) Run(ctx context.Context) error {
	var telling sync.WaitGroup
	telling.Go(func() { // by itself: a journal that hangs is when the lag matters
		for ctx.Err() == nil {
			d.tell(ctx)
			pause(ctx, lagPause)
		}
	})
	defer telling.Wait()
	var pruned time.Time
	said := undrained{why: map[int]string{}, full: map[int]time.Time{}}
	for ctx.Err() == nil {
		if d.cfg.Duty(ctx) {
			for bucket := range d.cfg.Buckets {
				err := d.drain(ctx, bucket)
				if ctx.Err() == nil && said.news(bucket, err) {
					d.log.Warn().Err(err).Int("bucket", bucket).Msg("outbox not drained")
				}
			}
			if d.cfg.Keep > 0 && time.Since(pruned) >= prunePause {
				d.prune(ctx)
				pruned = time.Now()
			}
		}
		pause(ctx, drainPause)
	}
	return nil
}

// undrained remembers what was logged of buckets that were not drained.
type undrained struct {
	why  map[int]string // of each bucket, at its last turn
	full map[int]time.Time
}

// news reports whether why a bucket was not drained is to be logged: a reason once, for
// all buckets that share it, until it changes or ends; that a quarantine is full again
// every fullPause, since somebody must empty it.
func (u *undrained) news(bucket int, err error) bool {
	if err == nil || errors.Is(err, scheduler.ErrUncertified) {
		delete(u.why, bucket)
		return false
	}
	if errors.Is(err, scheduler.ErrQuarantineFull) {
		delete(u.why, bucket)
		if time.Since(u.full[bucket]) < fullPause {
			return false
		}
		u.full[bucket] = time.Now()
		return true
	}
	why := err.Error()
	if errors.Is(err, scheduler.ErrUnavailable) { // whose words name another port each time
		why = scheduler.ErrUnavailable.Error()
	}
	known := slices.Contains(slices.Collect(maps.Values(u.why)), why)
	u.why[bucket] = why
	return !known
}

// drain commits what is old enough in one bucket.
func (d *Drainer) drain(ctx context.Context, bucket int) error {
	n, refused, err := Drain(ctx, d.cfg.Store, d.cfg.Timeline, bucket, drainAge, d.cfg.Timeout, d.log)
	d.metrics.drained.Add(float64(n))
	d.metrics.refused.Add(float64(refused))
	return err
}

// tell measures the lag.
func (d *Drainer) tell(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	lags, err := d.cfg.Timeline.Lags(call)
	if err != nil {
		return // the store's own state is told elsewhere
	}
	sum := TotalLag(lags)
	age := 0.0
	if sum.Oldest > 0 {
		age = max(d.cfg.Clock.Now().Sub(sum.Oldest.Time()).Seconds(), 0)
	}
	d.metrics.changes.Set(float64(sum.Changes))
	d.metrics.bytes.Set(float64(sum.Bytes))
	d.metrics.oldest.Set(age)
	d.metrics.quarantined.Set(float64(sum.Quarantined))
}

// TotalLag is the lag of all buckets together.
func TotalLag(lags []scheduler.Lag) (sum scheduler.Lag) {
	for _, l := range lags {
		sum.Entries += l.Entries
		sum.Changes += l.Changes
		sum.Bytes += l.Bytes
		sum.Quarantined += l.Quarantined
		if l.Oldest > 0 && (sum.Oldest == 0 || l.Oldest < sum.Oldest) {
			sum.Oldest = l.Oldest
		}
	}
	return sum
}

// prune deletes what ended long ago, a little at a time.
func (d *Drainer) prune(ctx context.Context) {
	before := d.cfg.Clock.Milli().Add(-d.cfg.Keep)
	for until := time.Now().Add(prunePause); time.Now().Before(until) && ctx.Err() == nil; {
		call, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
		n, err := d.cfg.Store.Prune(call, before, pruneBatch)
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, scheduler.ErrUnavailable) {
			d.log.Warn().Err(err).Msg("journal not pruned")
		}
		if err != nil || n < pruneBatch {
			return
		}
		pause(ctx, pruneRest)
	}
}
