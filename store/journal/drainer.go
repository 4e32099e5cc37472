package journal

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// DrainerConfig configures a Drainer.
type DrainerConfig struct {
	Reconciler *Reconciler
	// Duty reports whether this instance must drain: it leads, or no instance does.
	Duty func(ctx context.Context) bool
	// Keep is how long ended messages stay in the journal, 0 for ever.
	Keep       time.Duration
	Registerer prometheus.Registerer
}

// Drainer reads the entries that no writer committed in time from the start of the outbox, commits them, measures the
// lag, and prunes.
type Drainer struct {
	cfg     DrainerConfig
	both    *Reconciler
	metrics *drainMetrics
}

const (
	drainPause = 250 * time.Millisecond
	// drainAge is how old an entry must be. It exceeds lateAfter, at which a writer leaves an entry.
	drainAge     = message.Milli(1000)
	drainEntries = 256
	lagPause     = time.Second
	fullPause    = time.Minute
	prunePause   = 10 * time.Second
	// pruneBatch and pruneRest throttle the pruning: a batch of messages, then a rest.
	pruneBatch = 500
	pruneRest  = 100 * time.Millisecond
)

// NewDrainer builds a Drainer. Run must be running for it to drain.
func NewDrainer(cfg DrainerConfig) *Drainer {
	return &Drainer{cfg: cfg, both: cfg.Reconciler, metrics: newDrainMetrics(cfg.Registerer)}
}

// Run drains until ctx ends.
func (d *Drainer) Run(ctx context.Context) error {
	var measuring sync.WaitGroup
	measuring.Go(func() { // separately: the lag matters most while the journal hangs
		for ctx.Err() == nil {
			d.measure(ctx)
			_ = scheduler.Sleep(ctx, lagPause)
		}
	})
	defer measuring.Wait()
	var pruned time.Time
	said := undrained{why: map[message.Bucket]string{}, full: map[message.Bucket]time.Time{}}
	for ctx.Err() == nil {
		if d.cfg.Duty(ctx) {
			for bucket := range d.both.Buckets {
				err := d.drain(ctx, bucket)
				if ctx.Err() == nil && said.news(bucket, err) {
					d.both.Log.Warn().Err(err).Int("bucket", int(bucket)).Msg("outbox not drained")
				}
			}
			if time.Since(pruned) >= prunePause {
				d.prune(ctx)
				pruned = time.Now()
			}
		}
		_ = scheduler.Sleep(ctx, drainPause)
	}
	return nil
}

// undrained remembers what was logged about buckets that were not drained.
type undrained struct {
	why  map[message.Bucket]string // of each bucket, at its last turn
	full map[message.Bucket]time.Time
}

// news reports whether to log why a bucket was not drained. A reason is logged once for all buckets that share it,
// until it changes or ends. A full quarantine is logged again every fullPause, since an operator must empty it.
func (u *undrained) news(bucket message.Bucket, err error) bool {
	if err == nil || errors.Is(err, scheduler.ErrUncertified) {
		delete(u.why, bucket)
		return false
	}
	if errors.Is(err, record.ErrQuarantineFull) {
		delete(u.why, bucket)
		if time.Since(u.full[bucket]) < fullPause {
			return false
		}
		u.full[bucket] = time.Now()
		return true
	}
	why := err.Error()
	if errors.Is(err, scheduler.ErrUnavailable) { // its text contains a port, which changes each time
		why = scheduler.ErrUnavailable.Error()
	}
	known := slices.Contains(slices.Collect(maps.Values(u.why)), why)
	u.why[bucket] = why
	return !known
}

// drain commits the entries of one bucket that are old enough.
func (d *Drainer) drain(ctx context.Context, bucket message.Bucket) error {
	n, refused, err := d.both.Drain(ctx, bucket, drainAge)
	d.metrics.drained.Add(float64(n))
	d.metrics.refused.Add(float64(refused))
	return err
}

// measure measures the lag.
func (d *Drainer) measure(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, d.both.Timeout)
	defer cancel()
	lags, err := d.both.Timeline.Lags(call)
	if err != nil {
		return // health logs that the store does not answer
	}
	sum := TotalLag(lags)
	age := 0.0
	if sum.Oldest > 0 {
		age = max(d.both.Clock.Now().Sub(sum.Oldest.Time()).Seconds(), 0)
	}
	d.metrics.changes.Set(float64(sum.Changes))
	d.metrics.bytes.Set(float64(sum.Bytes))
	d.metrics.oldest.Set(age)
	d.metrics.quarantined.Set(float64(sum.Quarantined))
}

// TotalLag returns the lag of all buckets together.
func TotalLag(lags []record.Lag) (sum record.Lag) {
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

// prune deletes messages that ended long ago, a few at a time.
func (d *Drainer) prune(ctx context.Context) {
	before := message.Milli(0) // the rejects have a limit, whatever is kept
	if d.cfg.Keep > 0 {
		before = d.both.Clock.Milli().Add(-d.cfg.Keep)
	}
	for until := time.Now().Add(prunePause); time.Now().Before(until) && ctx.Err() == nil; {
		call, cancel := context.WithTimeout(ctx, d.both.Timeout)
		n, err := d.both.Store.Prune(call, before, pruneBatch)
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, scheduler.ErrUnavailable) {
			d.both.Log.Warn().Err(err).Msg("journal not pruned")
		}
		if err != nil || n < pruneBatch {
			return
		}
		_ = scheduler.Sleep(ctx, pruneRest)
	}
}

type drainMetrics struct {
	drained, refused                    prometheus.Counter
	changes, bytes, oldest, quarantined prometheus.Gauge
}

func newDrainMetrics(r prometheus.Registerer) *drainMetrics {
	auto := promauto.With(r)
	m := &drainMetrics{
		drained: auto.NewCounter(prometheus.CounterOpts{Name: "tarry_journal_drained_total",
			Help: "Changes that this instance read from the outbox and committed."}),
		refused: auto.NewCounter(prometheus.CounterOpts{Name: "tarry_journal_refused_total",
			Help: "Outbox entries with a change that the journal refuses for good: it recorded only the state, " +
				"or the entry is quarantined."}),
		changes: auto.NewGauge(prometheus.GaugeOpts{Name: "tarry_journal_lag_changes",
			Help: "Changes in the outbox that are not in the journal yet. They could be lost if Redis is lost now."}),
		bytes: auto.NewGauge(prometheus.GaugeOpts{Name: "tarry_journal_lag_bytes",
			Help: "Bytes of the outbox that are not in the journal yet."}),
		oldest: auto.NewGauge(prometheus.GaugeOpts{Name: "tarry_journal_lag_seconds",
			Help: "Age of the oldest change that is not in the journal yet."}),
		quarantined: auto.NewGauge(prometheus.GaugeOpts{Name: "tarry_journal_quarantined",
			Help: "Quarantined outbox entries, which the journal could not hold. They are kept in the store; " +
				"tarry verify lists them."}),
	}
	return m
}
