package app

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

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
	devNamesKeep   = 7 * 24 * time.Hour
	devAudit       = time.Hour
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
		listen: cfg.HTTP.Listen, token: cfg.HTTP.Token.Reveal(), durable: durableMemory, holds: "memory",
		elects: "election",
		prefix: wire.DefaultPrefix, replicas: 1, maxBytes: devIntakeBytes, admin: cfg.NATS.Admin,
		prepare:   func(context.Context) error { return nil },
		endedKeep: devKeep, claimBatch: devBatch, claimBytes: devBytes, pending: devPending,
		publishWait: devPublishWait,
		http:        config.HTTP{Tokens: cfg.HTTP.Tokens, Hosts: cfg.HTTP.Hosts},
		topics:      topicSettings{cfg.Retry, cfg.Topics},
		deadKeep:    cfg.Dead.Keep,
		session:     election.DefaultSession, attempts: devAttempts, callTimeout: maxCall, stopTimeout: devStop,
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
	}
	// The lock comes before anything else touches the directory.
	if err := p.lockData(ctx, d.Data); err != nil {
		return err
	}
	ns, err := p.embedNATS(ctx, embedded{name: "tarry-dev", listen: cfg.NATS.Listen,
		dir: filepath.Join(d.Data, jetStreamFile), durable: !d.Temporary})
	if err != nil {
		return err
	}
	d.NATS = ns.ClientURL()
	p.conn, err = bridge.Connect(ctx,
		bridge.ConnConfig{URLs: []string{d.NATS}, Name: "tarry/" + cfg.Namespace, Log: options.Log})
	if err != nil {
		return err
	}
	p.close = append(p.close, p.conn.Close)
	if err := d.openJournal(ctx, p, cfg, options); err != nil {
		return err
	}
	return p.useMemory(ctx, d.Data, memory.Config{
		Buckets: devBuckets, EndedKeep: devKeep,
		Record: p.recorder.recording(p.journal.mode, p.instance, p.journal.outbox),
	}, options.Log)
}

// openJournal keeps what waits across restarts if a data directory was named: in
// SQLite, each push answered after its commit. Without one the journal lives in
// memory, and its histories last as long as the process.
func (d *Dev) openJournal(ctx context.Context, p *parts, cfg config.Dev, options Options) (err error) {
	p.recorder = &recorder{}
	p.journal = journalParts{mode: journal.Async, keep: devJournalKeep, names: devNamesKeep, window: devKeep,
		audit: devAudit, outbox: devOutbox}
	if d.Temporary {
		if p.journal.store, err = memory.NewJournal(memory.JournalConfig{}); err != nil {
			return fmt.Errorf("build the journal: %w", err)
		}
		return nil
	}
	db, err := journal.Open(ctx, journal.Config{DSN: "sqlite:" + filepath.Join(d.Data, "journal.db"),
		Namespace: cfg.Namespace, MaxRow: devMaxRow, Migrate: true, Log: options.Log})
	if err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	p.close = append(p.close, func() { _ = db.Close() })
	p.journal.mode, p.journal.store, p.durable = journal.Sync, db, wire.DurableJournal
	p.journal.volatile = true
	return nil
}
