package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/bridge"
	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/election"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/store/journal"
)

// journalParts are what an instance's journal is made of; mode Off has no store.
type journalParts struct {
	mode    journal.Mode
	store   journal.Store
	prepare func(context.Context) error // of the database; nil where there is nothing to prepare
	keep    time.Duration
	names   time.Duration // how long names are looked up
	window  time.Duration
	audit   time.Duration
	outbox  int64 // how many bytes of changes a bucket keeps for it
	// volatile: the outbox dies with this process, so a stop empties it.
	volatile bool
}

// store is what a timeline must be here: one that can be made whole.
type store interface {
	scheduler.Timeline
	scheduler.Mending
	scheduler.Recoverable
}

// recorder joins the timeline, which is made first, to the writer of the journal,
// and gives it this instance's address.
type recorder struct {
	writer  atomic.Pointer[journal.Writer]
	address atomic.Pointer[string]
}

// recording is what the timeline is given; nil with the journal off.
func (r *recorder) recording(mode journal.Mode, instance string, limit int64) *scheduler.Recording {
	if mode == journal.Off {
		return nil
	}
	return &scheduler.Recording{Instance: instance, Limit: limit, Address: r.where, Wrote: func(e scheduler.Entry) {
		if w := r.writer.Load(); w != nil {
			w.Wrote(e)
		}
	}}
}

func (r *recorder) where() string {
	if a := r.address.Load(); a != nil {
		return *a
	}
	return ""
}

const (
	// journalTimeout bounds one call of the database.
	journalTimeout = 5 * time.Second
	recoverPause   = 200 * time.Millisecond
	// auditDelay keeps the audit after a recovery out of the first rush.
	auditDelay = 10 * time.Second
)

// wireJournal builds what moves changes to the journal and back.
func (a *App) wireJournal() (err error) {
	address := a.p.address(a.listener.Addr())
	a.p.recorder.address.Store(&address)
	j := &a.p.journal
	a.recovery = journal.NewRecovery(journal.RecoveryConfig{
		Store: j.store, Timeline: a.p.store, Mode: j.mode, Window: j.window, EndedKeep: a.p.endedKeep, Clock: a.clock,
		Timeout: journalTimeout, Log: a.log, At: failpoint(),
	})
	if j.mode == journal.Off {
		return nil
	}
	a.writer = journal.NewWriter(journal.WriterConfig{
		Store: j.store, Outbox: a.p.store, Mode: j.mode, Timeout: journalTimeout, Log: a.log, Registerer: a.registry,
		Fenced: a.p.store.Renew, At: failpoint(),
	})
	a.p.recorder.writer.Store(a.writer)
	a.drainer = journal.NewDrainer(journal.DrainerConfig{
		Store: j.store, Timeline: a.p.store, Buckets: a.p.store.Buckets(), Clock: a.clock, Duty: a.drains, Keep: j.keep,
		Timeout: journalTimeout, Log: a.log, Registerer: a.registry,
	})
	a.differences = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tarry_audit_differences", Help: "Messages that the last audit by this instance found different in the " +
			"store and the journal, before it mended them.",
	}, []string{"kind"})
	a.registry.MustRegister(a.differences)
	for _, kind := range differenceKinds() {
		a.differences.WithLabelValues(kind).Set(0)
	}
	broker, err := bridge.NewBroker(a.p.conn, a.p.namespace)
	if err != nil {
		return fmt.Errorf("build redelivery: %w", err)
	}
	broker.Topics = a.topics
	a.desk = &desk{a: a, broker: broker}
	return nil
}

// keepJournal runs what moves changes to the journal until it is stopped, which
// happens after everything that makes changes has ended.
func (a *App) keepJournal(ctx context.Context) (stop func()) {
	if a.writer == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var group errgroup.Group
	group.Go(func() error { return a.writer.Run(ctx) })
	group.Go(func() error { return a.drainer.Run(ctx) })
	return func() {
		cancel()
		if err := group.Wait(); err != nil {
			a.log.Warn().Err(err).Msg("journal writer")
		}
		if a.p.journal.volatile {
			a.emptyOutbox(ctx)
		}
	}
}

// emptyOutbox commits what the writer had left to the drainer, which has ended.
func (a *App) emptyOutbox(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), journalTimeout)
	defer cancel()
	for bucket := range a.p.store.Buckets() {
		_, _, err := journal.Drain(ctx, a.p.journal.store, a.p.store, bucket, 0, journalTimeout, a.log)
		if err != nil && !errors.Is(err, scheduler.ErrUncertified) {
			a.log.Warn().Err(err).Int("bucket", bucket).Msg("stopped with changes that are not in the journal")
		}
	}
}

// journalDoor is the journal as HTTP asks it; nil with the journal off.
func (a *App) journalDoor() api.Journal {
	if a.desk == nil {
		return nil
	}
	return a.desk
}

// drains reports whether this instance drains what nobody committed: it leads, or
// nobody does.
func (a *App) drains(ctx context.Context) bool {
	if a.elector.State().Role == election.Leading {
		return true
	}
	_, led, err := a.elector.Leader(ctx)
	return err != nil || !led
}

// answers is what the scheduler's answers wait for; nil with the journal off.
func (a *App) answers() scheduler.Journal {
	if a.writer == nil {
		return nil
	}
	return answered{a.writer, a.p.journal.store, a.log}
}

// namesKeep is how long the journal is asked about names; 0 with the journal off.
func (a *App) namesKeep() time.Duration {
	if a.writer == nil {
		return 0
	}
	return min(a.p.journal.names, a.p.journal.keep)
}

// answered is the journal as the scheduler's answers need it.
type answered struct {
	*journal.Writer
	store journal.Store
	log   zerolog.Logger
}

// Find looks up what the timeline does not know.
func (j answered) Find(ctx context.Context, ref scheduler.Ref) ([]scheduler.Info, error) {
	records, err := j.store.Find(ctx, ref, findLimit)
	if err != nil {
		j.log.Warn().Err(err).Msg("the journal does not answer")
		return nil, fmt.Errorf("%w: the journal does not answer", scheduler.ErrUnavailable)
	}
	infos := make([]scheduler.Info, len(records))
	for i := range records {
		infos[i] = records[i].Info
	}
	return infos, nil
}

// Remembered returns the messages that have the uids and names of pushes.
func (j answered) Remembered(ctx context.Context, pushes []*scheduler.Message) ([][]scheduler.Info, error) {
	records, err := j.store.Names(ctx, pushes)
	if err != nil {
		return nil, fmt.Errorf("%w: the journal does not answer: %w", scheduler.ErrUnavailable, err)
	}
	infos := make([][]scheduler.Info, len(records))
	for i := range records {
		for k := range records[i] {
			infos[i] = append(infos[i], records[i][k].Info)
		}
	}
	return infos, nil
}

// WritePause keeps a change of pauses.
func (j answered) WritePause(ctx context.Context, c scheduler.PauseChange) error {
	if err := j.store.WritePause(ctx, c); err != nil {
		j.log.Warn().Err(err).Str("pattern", c.Pattern).Bool("paused", !c.Resumed).Msg(
			"the journal does not take a pause")
		return errors.New("the journal does not answer") // why is in the log: it may name hosts
	}
	return nil
}

// findLimit is how many messages of one name are looked at in the journal.
const findLimit = 20

// prepareJournal waits until the database may hold the journal. Until then it
// answers nothing, as if it were away.
func (a *App) prepareJournal(ctx context.Context) error {
	if a.p.journal.prepare == nil {
		return nil
	}
	for wait := recoverPause; ; wait = min(2*wait, 5*time.Second) {
		call, cancel := context.WithTimeout(ctx, 6*journalTimeout) // migrations too
		err := a.p.journal.prepare(call)
		cancel()
		if err == nil {
			a.log.Info().Str("mode", a.p.journal.mode.String()).Msg("journal is fit")
			return nil
		}
		if errors.Is(err, journal.ErrUnfit) {
			return fmt.Errorf("prepare the journal: %w", err)
		}
		if ctx.Err() != nil {
			return nil
		}
		a.log.Warn().Err(err).Dur("retry", wait).Msg("waiting for the journal")
		if !rest(ctx, wait) {
			return nil
		}
	}
}

// rest waits for d; it reports whether ctx still stands.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// audit compares everything now and then, soon after a recovery, and mends what
// differs.
func (a *App) audit(ctx context.Context, recovered <-chan struct{}) error {
	wait := a.p.journal.audit
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
		wait = a.p.journal.audit
		report, err := a.desk.Verify(ctx, scheduler.VerifyRequest{Repair: true}, nil)
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
		event.Int("in_store", report.InStore).Int("in_journal", report.InJournal).Int(
			"repaired", report.Repaired).Msg("audited")
	}
}

func differenceKinds() []string {
	return []string{scheduler.MissingInStore, scheduler.MissingInJournal, scheduler.StoreOlder, scheduler.StoreNewer}
}
