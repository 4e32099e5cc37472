package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/publish"
	"github.com/tarry-mq/tarry/bridge/rejects"
	"github.com/tarry-mq/tarry/bridge/request"
	"github.com/tarry-mq/tarry/bridge/seeds"
	"github.com/tarry-mq/tarry/bridge/webhook"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/lead"
	"github.com/tarry-mq/tarry/scheduler/steer"
	"github.com/tarry-mq/tarry/store/journal"
)

// Options configure an instance beyond its settings.
type Options struct {
	// Version is the version of the binary.
	Version string
	Log     zerolog.Logger
}

// App is one instance. Two may run in one process.
type App struct {
	*opened
	clock     *scheduler.Clock
	publisher *publish.Publisher
	contents  *intake.Contents
	intake    *intake.Intake
	rejects   *rejects.Rejects
	requests  *request.Service
	nudge     *request.Nudge
	resign    *request.Resign
	others    *others
	pauses    *request.Pauses
	natsClock *intake.ClockSampler
	scheduler *steer.Scheduler
	leader    *lead.Leader
	gate      *gate
	instance  instance // what the APIs ask
	silence   silence  // of the journal
	roster    *roster
	lost      prometheus.Counter // nil with the journal off
	ledAt     struct {           // what led knows
		sync.Mutex
		err  error
		read time.Time
	}
	topics   *scheduler.Topics
	webhooks *webhook.Service
	*cluster
	api        *api.Server
	doors      *seeds.Doors
	pulled     seeds.Stats
	health     *health
	figures    *figures
	pace       *pace
	events     *scheduler.Events
	acts       acts
	viewing    viewing
	same       *sameStore
	recovery   *journal.Recovery
	mending    atomic.Pointer[journal.Mender] // of the last leadership
	drainer    *journal.Drainer               // nil with the journal off
	journalAPI *journalAPI                    // likewise
	// reconciler reconciles the store with the journal; nil with the journal off.
	reconciler *journal.Reconciler
	// differences counts what the last audit found, by kind; nil with the journal off.
	differences *prometheus.GaugeVec
}

// New builds an instance from its settings. The caller must run it or close it.
func New(ctx context.Context, cfg config.Serve, options Options) (*App, error) {
	o, err := open(ctx, cfg, options)
	if err != nil {
		return nil, err
	}
	return join(o)
}

// join builds an instance from the opened parts. On error it closes them.
func join(o *opened) (a *App, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, o.Close())
		}
	}()
	a = &App{opened: o, clock: scheduler.NewClock(scheduler.System()), topics: &scheduler.Topics{}}
	a.events = scheduler.NewEvents(a.cfg.Instance, a.clock, a.registry, a.cfg.NATS.Events)
	a.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := useTopics(a.topics, a.cfg); err != nil {
		return nil, err
	}
	// Each step builds on the parts of the steps before.
	steps := []func() error{a.wireNATS, a.wireScheduler, a.wireWebhooks, a.wireIntake, a.wireJournal, a.wireElection,
		a.wireDrainer, a.wireHTTP, a.wireRequests}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	a.registry.MustRegister(newChecks(a.health))
	return a, nil
}

func (a *App) wireNATS() (err error) {
	a.publisher, err = publish.New(publish.Config{
		Conn: a.conn, Namespace: a.cfg.Namespace,
		Own:     []string{link.StreamName(a.cfg.Namespace), link.RejectsName(a.cfg.Namespace)},
		Timeout: a.cfg.Publish.Timeout, Pending: 2 * a.cfg.Publish.Pending,
		Topics: a.topics, Window: a.cfg.ZooKeeper.Session + 2*a.cfg.Publish.Timeout, Lease: leaseLeft, Log: a.log,
		Registerer: a.registry,
	})
	if err != nil {
		return fmt.Errorf("build publisher: %w", err)
	}
	a.contents = intake.NewContents(a.conn, a.cfg.Namespace)
	a.natsClock = intake.NewClockSampler(
		intake.ClockConfig{Conn: a.conn, Namespace: a.cfg.Namespace, Clock: a.clock, Log: a.log})
	return nil
}

// wireScheduler builds the leader first: the scheduler informs it, here or through other instances.
func (a *App) wireScheduler() (err error) {
	a.same = &sameStore{opened: a.opened}
	a.gate = &gate{same: a.same}
	a.health = newHealth(a)
	a.figures = &figures{a: a}
	a.roster = &roster{a: a, cfg: a.cfg}
	a.leader, err = lead.New(lead.Config{
		Timeline: a.store, Publisher: a.publisher, Clock: a.clock, Topics: a.topics, Journal: a.answers(),
		Intake: a.contents.Consuming, EndedKeep: a.cfg.Ended.Keep,
		ClaimBatch: a.cfg.Claim.Batch, ClaimBytes: int(a.cfg.Claim.Bytes),
		Pending: a.cfg.Publish.Pending, Attempts: a.cfg.Attempts.Limit, CallTimeout: a.callTimeout(),
		StopTimeout: a.cfg.Stop.Timeout, Whole: a.whole, Admit: a.gate.admit, Log: a.log, Registerer: a.registry,
		Over: a.pulled.Over, Hasten: a.hasten, Events: a.events,
	})
	if err != nil {
		return fmt.Errorf("build leader: %w", err)
	}
	a.nudge = request.NewNudge(request.NudgeConfig{
		Conn: a.conn, Namespace: a.cfg.Namespace, Log: a.log,
		Heard: a.heard, HeardTopic: a.heardTopic,
	})
	a.pauses = request.NewPauses(request.PausesConfig{
		Conn: a.conn, Namespace: a.cfg.Namespace, Log: a.log,
		Read: a.leader.ReadPauses,
	})
	a.scheduler, err = steer.New(scheduler.Config{
		Timeline: a.store, Clock: a.clock, IDs: scheduler.NewIDs(a.machine, time.Now),
		MaxDelay: wire.MaxDelay, EndedKeep: a.cfg.Ended.Keep, NamesKeep: a.namesKeep(),
		NamesSure:   a.journal.mode == journal.Sync,
		CallTimeout: a.callTimeout(), StopTimeout: a.cfg.Stop.Timeout,
		Topics: a.topics, DeadKeep: a.cfg.Dead.Keep, Journal: a.answers(),
		Admit: a.gate.admit, Announce: a.announce, AnnouncePull: a.announcePull, AskPauses: a.askPauses,
		Backlog: a.contents.Backlog, Passed: a.contents.Passed, Events: a.events, Log: a.log, Registerer: a.registry,
	})
	if err != nil {
		return fmt.Errorf("build scheduler: %w", err)
	}
	a.instance = instance{Scheduler: a.scheduler, Leader: a.leader, led: a.led}
	if a.journal.mode != journal.Off {
		a.instance.store = a.store
	}
	return nil
}

func (a *App) wireWebhooks() error {
	a.webhooks = webhook.New(webhook.Config{Source: a.scheduler, Topics: a.topics, Clock: a.clock,
		Instance: a.cfg.Instance, Version: a.options.Version, Own: a.own, Drain: a.cfg.Stop.Timeout, Events: a.events,
		Log: a.log, Registerer: a.registry})
	return a.useWebhooks(a.cfg)
}

func (a *App) wireIntake() (err error) {
	var reject func(context.Context, *scheduler.Rejected) error
	if a.writer != nil {
		reject = a.scheduler.Reject
	}
	a.intake, err = intake.New(intake.Config{
		Conn: a.conn, Namespace: a.cfg.Namespace, Prefix: a.cfg.NATS.Prefix,
		Replicas: a.cfg.NATS.Intake.Replicas, MaxBytes: a.cfg.NATS.Intake.MaxBytes,
		RejectBytes: a.cfg.NATS.Rejects.MaxBytes, RejectsPerSubject: int64(a.cfg.NATS.Rejects.PerSubject),
		Accept: a.scheduler, Reject: reject, Contents: a.contents, Topics: a.topics, Clock: a.clock,
		Events:    a.events,
		SizeLimit: a.cfg.HTTP.LargestMessage(), Log: a.log,
		Registerer: a.registry,
		Stamps:     a.natsClock, Buckets: a.store.Buckets(),
	})
	if err != nil {
		return fmt.Errorf("build intake: %w", err)
	}
	a.rejects = rejects.New(rejects.Config{
		Conn: a.conn, Namespace: a.cfg.Namespace, Prefix: a.cfg.NATS.Prefix, SizeLimit: a.cfg.HTTP.LargestMessage(),
	})
	return nil
}

func (a *App) wireElection() (err error) {
	a.resign = request.NewResign(request.ResignConfig{
		Conn: a.conn, Namespace: a.cfg.Namespace, Instance: a.cfg.Instance, Log: a.log,
	})
	a.cluster = &cluster{ask: a.resign.Ask}
	a.pace = &pace{a: a, gather: a.registry}
	a.others = &others{a: a, Peers: request.NewPeers(request.PeersConfig{
		Conn: a.conn, Namespace: a.cfg.Namespace, Instance: a.cfg.Instance, Tell: a.tell, Log: a.log,
	})}
	if a.node, a.race, err = a.elect(); err != nil {
		return fmt.Errorf("build election: %w", err)
	}
	return nil
}

func (a *App) wireHTTP() (err error) {
	secure, err := api.NewTLS(api.TLSFiles(a.cfg.HTTP.TLS), a.log)
	if err != nil {
		return err
	}
	proxies, err := networks("http.proxies", a.cfg.HTTP.Proxies)
	if err != nil {
		return err
	}
	figures := prometheus.NewRegistry() // what it has asks the store, for those who scrape
	figures.MustRegister(newBacklog(a.figures))
	a.api, err = api.New(api.Config{
		Config: ops.Config{
			Service: a.instance, Settings: a.topics, Webhooks: a.webhooks.View, Cluster: a.cluster,
			Clocks: a.health.clocksErr, Overview: a.overview, Hour: a.pace.hour,
			Events: a.happened, Actions: a.acted, Details: a.details, Act: a.acts.add,
			Namespace: a.cfg.Namespace, Instance: a.cfg.Instance, Version: a.options.Version,
			Prefix: a.cfg.NATS.Prefix, Durable: a.durable(),
			Rejects: a.rejects, Intake: a.contents, Journal: a.journalDoor(), JournalMode: a.journal.mode.String(),
			Now: a.clock.Now, MaxPayload: a.conn.MaxPayload, SizeLimit: a.cfg.HTTP.LargestMessage(), Log: a.log,
		},
		Ready: a.health.checks, Token: a.cfg.HTTP.Token.Reveal(),
		Tokens: tokensOf(a.cfg.HTTP.Tokens), SeedsToken: a.cfg.Seeds.Token,
		TLS: secure, Hosts: a.cfg.HTTP.Hosts, Proxies: proxies, MaxBody: a.cfg.HTTP.BodyLimit,
		StopTimeout: a.cfg.Stop.Timeout,
		HeaderLimit: int(a.cfg.HTTP.HeaderLimit), HeaderTimeout: a.cfg.HTTP.HeaderTimeout,
		ReadTimeout: a.cfg.HTTP.ReadTimeout, IdleTimeout: a.cfg.HTTP.IdleTimeout,
		Connections: a.cfg.HTTP.Connections,
		Console:     a.cfg.HTTP.Console, Gatherer: prometheus.Gatherers{a.registry, figures}, Registerer: a.registry,
	})
	if err != nil {
		return fmt.Errorf("build http: %w", err)
	}
	a.doors = seeds.Mount(a.api, a.topics, &a.pulled)
	return nil
}

// networks reads the networks that a setting names.
func networks(setting string, texts []string) (all []netip.Prefix, err error) {
	all = make([]netip.Prefix, len(texts))
	for i, network := range texts {
		if all[i], err = config.ParseNetwork(network); err != nil {
			return nil, fmt.Errorf("%s: %w", setting, err)
		}
	}
	return all, nil
}

// wireRequests also serves the operations on NATS; the operators' ones only if the settings say so.
func (a *App) wireRequests() (err error) {
	a.requests, err = request.NewService(request.ServiceConfig{
		Conn: a.conn, Namespace: a.cfg.Namespace, Prefix: a.cfg.NATS.Prefix, Scheduler: a.instance,
		Topics: a.topics, SizeLimit: a.cfg.HTTP.LargestMessage(),
		Instance: a.cfg.Instance, Version: a.options.Version, Durable: a.durable(), Log: a.log,
		Ops: a.api.Ops(), Admin: a.cfg.NATS.Admin,
	})
	if err != nil {
		return fmt.Errorf("build request api: %w", err)
	}
	return nil
}

// Addr returns the address on which HTTP is served.
func (a *App) Addr() net.Addr { return a.listener.Addr() }

// NATS returns the address on which the embedded nats-server listens.
func (a *App) NATS() string { return a.ns.ClientURL() }

// Data returns the directory in which an instance without Redis keeps its files. temporary reports that it is removed
// when the instance stops.
func (a *App) Data() (dir string, temporary bool) { return a.data, a.cfg.Data == "" }

// errStopped ends the inner parts once the edges have ended.
var errStopped = errors.New("stopped")

// Run serves until ctx ends, then stops gracefully. It returns an error only if restarting would not help, or if not
// everything could be closed.
func (a *App) Run(ctx context.Context) (err error) {
	defer func() {
		if left := a.Close(); left != nil {
			a.log.Warn().Err(left).Msg("not everything was closed")
			err = errors.Join(err, left)
		}
	}()
	innerCtx, stopInner := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopInner(errStopped)
	inner, innerCtx := errgroup.WithContext(innerCtx)
	edges, edgeCtx := errgroup.WithContext(ctx)

	// The failure of an inner part also ends the edges.
	edgeCtx, failEdges := context.WithCancelCause(edgeCtx)
	defer failEdges(nil)
	start := func(name string, run func(context.Context) error) {
		inner.Go(func() error {
			if err := run(innerCtx); err != nil && innerCtx.Err() == nil {
				err = fmt.Errorf("%s: %w", name, err)
				failEdges(err)
				return err
			}
			return nil
		})
	}
	start("publisher", a.publisher.Run)
	start("scheduler", a.scheduler.Serve)
	start("nudge", a.nudge.Run)
	start("resign", func(ctx context.Context) error { return a.resign.Run(ctx, a.resignHere) })
	start("pauses", a.pauses.Run)
	start("peers", a.others.Run)
	start("pace", a.pace.run)
	start("events", func(ctx context.Context) error { return request.Announce(ctx, a.conn, a.cfg.Namespace, a.events) })
	start("nats clock", a.natsClock.Run)
	start("health", a.health.run)
	start("health of the journal", a.health.runJournal)
	start("nats", a.watchNATS)
	start("buckets", a.watchBuckets)
	stopJournal := a.keepJournal(ctx)
	if a.watchClock != nil {
		start("clock", func(ctx context.Context) error { return a.watchClock(ctx, a.clock) })
	}

	var serving sync.WaitGroup // for callers that may send leases back
	serve := func(run func() error) {
		serving.Add(1)
		edges.Go(func() error {
			defer serving.Done()
			return run()
		})
	}
	serve(func() error { return a.api.Run(edgeCtx, a.listener) })
	if a.probes != nil {
		edges.Go(func() error { return a.api.RunProbes(edgeCtx, a.probes) })
	}
	if a.seeds != nil {
		serve(func() error { return a.api.RunSeeds(edgeCtx, a.seeds) })
	}
	edges.Go(func() error { // webhooks may take longer to stop than these leases last
		serving.Wait()
		a.doors.Close()
		return nil
	})
	// The election begins at once, so that /readyz and the log report it however long the store stays unreachable.
	// Without a prepared store, health.fit prevents a candidacy.
	edges.Go(func() error { return a.node.Run(edgeCtx) })
	edges.Go(func() error { return a.prepareJournal(edgeCtx) })
	edges.Go(func() error {
		if err := a.prepare(edgeCtx); err != nil {
			return err
		}
		start("machine id", a.machine.Run)
		if a.same.admit(edgeCtx, a.cluster) != nil {
			return nil
		}
		start("roster", a.roster.run)
		a.gate.open.Store(true)
		working, workCtx := errgroup.WithContext(edgeCtx)
		working.Go(func() error { return a.intake.Run(workCtx) })
		working.Go(func() error { return a.requests.Run(workCtx) })
		working.Go(func() error { return a.webhooks.Run(workCtx) })
		return working.Wait()
	})
	a.log.Info().Str("address", a.listener.Addr().String()).Str("version", a.options.Version).Msg("serving http")
	edgeErr := edges.Wait()
	stopInner(errStopped)
	innerErr := inner.Wait()
	stopJournal()
	for _, err := range []error{innerErr, edgeErr} {
		if err != nil && !errors.Is(err, context.Canceled) {
			if why := a.conn.LastError(); errors.Is(err, nats.ErrConnectionClosed) && why != nil {
				err = fmt.Errorf("%w, for good: %w", err, why) // another part noticed before watchNATS
			}
			a.log.Error().Err(err).Msg("stopped")
			return err
		}
	}
	a.sayLost(context.WithoutCancel(ctx))
	a.log.Info().Msg("stopped")
	return nil
}

// sayLost says how many messages end with a process that keeps nothing.
func (a *App) sayLost(ctx context.Context) {
	if !a.cfg.InMemory() || a.cfg.Data != "" {
		return
	}
	totals, _ := a.store.Totals(ctx, a.clock.Milli()) // memory answers
	n := 0
	for _, t := range totals {
		n += t.InFlight + t.Dead
		for _, w := range t.Waiting {
			n += w.Count
		}
	}
	if n > 0 {
		a.log.Warn().Int("messages", n).Msg("what waited ends with this process: --data DIR keeps it")
	}
}

// watchBuckets ends the instance when tarry rebucket has changed the number of buckets without it.
func (a *App) watchBuckets(ctx context.Context) error {
	select {
	case err := <-a.unfit:
		return err
	case <-ctx.Done():
		return nil
	}
}

// watchNATS ends the instance when the client has closed its connection for good, which only a new process can repair:
// no standby should have to wait for a leader that has no connection.
func (a *App) watchNATS(ctx context.Context) error {
	select {
	case err := <-a.broken:
		return fmt.Errorf("connection closed for good: %w", err)
	case <-ctx.Done():
		return nil
	}
}

// prepare waits until the store is ready to hold messages.
func (a *App) prepare(ctx context.Context) error {
	err := a.await(ctx, a.holds(), a.callTimeout(), errUnfit, a.prepareStore)
	if err == nil && ctx.Err() == nil {
		a.health.prepared.Store(true)
	}
	return err
}

// await calls prepare, each time for at most bound, until it returns nil or ctx ends. It logs what it waits for, and
// stops early only if waiting cannot help: on unfit.
func (a *App) await(ctx context.Context, what string, bound time.Duration, unfit error,
	prepare func(context.Context) error) error {
	for pause := recoverPause; ; pause = min(pause*2, 5*time.Second) {
		call, cancel := context.WithTimeout(ctx, bound)
		err := prepare(call)
		cancel()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unfit):
			return fmt.Errorf("prepare %s: %w", what, err)
		case ctx.Err() != nil:
			return nil
		}
		a.log.Warn().Err(err).Dur("retry", pause).Msg("waiting for " + what)
		if scheduler.Sleep(ctx, pause) != nil {
			return nil
		}
	}
}
