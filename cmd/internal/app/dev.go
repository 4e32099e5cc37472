package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/election"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/memory"
)

// The sizes of an instance that needs no settings.
const (
	devBuckets     = 1
	devIntakeBytes = 1 << 30
	devBatch       = 500
	devBytes       = 8 << 20
	devPending     = 4096
	devAttempts    = 5
	devPublishWait = 2 * time.Second
	devKeep        = 10 * time.Minute
	devStop        = 5 * time.Second
	devOutbox      = 64 << 20
	devMaxRow      = 8 << 20
	devJournalKeep = 30 * 24 * time.Hour
	devAudit       = time.Hour
	natsStart      = 10 * time.Second
	// durableMemory is what the answer to a push promises here.
	durableMemory = "memory"
)

// Dev is tarry dev: everything in one process.
type Dev struct {
	*App
	// NATS is where the embedded nats-server listens.
	NATS string
	// Data is where JetStream keeps its files.
	Data string
	// Temporary: Data is removed when Dev stops.
	Temporary bool
}

// NewDev starts the embedded nats-server and builds an instance on it. Waiting
// messages live in memory, and where a data directory is named in its journal
// too; JetStream's files live there.
func NewDev(ctx context.Context, cfg config.Dev, options Options) (*Dev, error) {
	d := &Dev{Data: cfg.Data}
	p := parts{
		options: options, namespace: cfg.Namespace, instance: "dev", address: net.Addr.String,
		listen: cfg.HTTP.Listen, token: cfg.HTTP.Token.Reveal(), durable: durableMemory, holds: "memory", elects: "election",
		prefix: wire.DefaultPrefix, replicas: 1, maxBytes: devIntakeBytes,
		prepare: func(context.Context) error { return nil }, ping: func(context.Context) error { return nil },
		endedKeep: devKeep, claimBatch: devBatch, claimBytes: devBytes, pending: devPending, publishWait: devPublishWait,
		http: config.HTTP{Tokens: cfg.HTTP.Tokens}, topics: topicSettings{cfg.Retry, cfg.Topics}, deadKeep: cfg.Dead.Keep,
		session: election.DefaultSession, attempts: devAttempts, callTimeout: maxCall, stopTimeout: devStop,
	}
	if err := d.open(ctx, &p, cfg, options); err != nil {
		closeAll(p.close)
		return nil, err
	}
	var err error
	if d.App, err = newApp(p); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Dev) open(ctx context.Context, p *parts, cfg config.Dev, options Options) (err error) {
	if cfg.Data == "" {
		if d.Data, err = os.MkdirTemp("", "tarry-dev-"); err != nil {
			return fmt.Errorf("make a temporary data directory: %w", err)
		}
		d.Temporary = true
		p.close = append(p.close, func() { _ = os.RemoveAll(d.Data) })
	} else if err := os.MkdirAll(d.Data, 0o700); err != nil {
		return fmt.Errorf("make the data directory: data %q: %w", d.Data, err)
	}
	// The guard comes before anything else touches the directory.
	guard := election.FileGuard(filepath.Join(d.Data, "lock"))
	release, _, err := guard.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("lock the data directory: data %q: %w", d.Data, err)
	}
	p.close = append(p.close, release)
	if err := free(ctx, cfg.NATS.Listen); err != nil {
		return err
	}
	ns, err := startNATS(cfg.NATS.Listen, filepath.Join(d.Data, "jetstream"), options.Log)
	if err != nil {
		return err
	}
	p.close = append(p.close, func() { ns.Shutdown(); ns.WaitForShutdown() })
	d.NATS = ns.ClientURL()
	p.conn, err = bridge.Connect(ctx, bridge.ConnConfig{URLs: []string{d.NATS}, Name: "tarry/" + cfg.Namespace, Log: options.Log})
	if err != nil {
		return err
	}
	p.close = append(p.close, p.conn.Close)
	if err := d.openJournal(ctx, p, cfg, options); err != nil {
		return err
	}
	p.store, err = memory.New(memory.Config{
		Buckets: devBuckets, EndedKeep: devKeep, Record: p.recorder.recording(p.journal.mode, p.instance, devOutbox), Log: options.Log,
	})
	if err != nil {
		return fmt.Errorf("build the store: %w", err)
	}
	if p.machine, err = memory.OpenMachine(ctx, memory.MachineConfig{Dir: d.Data, Log: options.Log}); err != nil {
		return fmt.Errorf("take the machine id: %w", err)
	}
	p.elect = func(a *App, address string) (election.Elector, error) {
		return election.NewSolo(election.SoloConfig{
			Instance: p.instance, Address: address, Version: options.Version, Healthy: a.health.fit,
			NextTerm: func(ctx context.Context) (uint64, error) {
				term, err := p.journal.store.MaxTerm(ctx) // nothing else outlives the process
				return term + 1, err
			},
			Log: options.Log.With().Str("ns", cfg.Namespace).Logger(), Registerer: a.registry,
		})
	}
	return nil
}

// openJournal keeps what waits across restarts where a data directory was named:
// in SQLite, each push answered after its commit. Without one the journal lives
// in memory, and tells histories as long as the process does.
func (d *Dev) openJournal(ctx context.Context, p *parts, cfg config.Dev, options Options) (err error) {
	p.recorder = &recorder{}
	p.journal = journalParts{mode: journal.Async, keep: devJournalKeep, window: devKeep, audit: devAudit}
	if d.Temporary {
		if p.journal.store, err = memory.NewJournal(memory.JournalConfig{}); err != nil {
			return fmt.Errorf("build the journal: %w", err)
		}
		return nil
	}
	db, err := journal.Open(ctx, journal.Config{DSN: "sqlite:" + filepath.Join(d.Data, "journal.db"), Namespace: cfg.Namespace, MaxRow: devMaxRow, Migrate: true, Log: options.Log})
	if err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	p.close = append(p.close, func() { _ = db.Close() })
	p.journal.mode, p.journal.store, p.durable = journal.Sync, db, wire.DurableJournal
	p.journal.volatile = true
	return nil
}

// free tells whether the address can be listened on. The embedded nats-server
// would try again and again, and say so each time.
func free(ctx context.Context, listen string) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", listen)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is in use; choose another with --nats.listen (is a nats-server or another tarry dev running?)", listen)
	case err != nil:
		return fmt.Errorf("nats.listen %q: %w", listen, err)
	}
	return l.Close()
}

// startNATS runs a nats-server with JetStream in this process.
func startNATS(listen, store string, log zerolog.Logger) (*server.Server, error) {
	host, portText, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, fmt.Errorf("nats.listen %q: %w", listen, err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, fmt.Errorf("nats.listen %q: %w", listen, err)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	ns, err := server.NewServer(&server.Options{
		ServerName: "tarry-dev", Host: host, Port: port, JetStream: true, StoreDir: store, NoSigs: true,
	})
	if err != nil {
		return nil, fmt.Errorf("build the embedded nats-server: %w", err)
	}
	failed := &natsLog{log: log.With().Str("component", "nats-server").Logger()}
	ns.SetLoggerV2(failed, false, false, false)
	ns.Start()
	if !ns.ReadyForConnections(natsStart) {
		ns.Shutdown()
		ns.WaitForShutdown()
		return nil, errors.Join(fmt.Errorf("start the embedded nats-server on nats.listen %q", listen), failed.last())
	}
	return ns, nil
}
