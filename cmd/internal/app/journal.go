package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/publish"
	"github.com/tarry-mq/tarry/election"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/store/journal"
)

// journalParts are the parts of an instance's journal; mode Off has no store.
type journalParts struct {
	mode    journal.Mode
	store   journal.Store
	prepare func(context.Context) error // prepares the database; nil if there is nothing to prepare
}

// store is a timeline that can be recovered from the journal.
type store interface {
	scheduler.Timeline
	record.Mending
	record.Recoverable
}

// recording returns the recorder for the timeline; nil with the journal off.
func (o *opened) recording() *record.Recording {
	if o.writer == nil {
		return nil
	}
	return &record.Recording{Instance: o.cfg.Instance, Limit: o.outboxLimit(), Address: o.address,
		Sync: o.journal.mode == journal.Sync, Wrote: o.writer.Wrote}
}

const (
	// journalTimeout bounds one call of the database.
	journalTimeout = 5 * time.Second
	recoverPause   = 200 * time.Millisecond
	// auditDelay delays the audit after a recovery until the first load has passed.
	auditDelay = 10 * time.Second
)

// wireJournal builds the parts that move changes to the journal and back.
func (a *App) wireJournal() (err error) {
	j := &a.journal
	a.recovery = journal.NewRecovery(journal.RecoveryConfig{
		Store: j.store, Timeline: a.store, Mode: j.mode, Judged: a.namesKeep() > 0,
		Window: a.cfg.Journal.Window, EndedKeep: a.cfg.Ended.Keep, Clock: a.clock,
		Timeout: journalTimeout, Log: a.log, At: failpoint(),
	})
	if a.writer == nil {
		return nil
	}
	a.lost = promauto.With(a.registry).NewCounter(prometheus.CounterOpts{Name: "tarry_store_lost_total",
		Help: "Messages that this instance, as the leader, found missing in Redis and gave back from the journal."})
	a.differences = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tarry_audit_differences", Help: "Messages that the last audit by this instance found different in the " +
			"store and the journal, before it mended them.",
	}, []string{"kind"})
	a.registry.MustRegister(a.differences)
	for _, kind := range differenceKinds() {
		a.differences.WithLabelValues(kind).Set(0)
	}
	broker, err := publish.NewBroker(a.conn, a.cfg.Namespace)
	if err != nil {
		return fmt.Errorf("build redelivery: %w", err)
	}
	broker.Topics = a.topics
	a.journalAPI = &journalAPI{a: a, broker: broker}
	return nil
}

// wireDrainer builds the part that commits what other instances left.
func (a *App) wireDrainer() error {
	if a.writer != nil {
		a.drainer = journal.NewDrainer(journal.DrainerConfig{
			Reconciler: a.reconciler, Duty: a.drains, Keep: a.cfg.Journal.Keep, Registerer: a.registry,
		})
	}
	return nil
}

// keepJournal runs the parts that move changes to the journal until they are stopped, after everything that makes
// changes has ended.
func (a *App) keepJournal(ctx context.Context) (stop func()) {
	if a.writer == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var group errgroup.Group
	group.Go(func() error { return a.writer.Run(ctx, a.store, a.store.Renew) })
	group.Go(func() error { return a.drainer.Run(ctx) })
	return func() {
		cancel()
		if err := group.Wait(); err != nil {
			a.log.Warn().Err(err).Msg("journal writer")
		}
		if a.cfg.InMemory() {
			a.emptyOutbox(ctx)
		}
	}
}

// emptyOutbox commits the changes that the writer had left to the drainer, which has ended.
func (a *App) emptyOutbox(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), journalTimeout)
	defer cancel()
	for bucket := range a.store.Buckets() {
		_, _, err := a.reconciler.Drain(ctx, bucket, 0)
		if err != nil && !errors.Is(err, scheduler.ErrUncertified) {
			a.log.Warn().Err(err).Int("bucket", int(bucket)).Msg("stopped with changes that are not in the journal")
		}
	}
}

// journalDoor returns the journal for the HTTP API; nil with the journal off.
func (a *App) journalDoor() ops.Journal {
	if a.journalAPI == nil {
		return nil
	}
	return a.journalAPI
}

// drains reports whether this instance drains uncommitted changes: it does if it leads, or if no leader is known.
func (a *App) drains(ctx context.Context) bool {
	if a.race.State().Role == election.Leading {
		return true
	}
	_, led, err := a.race.Leader(ctx)
	return err != nil || !led
}

// answers builds the reconciler and the journal for which the scheduler's answers wait; nil with the journal off.
func (a *App) answers() scheduler.Journal {
	if a.writer == nil {
		return nil
	}
	a.reconciler = &journal.Reconciler{
		Store: a.journal.store, Timeline: a.store, Buckets: a.store.Buckets(), Clock: a.clock,
		Instance: a.cfg.Instance, Address: a.address, Timeout: journalTimeout, Log: a.log,
	}
	return journal.Answers{Writer: a.writer, Reconciler: a.reconciler, During: a.silence.during, Log: a.log}
}

// namesKeep returns how long the journal is consulted about names; 0 with the journal off.
func (a *App) namesKeep() time.Duration {
	if a.writer == nil {
		return 0
	}
	return min(a.cfg.Names.Keep, a.cfg.Journal.Keep)
}

// prepareJournal waits until the database is ready to hold the journal. Until then the journal counts as unreachable.
func (a *App) prepareJournal(ctx context.Context) error {
	if a.journal.prepare == nil {
		return nil
	}
	// The bound is long enough for migrations too.
	err := a.await(ctx, "the journal", 6*journalTimeout, journal.ErrUnfit, a.journal.prepare)
	if err == nil && ctx.Err() == nil {
		a.log.Info().Str("mode", a.journal.mode.String()).Msg("journal is fit")
	}
	return err
}

// audit compares the store with the journal from time to time, and soon after a recovery, and repairs the differences.
func (a *App) audit(ctx context.Context, recovered <-chan struct{}) error {
	wait := a.cfg.Journal.Audit
	for {
		timer := time.NewTimer(wait)
		select {
		case <-recovered:
			timer.Stop()
			wait = min(wait, auditDelay)
			continue
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		wait = a.cfg.Journal.Audit
		report, err := a.journalAPI.Verify(ctx, record.VerifyRequest{Repair: true}, nil)
		event := a.log.Info()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			event = a.log.Warn().Err(err)
			wait = min(wait, 5*time.Minute)
		} else if len(report.Found) > 0 {
			event = a.log.Warn()
		}
		for _, kind := range differenceKinds() {
			if err == nil {
				a.differences.WithLabelValues(kind).Set(float64(report.Found[kind]))
			}
			if n := report.Found[kind]; n > 0 {
				event = event.Int(kind, n)
			}
		}
		var ended []string
		for i := range report.Differences {
			if d := &report.Differences[i]; d.Kind == record.EndedInStore {
				ended = append(ended, string(d.UID))
			}
		}
		if len(ended) > 0 {
			event = event.Strs("uids", ended)
		}
		event.Int("in_store", report.InStore).Int("in_journal", report.InJournal).Int(
			"repaired", report.Repaired).Msg("audited")
	}
}

func differenceKinds() []string {
	return []string{record.MissingInStore, record.EndedInStore, record.MissingInJournal, record.StoreOlder,
		record.StoreNewer}
}
