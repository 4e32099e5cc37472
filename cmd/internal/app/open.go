package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/election"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/steer"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/memory"
	"github.com/tarry-mq/tarry/store/timeline"
)

const (
	tombstoneKeep = 10 * time.Minute
	// tombstoneLimit is the maximum number of tombstones in a bucket. A token may leave a quarter of them through each
	// instance (steer.BurialShare). NATS does not say who calls: after its callers cancel ten thousand unknown ids in
	// ten minutes, the tombstones of others are refused for a while. They get an error, and cancels by uid or of stored
	// messages still work.
	tombstoneLimit = 4 * steer.BurialShare
	// maxCall bounds one call of the store; a lease leaves room for several.
	maxCall     = time.Second
	clockSample = time.Second
)

// errUnfit reports an error that no retry resolves: the store must change, or the settings.
var errUnfit = timeline.ErrUnfit

// machine is a machine id that must be held while uids are assigned.
type machine interface {
	scheduler.Machine
	Run(ctx context.Context) error
}

// opened is the base of an instance: its settings, and the resources opened according to them.
type opened struct {
	closers
	cfg     config.Serve
	options Options
	log     zerolog.Logger

	store        store
	prepareStore func(context.Context) error                   // until it returns nil, nothing is accepted
	identity     func(context.Context) (string, error)         // the store's name; nil if there can be only one store
	maxTerm      func(context.Context) (uint64, error)         // the highest term in the store; nil if it has none
	watchClock   func(context.Context, *scheduler.Clock) error // the store's clock; nil if it has none of its own
	machine      machine
	journal      journalParts
	writer       *journal.Writer // nil with the journal off
	ns           *server.Server  // nil where NATS is not embedded
	conn         *nats.Conn
	broken       chan error // capacity 1: why conn was closed for good
	unfit        chan error // capacity 1: why the store is not fit any more
	listener     net.Listener
	probes       net.Listener // nil where none is wanted, as of seeds
	seeds        net.Listener
	peers        net.Listener // nil without fast takeovers
	own          []net.Addr   // at which this process listens
	address      string       // at which other instances reach this one over HTTP
	registry     *prometheus.Registry
	data         string // the directory for the files of an instance without Redis
}

// open opens the resources that the settings name, and connects to NATS last. On error it closes them.
func open(ctx context.Context, cfg config.Serve, options Options) (*opened, error) {
	o := &opened{cfg: cfg, options: options, registry: prometheus.NewRegistry(),
		broken: make(chan error, 1), unfit: make(chan error, 1),
		log: options.Log.With().Str("ns", cfg.Namespace).Str("instance", cfg.Instance).Logger()}
	steps := []func(context.Context) error{o.openHTTP, o.openJournal, o.openRedis, o.connectNATS}
	if cfg.InMemory() {
		steps = []func(context.Context) error{o.openData, o.openHTTP, o.openJournal, o.openMemory, o.openNATS, o.connectNATS}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, o.Close())
		}
	}
	return o, nil
}

// holds returns the name of the store in logs and /readyz.
func (o *opened) holds() string {
	if o.cfg.InMemory() {
		return "memory"
	}
	return "redis"
}

// elects returns the name of the election in logs and /readyz.
func (o *opened) elects() string {
	if o.cfg.InMemory() {
		return "election"
	}
	return "zookeeper"
}

// durable returns the durability that the answer to a push promises.
func (o *opened) durable() string {
	switch {
	case o.journal.mode == journal.Sync:
		return ops.DurableJournal
	case o.cfg.InMemory():
		return ops.DurableMemory
	}
	return ops.DurableRedis
}

// callTimeout bounds a call of the store. It must leave most of the lease, which is half a session, to other calls.
func (o *opened) callTimeout() time.Duration { return min(maxCall, o.cfg.ZooKeeper.Session/6) }

// outboxLimit returns how many bytes of changes a bucket keeps for the journal.
func (o *opened) outboxLimit() int64 { return max(o.cfg.Journal.Outbox/int64(o.cfg.Buckets), 1) }

// openHTTP listens for clients, which wait until the instance serves. The address is known from then on.
func (o *opened) openHTTP(context.Context) (err error) {
	if o.listener, err = o.listen("http.listen", o.cfg.HTTP.Listen); err != nil {
		return err
	}
	o.address = o.cfg.Advertised(o.listener.Addr().String())
	if at := o.cfg.HTTP.ProbeListen; at != "" {
		if o.probes, err = o.listen("http.probe_listen", at); err != nil {
			return err
		}
	}
	if at := o.cfg.Seeds.Listen; at != "" {
		if o.seeds, err = o.listen("seeds.listen", at); err != nil {
			return err
		}
	}
	if o.cfg.InMemory() {
		return nil
	}
	return o.openPeers()
}

// listen listens on the address that a setting names.
func (o *opened) listen(setting, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		hint := ""
		if errors.Is(err, syscall.EADDRINUSE) {
			hint = "; choose another with --" + setting + " (is another tarry running?)"
		}
		return nil, fmt.Errorf("listen: %s %q: %w%s", setting, address, err, hint)
	}
	o.own = append(o.own, l.Addr())
	o.onStop("the listener of "+setting, func() error {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) { // its server closes it as well
			return err
		}
		return nil
	})
	return l, nil
}

// openJournal adds the journal, unless it is off. Without a DSN the journal is in memory and lasts as long as the
// process.
func (o *opened) openJournal(context.Context) (err error) {
	if o.journal.mode, err = journal.ParseMode(o.cfg.Journal.Mode); err != nil {
		return fmt.Errorf("journal.mode: %w", err)
	}
	dsn := o.cfg.Journal.DSN.Reveal()
	switch {
	case o.journal.mode == journal.Off:
		return nil
	case dsn == "":
		if o.journal.store, err = memory.NewJournal(memory.JournalConfig{}); err != nil {
			return fmt.Errorf("build the journal: %w", err)
		}
		o.buildWriter()
		return nil
	}
	db, err := journal.New(journal.Config{
		DSN: dsn, Namespace: o.cfg.Namespace, MaxRow: o.cfg.HTTP.LargestMessage(),
		Migrate: o.cfg.Journal.Migrate, Log: o.log,
	})
	if err != nil {
		return fmt.Errorf("build the journal: %w", err)
	}
	o.onStop("the journal", db.Close)
	o.journal.store, o.journal.prepare = db, db.Prepare
	o.buildWriter()
	return nil
}

// buildWriter builds the part that commits what the store's scripts write. The store hands it their entries.
func (o *opened) buildWriter() {
	o.writer = journal.NewWriter(journal.WriterConfig{
		Store: o.journal.store, Mode: o.journal.mode, Timeout: journalTimeout, Log: o.log, Registerer: o.registry,
		At: failpoint(),
	})
}

// dialRedis makes a client whose calls are bounded.
func (o *opened) dialRedis(call time.Duration) timeline.Client {
	dial := timeline.DialConfig{
		Addrs: o.cfg.Redis.Addrs, Master: o.cfg.Redis.Master, Username: o.cfg.Redis.Username,
		Password: o.cfg.Redis.Password.Reveal(),
		DB:       o.cfg.Redis.DB, Name: "tarry-" + o.cfg.Instance, CallTimeout: call,
	}
	if o.cfg.Redis.TLS {
		dial.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	rdb := timeline.Dial(dial)
	o.onStop("redis", rdb.Close)
	return rdb
}

// openRedis adds the timeline and the machine id, both in Redis.
func (o *opened) openRedis(context.Context) error {
	rdb := o.dialRedis(o.callTimeout())
	store, err := timeline.New(timeline.Config{
		Client: rdb, Namespace: o.cfg.Namespace, Buckets: message.Bucket(o.cfg.Buckets), EndedKeep: o.cfg.Ended.Keep,
		TombstoneKeep: tombstoneKeep, TombstoneLimit: tombstoneLimit, Record: o.recording(),
		Unfit: func(err error) {
			select {
			case o.unfit <- err:
			default: // it has been told
			}
		},
	})
	if err != nil {
		return fmt.Errorf("build timeline: %w", err)
	}
	o.machine, err = timeline.NewMachine(timeline.MachineConfig{
		Client: rdb, Namespace: o.cfg.Namespace, Instance: o.cfg.Instance, Local: scheduler.System(), Log: o.log,
	})
	if err != nil {
		return fmt.Errorf("build machine id: %w", err)
	}
	o.store, o.identity, o.maxTerm = store, store.Identity, store.MaxTerm
	o.watchClock = func(ctx context.Context, clock *scheduler.Clock) error {
		store.WatchClock(ctx, clock, clockSample, o.callTimeout())
		return nil
	}
	o.prepareStore = func(ctx context.Context) error {
		facts, err := store.Prepare(ctx)
		if err != nil {
			return err
		}
		o.log.Info().Str("version", facts.Version).Bool("aof", facts.AOF).Str("maxmemory", facts.MaxMemory).Msg(
			"redis is fit")
		if !facts.AOF && o.journal.mode == journal.Off {
			o.log.Warn().Msg(
				"redis runs without AOF: with the journal off, a restart of redis loses what waits (appendonly yes)")
		}
		return nil
	}
	return nil
}

// connectNATS connects with the credentials and certificates of the settings.
func (o *opened) connectNATS(ctx context.Context) (err error) {
	urls := o.cfg.NATS.URL
	if o.ns != nil {
		urls = []string{o.ns.ClientURL()}
	}
	o.conn, err = connect(ctx, o.cfg.NATS, link.ConnConfig{
		URLs: urls, Name: "tarry/" + o.cfg.Namespace + "/" + o.cfg.Instance, Log: o.log,
		OnState: func(state link.ConnState, err error) {
			if state == link.Closed && err != nil {
				o.broken <- err // a connection is closed once
			}
		},
	})
	if err == nil {
		o.onClose("the connection to NATS", o.conn.Close)
	}
	return err
}

func connect(ctx context.Context, cfg config.NATS, c link.ConnConfig) (*nats.Conn, error) {
	c.User, c.Password, c.Token, c.Creds = cfg.User, cfg.Password.Reveal(), cfg.Token.Reveal(), cfg.Creds
	var err error
	if c.TLS, err = cfg.TLS.Client("nats.tls"); err != nil {
		return nil, err
	}
	return link.Connect(ctx, c)
}

// elect creates the node of this instance and its one race: over ZooKeeper, and in memory as an election of one.
func (a *App) elect() (node, race, error) {
	if a.cfg.InMemory() {
		solo, err := election.NewSolo(election.SoloConfig{
			Instance: a.cfg.Instance, Address: a.address, Version: a.options.Version,
			Lead: a.lead, Healthy: a.health.fit, Tell: a.roster.tell,
			NextTerm: func(ctx context.Context) (uint64, error) {
				term, err := a.journal.store.MaxTerm(ctx) // nothing else outlives the process
				return term + 1, err
			},
			Log: a.options.Log.With().Str("ns", a.cfg.Namespace).Logger(), Registerer: a.registry,
		})
		return solo, solo, err
	}
	return a.stand(a.lead, a.health.fit, a.same.name, a.roster.tell)
}

// stand creates the node of this instance and its one race over ZooKeeper.
func (o *opened) stand(lead election.Lead, healthy func() error, store func() string,
	tell func() election.Told) (*election.Node, *election.Race, error) {
	peers, err := o.peerConfig()
	if err != nil {
		return nil, nil, err
	}
	n, err := election.NewNode(election.NodeConfig{
		Servers: o.cfg.ZooKeeper.Servers, Namespace: o.cfg.Namespace, Instance: o.cfg.Instance, Address: o.address,
		Version: o.options.Version, Session: o.cfg.ZooKeeper.Session, Healthy: healthy, Store: store, Tell: tell,
		Username: o.cfg.ZooKeeper.Username, Password: o.cfg.ZooKeeper.Password.Reveal(), Log: o.options.Log,
		Registerer: o.registry, Peers: peers,
	})
	if err != nil {
		return nil, nil, err
	}
	r, err := n.Race(election.RaceConfig{Lead: lead, Floor: o.floor})
	return n, r, err
}

// floor returns the highest term known outside ZooKeeper: the one in Redis or, if neither Redis nor ZooKeeper has a
// term, the one in the journal. An unreachable journal therefore prevents a candidacy only if both have lost the term.
func (o *opened) floor(ctx context.Context, known uint64) (uint64, error) {
	term, err := o.maxTerm(ctx)
	if err != nil || term > 0 || known > 0 || o.journal.store == nil {
		return term, err
	}
	if term, err = o.journal.store.MaxTerm(ctx); err != nil {
		return 0, fmt.Errorf("ask the journal for the term: %w", err)
	}
	return term, nil
}
