package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/bridge"
	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/election"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/store/journal"
)

// Options are what an instance is given besides its settings.
type Options struct {
	// Version is the binary's.
	Version string
	Log     zerolog.Logger
}

// machine is a machine id that must be kept while ids are given out.
type machine interface {
	scheduler.Machine
	Run(ctx context.Context) error
}

// App is one instance. Two may run in one process.
type App struct {
	p         parts
	log       zerolog.Logger
	registry  *prometheus.Registry
	listener  net.Listener
	probes    net.Listener // nil where none is wanted
	clock     *scheduler.Clock
	publisher *bridge.Publisher
	intake    *bridge.Intake
	rejects   *bridge.Rejects
	requests  *bridge.Service
	nudge     *bridge.Nudge
	resign    *bridge.Resign
	pauses    *bridge.Pauses
	natsClock *bridge.ClockSampler
	scheduler *scheduler.Scheduler
	gate      *gate
	topics    *scheduler.Topics
	elector   election.Elector
	cluster   *cluster
	api       *api.Server
	health    *health
	same      *sameStore
	lease     leaseBox
	recovery  *journal.Recovery
	mending   atomic.Pointer[mender] // of the last leadership
	writer    *journal.Writer        // nil with the journal off
	drainer   *journal.Drainer       // likewise
	desk      *desk                  // likewise
	// differences are what the last audit found, by kind; nil with the journal off.
	differences *prometheus.GaugeVec
}

// parts are what differs between a production instance and tarry dev.
type parts struct {
	options   Options
	namespace string
	instance  string
	address   func(net.Addr) string
	listen    string
	token     string
	durable   string
	holds     string // what the store is called in logs and /readyz
	elects    string // and what elects
	body      int64
	prefix    string
	replicas  int
	maxBytes  int64
	rejects   config.Rejects
	admin     bool // serve the calls of operators on NATS

	store    store
	journal  journalParts
	recorder *recorder
	identity func(context.Context) (string, error)           // the store's name; nil where there is but one
	prepare  func(context.Context) error                     // until it returns nil, nothing is accepted
	clocks   []func(context.Context, *scheduler.Clock) error // watchers of more clocks
	machine  machine
	conn     *nats.Conn
	broken   chan error // capacity 1: why conn was closed for good; nil where that cannot be
	elect    func(a *App, address string) (election.Elector, error)
	close    []func() // in reverse, last of all

	topics      topicSettings
	http        config.HTTP
	deadKeep    time.Duration
	endedKeep   time.Duration
	claimBatch  int
	claimBytes  int
	pending     int
	publishWait time.Duration
	session     time.Duration // for how long a dead leader's publishes may be repeated
	attempts    int
	callTimeout time.Duration
	stopTimeout time.Duration
}

// newApp joins the parts. On error everything they opened is closed.
func newApp(p parts) (a *App, err error) {
	defer func() {
		if err != nil {
			closeAll(p.close)
		}
	}()
	a = &App{p: p, registry: prometheus.NewRegistry(), clock: scheduler.NewClock(scheduler.System())}
	a.log = p.options.Log.With().Str("ns", p.namespace).Str("instance", p.instance).Logger()
	a.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	if a.listener, err = net.Listen("tcp", p.listen); err != nil {
		hint := ""
		if errors.Is(err, syscall.EADDRINUSE) {
			hint = "; choose another with --http.listen (is another tarry running?)"
		}
		return nil, fmt.Errorf("listen for http: http.listen %q: %w%s", p.listen, err, hint)
	}
	a.p.close = append(a.p.close, func() { _ = a.listener.Close() })
	p.close = a.p.close
	if at := p.http.ProbeListen; at != "" {
		if a.probes, err = net.Listen("tcp", at); err != nil {
			return nil, fmt.Errorf("listen for probes: http.probe_listen %q: %w", at, err)
		}
		a.p.close = append(a.p.close, func() { _ = a.probes.Close() })
		p.close = a.p.close
	}
	a.topics = &scheduler.Topics{}
	if err := p.topics.use(a.topics); err != nil {
		return nil, err
	}
	a.registry.MustRegister(newBacklog(a))
	steps := []func() error{a.wireNATS, a.wireJournal, a.wireScheduler, a.wireIntake, a.wireElection, a.wireHTTP,
		a.wireRequests}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *App) wireNATS() (err error) {
	a.publisher, err = bridge.NewPublisher(bridge.PublisherConfig{
		Conn: a.p.conn, Namespace: a.p.namespace,
		Own:     []string{bridge.StreamName(a.p.namespace), bridge.RejectsName(a.p.namespace)},
		Timeout: a.p.publishWait, Pending: 2 * a.p.pending,
		Topics: a.topics, Window: a.p.session + 2*a.p.publishWait, Lease: a.lease.remaining, Log: a.log,
		Registerer: a.registry,
	})
	if err != nil {
		return fmt.Errorf("build publisher: %w", err)
	}
	a.nudge, err = bridge.NewNudge(bridge.NudgeConfig{
		Conn: a.p.conn, Namespace: a.p.namespace, Log: a.log,
		Heard: func(bucket int, due scheduler.Milli) { a.scheduler.Nudge(bucket, due) },
	})
	if err != nil {
		return fmt.Errorf("build nudge: %w", err)
	}
	a.pauses, err = bridge.NewPauses(bridge.PausesConfig{
		Conn: a.p.conn, Namespace: a.p.namespace, Log: a.log,
		Read: func(ctx context.Context) (bool, error) { return a.scheduler.ReadPauses(ctx) },
	})
	if err != nil {
		return fmt.Errorf("build pauses: %w", err)
	}
	a.natsClock, err = bridge.NewClockSampler(
		bridge.ClockConfig{Conn: a.p.conn, Namespace: a.p.namespace, Clock: a.clock, Log: a.log})
	if err != nil {
		return fmt.Errorf("build nats clock: %w", err)
	}
	return nil
}

func (a *App) wireScheduler() (err error) {
	a.scheduler, err = scheduler.New(scheduler.Config{
		Timeline: a.p.store, Publisher: a.publisher, Clock: a.clock,
		IDs:      scheduler.NewIDs(a.p.machine, time.Now),
		MaxDelay: wire.MaxDelay, EndedKeep: a.p.endedKeep, NamesKeep: a.namesKeep(),
		NamesSure:  a.p.journal.mode == journal.Sync,
		ClaimBatch: a.p.claimBatch, ClaimBytes: a.p.claimBytes,
		Pending: a.p.pending, Attempts: a.p.attempts, CallTimeout: a.p.callTimeout, StopTimeout: a.p.stopTimeout,
		Topics: a.topics, DeadKeep: a.p.deadKeep, Whole: a.whole, Journal: a.answers(), Announce: a.nudge.Announce,
		AskPauses: a.pauses.Ask,
		Backlog:   func(ctx context.Context) (uint64, error) { return a.intake.Backlog(ctx) },
		Passed:    func(ctx context.Context) bool { return a.intake.Passed(ctx) }, Log: a.log, Registerer: a.registry,
	})
	if err != nil {
		return fmt.Errorf("build scheduler: %w", err)
	}
	a.health = newHealth(a)
	a.same = &sameStore{a: a}
	a.gate = &gate{service: a.scheduler, same: a.same}
	return nil
}

func (a *App) wireIntake() (err error) {
	a.intake, err = bridge.NewIntake(bridge.IntakeConfig{
		Conn: a.p.conn, Namespace: a.p.namespace, Prefix: a.p.prefix, Replicas: a.p.replicas, MaxBytes: a.p.maxBytes,
		RejectBytes: a.p.rejects.MaxBytes, RejectsPerSubject: int64(a.p.rejects.PerSubject),
		Accept: a.gate, Topics: a.topics, Clock: a.clock, SizeLimit: int(a.p.body), Log: a.log, Registerer: a.registry,
		Stamps: a.natsClock, Buckets: a.p.store.Buckets(),
	})
	if err != nil {
		return fmt.Errorf("build intake: %w", err)
	}
	a.rejects, err = bridge.NewRejects(bridge.RejectsConfig{
		Conn: a.p.conn, Namespace: a.p.namespace, Prefix: a.p.prefix, SizeLimit: int(a.p.body),
	})
	if err != nil {
		return fmt.Errorf("build rejects: %w", err)
	}
	return nil
}

func (a *App) wireElection() (err error) {
	if a.elector, err = a.p.elect(a, a.p.address(a.listener.Addr())); err != nil {
		return fmt.Errorf("build elector: %w", err)
	}
	a.cluster = &cluster{elector: a.elector}
	a.resign, err = bridge.NewResign(bridge.ResignConfig{
		Conn: a.p.conn, Namespace: a.p.namespace, Instance: a.p.instance, Do: a.cluster.resignHere, Log: a.log,
	})
	if err != nil {
		return fmt.Errorf("build resign: %w", err)
	}
	a.cluster.ask = a.resign.Ask
	return nil
}

func (a *App) wireHTTP() (err error) {
	secure, err := api.NewTLS(api.TLSFiles(a.p.http.TLS), a.log)
	if err != nil {
		return err
	}
	a.api, err = api.New(api.Config{
		Service: a.gate, Cluster: a.cluster, Ready: a.health.checks,
		Namespace: a.p.namespace, Version: a.p.options.Version, Token: a.p.token, Tokens: tokensOf(a.p.http.Tokens),
		TLS: secure, Hosts: a.p.http.Hosts, Prefix: a.p.prefix, Durable: a.p.durable,
		Rejects: a.rejects, Journal: a.journalDoor(), JournalMode: a.p.journal.mode.String(), Now: a.clock.Now,
		MaxPayload: a.p.conn.MaxPayload, MaxBody: a.p.body, StopTimeout: a.p.stopTimeout,
		HeaderLimit: int(a.p.http.HeaderLimit), HeaderTimeout: a.p.http.HeaderTimeout,
		ReadTimeout: a.p.http.ReadTimeout, IdleTimeout: a.p.http.IdleTimeout,
		Connections: a.p.http.Connections,
		Gatherer:    a.registry, Registerer: a.registry, Log: a.log,
	})
	if err != nil {
		return fmt.Errorf("build http: %w", err)
	}
	return nil
}

// wireRequests puts the calls of HTTP on NATS too; those of operators where the
// settings say so.
func (a *App) wireRequests() (err error) {
	var admin map[string]bridge.Call
	if a.p.admin {
		admin = calls(a.api.Admins())
	}
	a.requests, err = bridge.NewService(bridge.ServiceConfig{
		Conn: a.p.conn, Namespace: a.p.namespace, Prefix: a.p.prefix, Scheduler: a.gate, SizeLimit: int(a.p.body),
		Instance: a.p.instance, Version: a.p.options.Version, Durable: a.p.durable, Log: a.log,
		Read: calls(a.api.Reads()), Admin: admin,
	})
	if err != nil {
		return fmt.Errorf("build request api: %w", err)
	}
	return nil
}

// calls are those of one door as the other takes them.
func calls(from map[string]api.Call) map[string]bridge.Call {
	all := make(map[string]bridge.Call, len(from))
	for name, call := range from {
		all[name] = bridge.Call(call)
	}
	return all
}

// Addr is where HTTP is served.
func (a *App) Addr() net.Addr { return a.listener.Addr() }

// errStopped ends the inner parts once the edges are done.
var errStopped = errors.New("stopped")

// Run serves until ctx ends, then stops gracefully. An error is one that
// starting again would not mend.
func (a *App) Run(ctx context.Context) error {
	defer closeAll(a.p.close)
	innerCtx, stopInner := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopInner(errStopped)
	inner, innerCtx := errgroup.WithContext(innerCtx)
	edges, edgeCtx := errgroup.WithContext(ctx)

	// An inner part that fails takes the edges with it.
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
	start("resign", a.resign.Run)
	start("pauses", a.pauses.Run)
	start("nats clock", a.natsClock.Run)
	start("health", a.health.run)
	start("health of the journal", a.health.runJournal)
	start("nats", a.watchNATS)
	stopJournal := a.keepJournal(ctx)
	for _, watch := range a.p.clocks {
		start("clock", func(ctx context.Context) error { return watch(ctx, a.clock) })
	}

	edges.Go(func() error { return a.api.Run(edgeCtx, a.listener) })
	if a.probes != nil {
		edges.Go(func() error { return a.api.RunProbes(edgeCtx, a.probes) })
	}
	// The election begins at once, so that /readyz and the log tell of it however
	// long the store stays away. Without a prepared store health.fit lets nobody
	// stand.
	edges.Go(func() error { return a.elector.Run(edgeCtx, a.lead) })
	edges.Go(func() error { return a.prepareJournal(edgeCtx) })
	edges.Go(func() error {
		if err := a.prepare(edgeCtx); err != nil {
			return err
		}
		start("machine id", a.p.machine.Run)
		if a.same.admit(edgeCtx) != nil {
			return nil
		}
		start("same store", a.same.run)
		a.gate.open.Store(true)
		working, workCtx := errgroup.WithContext(edgeCtx)
		working.Go(func() error { return a.intake.Run(workCtx) })
		working.Go(func() error { return a.requests.Run(workCtx) })
		return working.Wait()
	})
	a.log.Info().Str("address", a.listener.Addr().String()).Str("version", a.p.options.Version).Msg("serving http")
	edgeErr := edges.Wait()
	stopInner(errStopped)
	innerErr := inner.Wait()
	stopJournal()
	for _, err := range []error{innerErr, edgeErr} {
		if err != nil && !errors.Is(err, context.Canceled) {
			a.log.Error().Err(err).Msg("stopped")
			return err
		}
	}
	a.log.Info().Msg("stopped")
	return nil
}

// watchNATS ends the instance when the client has closed its connection for
// good, which only a new process mends: a standby must not wait on a leader
// that can reach nobody.
func (a *App) watchNATS(ctx context.Context) error {
	select {
	case err := <-a.p.broken:
		return fmt.Errorf("connection closed for good: %w", err)
	case <-ctx.Done():
		return nil
	}
}

// prepare waits until the store may hold messages. It logs what it waits for,
// and gives up only when waiting cannot help.
func (a *App) prepare(ctx context.Context) error {
	pause := 200 * time.Millisecond
	for {
		call, cancel := context.WithTimeout(ctx, a.p.callTimeout)
		err := a.p.prepare(call)
		cancel()
		if err == nil {
			a.health.prepared.Store(true)
			return nil
		}
		if errors.Is(err, errUnfit) {
			return fmt.Errorf("prepare the store: %w", err)
		}
		if ctx.Err() != nil {
			return nil
		}
		a.log.Warn().Err(err).Dur("retry", pause).Msg("waiting for " + a.p.holds)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(pause*2, 5*time.Second)
	}
}

func closeAll(fns []func()) {
	for i := len(fns) - 1; i >= 0; i-- {
		fns[i]()
	}
}
