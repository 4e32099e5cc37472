package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
)

// DrainerConfig is what a Drainer is made of.
type DrainerConfig struct {
	Store   Store
	Outbox  scheduler.Outbox
	Buckets int
	Clock   *scheduler.Clock
	// Duty tells whether it falls to this instance to drain: it leads, or nobody
	// does.
	Duty func(ctx context.Context) bool
	// Keep is how long ended messages stay in the journal, 0 for ever.
	Keep       time.Duration
	Timeout    time.Duration
	Log        zerolog.Logger
	Registerer prometheus.Registerer
}

// Drainer reads what nobody committed in time from the start of the outbox,
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
	for ctx.Err() == nil {
		if d.cfg.Duty(ctx) {
			for bucket := range d.cfg.Buckets {
				if err := d.drain(ctx, bucket); err != nil && ctx.Err() == nil && !errors.Is(err, scheduler.ErrUncertified) {
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

// drain commits what is old enough in one bucket.
func (d *Drainer) drain(ctx context.Context, bucket int) error {
	n, refused, err := Drain(ctx, d.cfg.Store, d.cfg.Outbox, bucket, drainAge, d.cfg.Timeout)
	d.metrics.drained.Add(float64(n))
	d.metrics.failures.Add(float64(refused))
	if refused > 0 {
		d.log.Error().Int("bucket", bucket).Int("entries", refused).Msg("the journal refuses entries for good; they stay in the outbox")
	}
	return err
}

// Drain commits a bucket's entries that are at least age old and removes them. It
// tells how many changes it committed and how many entries the journal refused
// for good; those stay.
func Drain(ctx context.Context, store Store, outbox scheduler.Outbox, bucket int, age scheduler.Milli, timeout time.Duration) (drained, refused int, err error) {
	after := ""
	for {
		call, cancel := context.WithTimeout(ctx, timeout)
		entries, err := outbox.Unwritten(call, bucket, after, age, drainEntries, commitBytes)
		cancel()
		if err != nil {
			return drained, refused, fmt.Errorf("read the outbox: %w", err)
		}
		if len(entries) == 0 {
			return drained, refused, nil
		}
		after = entries[len(entries)-1].ID
		for len(entries) > 0 {
			n, rows := 0, 0
			for n < len(entries) && (n == 0 || rows+len(entries[n].Changes) <= commitRows) {
				rows += len(entries[n].Changes)
				n++
			}
			bad, err := drainSome(ctx, store, outbox, bucket, entries[:n], timeout)
			if err != nil {
				return drained, refused, err
			}
			drained, refused = drained+rows, refused+bad
			entries = entries[n:]
		}
	}
}

// drainSome commits a few entries, one by one where the journal refuses them
// together.
func drainSome(ctx context.Context, store Store, outbox scheduler.Outbox, bucket int, entries []scheduler.Entry, timeout time.Duration) (refused int, err error) {
	var changes []scheduler.Change
	fences := map[int]uint64{} // of the server that was read: it may have been replaced
	for i := range entries {
		changes = append(changes, entries[i].Changes...)
		if n := entries[i].Number; n > 0 {
			fences[bucket] = n
		}
	}
	call, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if len(changes) > 0 {
		err = store.Write(call, fences, changes)
	}
	switch {
	case err == nil:
		if err := outbox.Written(call, bucket, entries); err != nil {
			return 0, fmt.Errorf("remove %d committed entries: %w", len(entries), err)
		}
		return 0, nil
	case Retryable(err) || errors.Is(err, scheduler.ErrFenced) || ctx.Err() != nil:
		return 0, fmt.Errorf("write %d changes: %w", len(changes), err)
	case len(entries) == 1:
		return 1, nil
	}
	for i := range entries {
		bad, err := drainSome(ctx, store, outbox, bucket, entries[i:i+1], timeout)
		if err != nil {
			return refused, err
		}
		refused += bad
	}
	return refused, nil
}

// tell measures the lag.
func (d *Drainer) tell(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	lags, err := d.cfg.Outbox.Lags(call)
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
}

// TotalLag is the lag of all buckets together.
func TotalLag(lags []scheduler.Lag) (sum scheduler.Lag) {
	for _, l := range lags {
		sum.Entries += l.Entries
		sum.Changes += l.Changes
		sum.Bytes += l.Bytes
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
