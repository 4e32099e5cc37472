package world_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/bridge/webhook"
	"github.com/tarry-mq/tarry/deploy/check/history"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/lead"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/steer"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/memory"
)

// process is an instance from its start to its end: what cmd/internal/app makes of the parts, over the doubles.
type process struct {
	*steer.Scheduler
	leader *lead.Leader
	web    *web
	hooks  *webhook.Service
	nats   *bridges // nil without a nats-server
	w      *world
	name   string
	number int
	skew   atomic.Int64 // of its clock

	clock      *scheduler.Clock
	line       *line
	db         *database
	writer     *journal.Writer // nil with the journal off
	reconciler *journal.Reconciler
	recovery   *journal.Recovery
	mender     atomic.Pointer[journal.Mender]
	leads      atomic.Bool
	until      atomic.Int64 // its leadership is certain, in microseconds

	cut    atomic.Int64  // until then it does not reach ZooKeeper, in microseconds
	frozen atomic.Int64  // until then it does nothing, likewise
	gone   chan struct{} // closed when it is killed
	dead   atomic.Bool
	stop   context.CancelFunc
	ended  sync.WaitGroup
}

func (p *process) isDead() bool { return p != nil && p.dead.Load() }

func (p *process) isFrozen() bool { return p != nil && time.Now().UnixMicro() < p.frozen.Load() }

func (p *process) isCut() bool { return time.Now().UnixMicro() < p.cut.Load() }

func (p *process) id() string {
	if p == nil {
		return "-"
	}
	return p.name
}

// ID is a scheduler.Machine's.
func (p *process) ID() (int, bool) { return p.number, true }

func (w *world) start(number int) *process {
	p := &process{w: w, name: fmt.Sprint("p", number), number: number, gone: make(chan struct{})}
	if w.wrong == "wall" { // of the three clocks one is wrong
		p.skew.Store(wrong(w.rnd.Int64N(int64(4*time.Second)) - int64(2*time.Second)))
	}
	started := time.Now()
	p.clock = scheduler.NewClock(scheduler.Local{
		Wall: func() time.Time { return time.Now().Add(time.Duration(p.skew.Load())).Round(0) },
		Mono: func() time.Duration { return time.Since(started) }})
	p.sample()
	p.line = &line{access{server: &w.redis.server, p: p, unsent: scheduler.ErrUnavailable,
		unsure: scheduler.ErrOutcomeUnknown, executes: func(p *process) { w.redis.caller = p }},
		func() *memory.Timeline { return w.redis.Timeline }}
	p.db = &database{access{server: &w.sql, p: p, unsent: errors.New("the database is away"),
		unsure: errors.New("the database did not answer"), executes: func(*process) {}}, w.db}
	registry := prometheus.NewRegistry()
	var out scheduler.Publisher = &consumers{w, p}
	if w.broker != nil {
		p.nats = w.broker.bridge(p, registry)
		out = p.nats.publisher
	}
	cfg := scheduler.Config{
		Timeline: p.line, IDs: scheduler.NewIDs(p, p.clock.Now), Clock: p.clock, MaxDelay: 3653 * 24 * time.Hour,
		EndedKeep: 10 * time.Minute, CallTimeout: time.Second, StopTimeout: 5 * time.Second, Topics: w.topics,
		Registerer: registry,
		Announce: func(bucket message.Bucket, due message.Milli) {
			p.broadcast(of("nudge", bucket), func(other *process) { other.leader.Nudge(bucket, due) })
		},
		AnnouncePull: func(topic string, due message.Milli) {
			p.hooks.Heard(topic, due)
			p.broadcast("hear "+topic, func(other *process) {
				other.Hear(topic, due)
				other.hooks.Heard(topic, due)
			})
		},
		AskPauses: p.askPauses,
	}
	if p.nats != nil {
		cfg.Backlog, cfg.Passed = p.nats.contents.Backlog, p.nats.contents.Passed
	}
	lc := lead.Config{Timeline: p.line, Publisher: out, Clock: p.clock, Topics: w.topics, EndedKeep: 10 * time.Minute,
		ClaimBatch: 500, ClaimBytes: 8 << 20, Pending: 4096, Attempts: 3, CallTimeout: time.Second,
		StopTimeout: 5 * time.Second, Registerer: registry,
		Hasten: func(bucket message.Bucket, earlier []scheduler.Earlier) { p.Hasten(bucket, earlier) }}
	if p.nats != nil {
		lc.Intake = p.nats.contents.Consuming
	}
	var drainer *journal.Drainer
	if mode := w.redis.mode; mode != journal.Off {
		p.writer = journal.NewWriter(journal.WriterConfig{Store: p.db, Mode: mode, Timeout: patience, Registerer: registry})
		p.reconciler = &journal.Reconciler{Store: p.db, Timeline: p.line, Buckets: buckets, Clock: p.clock,
			Instance: p.name, Timeout: patience}
		p.recovery = journal.NewRecovery(journal.RecoveryConfig{Store: p.db, Timeline: p.line, Mode: mode, Judged: true,
			Window: 10 * time.Minute, EndedKeep: 10 * time.Minute, Clock: p.clock, Timeout: patience})
		drainer = journal.NewDrainer(journal.DrainerConfig{Reconciler: p.reconciler, Registerer: registry,
			Duty: func(context.Context) bool {
				return p.leads.Load() || !w.bus.enter(p, "who leads").dead && w.zk.free()
			}})
		cfg.Journal = journal.Answers{Writer: p.writer, Reconciler: p.reconciler,
			During: func(ctx context.Context) (context.Context, func()) { return context.WithCancel(ctx) }}
		cfg.NamesKeep, cfg.NamesSure = time.Hour, mode == journal.Sync
		lc.Journal = cfg.Journal
		lc.Whole = func(ctx context.Context, term uint64, bucket message.Bucket) error {
			if m := p.mender.Load(); m != nil && m.Term() == term {
				return m.Whole(ctx, bucket)
			}
			return scheduler.ErrStaleTerm
		}
	}
	var err error
	if p.leader, err = lead.New(lc); err != nil {
		w.t.Fatal(err)
	}
	if p.Scheduler, err = steer.New(cfg); err != nil {
		w.t.Fatal(err)
	}
	p.web = p.listen(registry)
	p.hooks = webhook.New(webhook.Config{Source: p.Scheduler, Topics: w.topics, Clock: p.clock, Instance: p.name,
		Transport: &target{w, p}, Drain: 5 * time.Second, Registerer: registry})
	if err := p.hooks.Use([]webhook.Target{hook}, nil); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	keep, halt := context.WithCancel(context.Background())
	p.stop = cancel
	p.ended.Go(func() {
		defer halt()
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return p.Serve(ctx) })
		group.Go(func() error { p.stand(ctx); return nil })
		group.Go(func() error { return p.hooks.Run(ctx) })
		if p.nats != nil {
			p.nats.serve(ctx, p, group, registry)
		}
		_ = group.Wait()
		if p.nats != nil {
			p.nats.nc.Close()
		}
	})
	p.ended.Go(func() {
		for scheduler.Sleep(keep, time.Second) == nil {
			p.sample()
		}
	})
	if p.writer != nil {
		p.ended.Go(func() { _ = p.writer.Run(keep, p.line, func() {}) })
		p.ended.Go(func() { _ = drainer.Run(keep) })
	}
	return p
}

// wrong is by how much a clock is wrong. Less than 10 ms, which a round trip may hide, is within the Clock's bound.
func wrong(by int64) int64 {
	if least := int64(20 * time.Millisecond); max(by, -by) < least {
		return least
	}
	return by
}

// sample has it look at the clocks of Redis and NATS.
func (p *process) sample() {
	if p.isFrozen() {
		return
	}
	now := p.clock.Mono()
	for _, server := range []string{"redis", "nats"} {
		if server == "nats" && p.nats != nil {
			continue // it tells its own
		}
		shows := time.Now()
		if p.w.wrong == server {
			shows = shows.Add(time.Duration(p.w.off.Load()))
		}
		p.clock.Sample(server, shows, now, now)
	}
}

// kill ends it as kill -9 does: nothing that it does from now on reaches anything.
func (p *process) kill() {
	p.dead.Store(true)
	close(p.gone)
	p.stop()
	p.w.bus.look()
}

// freeze stops it for a while, as SIGSTOP does.
func (p *process) freeze(d time.Duration) {
	p.frozen.Store(time.Now().Add(d).UnixMicro())
	time.AfterFunc(d, p.w.bus.look)
}

// broadcast tells all processes, some of them later and some not at all.
func (p *process) broadcast(what string, tell func(other *process)) {
	w := p.w
	w.background.Go(func() {
		t := w.bus.enter(p, "tell "+what)
		if t.dead || !w.over && w.redis.rate > 0 && t.roll.IntN(10) == 0 {
			return
		}
		for _, other := range w.processes {
			if !other.isDead() {
				tell(other)
			}
		}
	})
}

// askPauses has the leader read the pauses.
func (p *process) askPauses(ctx context.Context) error {
	if leads, err := p.leader.ReadPauses(ctx); leads {
		return err
	}
	t := p.w.bus.enter(p, "ask the leader")
	other := p.w.zk.owner
	if t.dead || other == nil || other.isDead() || other.isFrozen() {
		return errors.New("nobody leads")
	}
	if leads, err := other.leader.ReadPauses(ctx); leads {
		return err
	}
	return errors.New("nobody leads")
}

// stand races for the znode, and leads whenever it has it.
func (p *process) stand(ctx context.Context) {
	for ctx.Err() == nil {
		if p.w.bus.enter(p, "stand").dead {
			return
		}
		if term, ok := p.w.zk.take(p); ok {
			if term > 1 && p.number <= 2 {
				p.w.met("a standby took over")
			}
			p.w.tell(history.Event{Kind: history.Lead, By: p.name, Term: term})
			p.rule(ctx, term)
			if !p.w.bus.enter(p, "leave").dead && !p.isCut() {
				p.w.zk.leave(p)
			}
		}
		_ = scheduler.Sleep(ctx, 200*time.Millisecond)
	}
}

// rule leads one term.
func (p *process) rule(ctx context.Context, term uint64) {
	p.leads.Store(true)
	defer p.leads.Store(false)
	p.until.Store(time.Now().Add(session / 2).UnixMicro())
	lease := p.leaseLeft
	ctx, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	group, groupCtx := errgroup.WithContext(ctx)
	beside, stop := context.WithCancel(groupCtx)
	group.Go(func() error {
		for scheduler.Sleep(beside, min(time.Second, max(lease(), time.Millisecond))) == nil {
			if lease() == 0 {
				lose(errLost)
				return nil
			}
			sent := time.Now()
			if p.w.bus.enter(p, "renew").dead || p.isCut() {
				continue
			}
			if !p.w.zk.renew(p, term) {
				lose(errLost)
				return nil
			}
			p.until.Store(sent.Add(session / 2).UnixMicro())
		}
		return nil
	})
	if p.recovery != nil {
		m := journal.NewMender(p.recovery, term, buckets, func(r record.RestoreReport) {
			if r.Added > 0 {
				p.w.met("restored from the journal")
			}
		})
		p.mender.Store(m)
		group.Go(func() error { return m.Run(beside) })
	}
	group.Go(func() error {
		defer stop()
		return p.leader.Run(groupCtx, term, lease)
	})
	if err := group.Wait(); errors.Is(err, errLost) || strings.Contains(fmt.Sprint(err), "stale") {
		p.w.met("a leadership was lost")
	}
}

// leaseLeft is how long its leadership is certain.
func (p *process) leaseLeft() time.Duration {
	return max(time.Until(time.UnixMicro(p.until.Load())), 0)
}

var errLost = errors.New("the leadership is lost")
