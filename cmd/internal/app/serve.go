package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/election"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/timeline"
)

const (
	tombstoneKeep = 10 * time.Minute
	// tombstoneLimit is that of a bucket, without shares: a caller who cancels ten thousand
	// unknown ids in ten minutes has the tombstones of others refused meanwhile. They are
	// told so, and what they cancel by uid or of what is stored works. A share would take
	// to know the caller, whom NATS does not name, or a count of each topic, of which one
	// caller may make up any number.
	tombstoneLimit = 10_000
	// maxCall bounds one call of the store; a lease leaves room for several.
	maxCall     = time.Second
	clockSample = time.Second
	// rowSlack keeps the largest row, every byte of it escaped, below the 16 MiB that
	// MariaDB takes by default: a request has more around a body than this.
	rowSlack = 64 << 10
)

// errUnfit is what no retry mends: the store must change, or the settings.
var errUnfit = timeline.ErrUnfit

// NewServe builds a production instance from its settings.
func NewServe(ctx context.Context, cfg config.Serve, options Options) (*App, error) {
	p, err := servingParts(ctx, cfg, options)
	if err != nil {
		return nil, err
	}
	return newApp(p)
}

// servingParts are the parts of a production instance. On error what they opened is closed.
func servingParts(ctx context.Context, cfg config.Serve, options Options) (parts, error) {
	log := options.Log.With().Str("ns", cfg.Namespace).Str("instance", cfg.Instance).Logger()
	p := parts{
		options: options, namespace: cfg.Namespace, instance: cfg.Instance, address: cfg.Advertised,
		listen: cfg.HTTP.Listen, token: cfg.HTTP.Token.Reveal(), durable: wire.DurableRedis, holds: "redis",
		elects: "zookeeper", body: cfg.HTTP.BodyLimit,
		prefix: cfg.NATS.Prefix, replicas: cfg.NATS.Intake.Replicas, maxBytes: cfg.NATS.Intake.MaxBytes,
		rejects: cfg.NATS.Rejects, admin: cfg.OwnNATS.Admin,
		endedKeep: cfg.Ended.Keep, claimBatch: cfg.Claim.Batch, claimBytes: int(cfg.Claim.Bytes),
		pending:     cfg.Publish.Pending,
		publishWait: cfg.Publish.Timeout, session: cfg.ZooKeeper.Session, attempts: cfg.Attempts.Limit,
		// A call must leave most of the lease, which is half a session, to others.
		http: cfg.HTTP, topics: topicSettings{cfg.Retry, cfg.Topics}, deadKeep: cfg.Dead.Keep,
		callTimeout: min(maxCall, cfg.ZooKeeper.Session/6), stopTimeout: cfg.Stop.Timeout,
	}
	if err := p.openServe(ctx, cfg, log); err != nil {
		closeAll(p.close)
		return parts{}, err
	}
	return p, nil
}

// openServe opens what the settings name, and connects to NATS last.
func (p *parts) openServe(ctx context.Context, cfg config.Serve, log zerolog.Logger) (err error) {
	urls := cfg.NATS.URL
	if cfg.InMemory() {
		if err := p.lockOneMachine(ctx, cfg); err != nil {
			return err
		}
	}
	if err := p.openJournal(cfg, p.options); err != nil {
		return err
	}
	if !cfg.InMemory() {
		err = p.openRedis(cfg, p.options)
	} else if err = p.openMemory(ctx, cfg, log); err == nil && cfg.Embedded() {
		var ns *server.Server
		ns, err = p.embedNATS(ctx, embedded{
			name: "tarry-" + cfg.Instance, listen: cfg.OwnNATS.Listen, dir: filepath.Join(cfg.Data, jetStreamFile),
			durable: true,
			user:    cfg.NATS.User, password: cfg.NATS.Password.Reveal(), auth: cfg.NATS.Token.Reveal(),
		})
		if err == nil {
			urls = []string{ns.ClientURL()}
		}
	}
	if err != nil {
		return err
	}
	p.broken = make(chan error, 1)
	p.conn, err = connectNATS(ctx, cfg.NATS, bridge.ConnConfig{
		URLs: urls, Name: "tarry/" + cfg.Namespace + "/" + cfg.Instance, Log: log,
		OnState: func(state bridge.ConnState, err error) {
			if state == bridge.Closed && err != nil {
				p.broken <- err // a connection is closed once
			}
		},
	})
	if err != nil {
		return err
	}
	p.close = append(p.close, p.conn.Close)
	if cfg.InMemory() {
		return nil
	}
	p.elect = func(a *App, address string) (election.Elector, error) {
		return election.NewZooKeeper(election.ZooKeeperConfig{
			Servers: cfg.ZooKeeper.Servers, Namespace: cfg.Namespace, Instance: cfg.Instance, Address: address,
			Version: p.options.Version,
			Session: cfg.ZooKeeper.Session, Healthy: a.health.fit, Store: a.same.name, Floor: p.floor,
			Username: cfg.ZooKeeper.Username, Password: cfg.ZooKeeper.Password.Reveal(), Log: p.options.Log,
			Registerer: a.registry,
		})
	}
	return nil
}

// connectNATS connects with the credentials and certificates of the settings.
func connectNATS(ctx context.Context, cfg config.NATS, c bridge.ConnConfig) (*nats.Conn, error) {
	c.User, c.Password, c.Token, c.Creds = cfg.User, cfg.Password.Reveal(), cfg.Token.Reveal(), cfg.Creds
	var err error
	if c.TLS, err = cfg.TLS.Client("nats.tls"); err != nil {
		return nil, err
	}
	return bridge.Connect(ctx, c)
}

// openJournal adds the journal, unless it is off.
func (p *parts) openJournal(cfg config.Serve, options Options) error {
	mode, err := journal.ParseMode(cfg.Journal.Mode)
	if err != nil {
		return fmt.Errorf("journal.mode: %w", err)
	}
	p.recorder = &recorder{}
	p.journal = journalParts{
		mode: mode, keep: cfg.Journal.Keep, names: cfg.Names.Keep, window: cfg.Journal.Window, audit: cfg.Journal.Audit,
		outbox: max(cfg.Journal.Outbox/int64(cfg.Buckets), 1),
	}
	if mode == journal.Off {
		return nil
	}
	db, err := journal.New(journal.Config{
		DSN: cfg.Journal.DSN.Reveal(), Namespace: cfg.Namespace, MaxRow: int(cfg.HTTP.BodyLimit) - rowSlack,
		Migrate: cfg.Journal.Migrate,
		Log:     options.Log.With().Str("ns", cfg.Namespace).Str("instance", cfg.Instance).Logger(),
	})
	if err != nil {
		return fmt.Errorf("build the journal: %w", err)
	}
	p.close = append(p.close, func() { _ = db.Close() })
	p.useJournal(db)
	if mode == journal.Sync {
		p.durable = wire.DurableJournal
	}
	return nil
}

// useJournal puts a database behind a gate that opens once it is prepared.
func (p *parts) useJournal(db *journal.SQL) {
	gate := journal.NewGate(db)
	p.journal.store = gate
	p.journal.prepare = func(ctx context.Context) error {
		if err := db.Prepare(ctx); err != nil {
			return err
		}
		gate.Open()
		return nil
	}
}

// floor is the highest term that anything but ZooKeeper knows: Redis, and where
// both have forgotten everything, the journal. A journal that is away costs
// nobody a candidacy while one of them remembers.
func (p *parts) floor(ctx context.Context, known uint64) (uint64, error) {
	term, err := p.store.(interface {
		MaxTerm(context.Context) (uint64, error)
	}).MaxTerm(ctx)
	if err != nil || term > 0 || known > 0 || p.journal.store == nil {
		return term, err
	}
	if term, err = p.journal.store.MaxTerm(ctx); err != nil {
		return 0, fmt.Errorf("ask the journal for the term: %w", err)
	}
	return term, nil
}

// openRedis adds the timeline and the machine id, both in Redis.
func (p *parts) openRedis(cfg config.Serve, options Options) error {
	log := options.Log.With().Str("ns", cfg.Namespace).Str("instance", cfg.Instance).Logger()
	dial := timeline.DialConfig{
		Addrs: cfg.Redis.Addrs, Master: cfg.Redis.Master, Username: cfg.Redis.Username,
		Password: cfg.Redis.Password.Reveal(),
		DB:       cfg.Redis.DB, Name: "tarry-" + cfg.Instance, CallTimeout: p.callTimeout,
	}
	if cfg.Redis.TLS {
		dial.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	rdb := timeline.Dial(dial)
	p.close = append(p.close, func() { _ = rdb.Close() })
	store, err := timeline.New(timeline.Config{
		Client: rdb, Namespace: cfg.Namespace, Buckets: cfg.Buckets, EndedKeep: cfg.Ended.Keep,
		TombstoneKeep: tombstoneKeep, TombstoneLimit: tombstoneLimit,
		Record: p.recorder.recording(p.journal.mode, cfg.Instance, p.journal.outbox),
	})
	if err != nil {
		return fmt.Errorf("build timeline: %w", err)
	}
	machine, err := timeline.NewMachine(timeline.MachineConfig{
		Client: rdb, Namespace: cfg.Namespace, Instance: cfg.Instance, Local: scheduler.System(), Log: log,
	})
	if err != nil {
		return fmt.Errorf("build machine id: %w", err)
	}
	p.store, p.machine, p.identity = store, machine, store.Identity
	p.prepare = func(ctx context.Context) error {
		facts, err := store.Prepare(ctx)
		if err != nil {
			return err
		}
		log.Info().Str("version", facts.Version).Bool("aof", facts.AOF).Str("maxmemory", facts.MaxMemory).Msg(
			"redis is fit")
		if !facts.AOF && cfg.Journal.Mode == journal.Off.String() {
			log.Warn().Msg(
				"redis runs without AOF: with the journal off, a restart of redis loses what waits (appendonly yes)")
		}
		return nil
	}
	p.clocks = append(p.clocks, func(ctx context.Context, clock *scheduler.Clock) error {
		store.WatchClock(ctx, clock, clockSample, p.callTimeout)
		return nil
	})
	return nil
}
