package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/election"
	"github.com/tarry-mq/tarry/store/memory"
)

// An instance on one machine, tarry dev or tarry serve with store: memory, has in place of servers what stands here: a
// directory that it alone may use, an embedded nats-server, the timeline in memory, and an election of one. What waits
// survives the process in the journal, a SQLite file; the recovery brings it back at the next start, as it does for a
// Redis that was lost.

const (
	natsStart = 10 * time.Second
	// What lies in the directory.
	lockFile      = "lock"
	jetStreamFile = "jetstream"
)

// lockData makes the directory and keeps every other process out of it.
func (p *parts) lockData(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the data directory: data %q: %w", dir, err)
	}
	if err := p.lock(ctx, filepath.Join(dir, lockFile)); err != nil {
		return fmt.Errorf("lock the data directory: data %q: %w", dir, err)
	}
	return nil
}

// lockOneMachine makes the data directory and locks it, and the journal, which may lie in another directory, against
// every other process: two instances that fill their memory from one journal would deliver everything twice.
func (p *parts) lockOneMachine(ctx context.Context, cfg config.Serve) error {
	if err := p.lockData(ctx, cfg.Data); err != nil {
		return err
	}
	return p.lockJournal(ctx, cfg.Journal.DSN.Reveal())
}

const sqliteScheme = "sqlite:"

// lockJournal keeps every other process out of a journal in a file.
func (p *parts) lockJournal(ctx context.Context, dsn string) error {
	if err := p.lock(ctx, strings.TrimPrefix(dsn, sqliteScheme)+"-lock"); err != nil {
		return fmt.Errorf("lock the journal: %w", err)
	}
	return nil
}

// lock holds a file's lock until the instance is closed.
func (p *parts) lock(ctx context.Context, file string) error {
	release, _, err := election.FileGuard(file).Acquire(ctx)
	if err == nil {
		p.close = append(p.close, release)
	}
	return err
}

// openMemory is openRedis for store: memory. The settings have been held against it: the journal is a SQLite file, in
// sync.
func (p *parts) openMemory(ctx context.Context, cfg config.Serve, log zerolog.Logger) error {
	p.holds, p.elects, p.session, p.callTimeout = "memory", "election", election.DefaultSession, maxCall
	p.prepare = func(context.Context) error { return nil }
	p.journal.volatile = true
	// A file is fit at once or for good not: nothing is gained by starting without it.
	if err := p.journal.prepare(ctx); err != nil {
		return err
	}
	p.journal.prepare = nil
	return p.useMemory(ctx, cfg.Data, memory.Config{
		Buckets: cfg.Buckets, EndedKeep: cfg.Ended.Keep, TombstoneKeep: tombstoneKeep, TombstoneLimit: tombstoneLimit,
		Record: p.recorder.recording(p.journal.mode, cfg.Instance, p.journal.outbox),
	}, log)
}

// useMemory adds the timeline, the machine id, which the directory keeps, and the election.
func (p *parts) useMemory(ctx context.Context, dir string, cfg memory.Config, log zerolog.Logger) (err error) {
	if p.store, err = memory.New(cfg); err != nil {
		return fmt.Errorf("build the store: %w", err)
	}
	if p.machine, err = memory.OpenMachine(ctx, memory.MachineConfig{Dir: dir, Log: log}); err != nil {
		return fmt.Errorf("take the machine id: %w", err)
	}
	p.elect = func(a *App, address string) (election.Elector, error) {
		return election.NewSolo(election.SoloConfig{
			Instance: p.instance, Address: address, Version: p.options.Version, Healthy: a.health.fit,
			NextTerm: func(ctx context.Context) (uint64, error) {
				term, err := p.journal.store.MaxTerm(ctx) // nothing else outlives the process
				return term + 1, err
			},
			Log: p.options.Log.With().Str("ns", p.namespace).Logger(), Registerer: a.registry,
		})
	}
	return nil
}

// embedded is a nats-server in this process.
type embedded struct {
	name                 string
	listen               string // empty: for this process alone
	dir                  string // of JetStream
	user, password, auth string // what clients must give; auth is a token
	// durable: every write reaches the disk before it is acknowledged. A message that a producer was promised, or that
	// the journal has as delivered, then survives the loss of power too.
	durable bool
}

// embedNATS runs a nats-server with JetStream until the instance is closed.
func (p *parts) embedNATS(ctx context.Context, e embedded) (*server.Server, error) {
	if e.listen != "" {
		if err := free(ctx, e.listen); err != nil {
			return nil, err
		}
	}
	ns, err := startNATS(e, p.options.Log)
	if err != nil {
		return nil, err
	}
	p.close = append(p.close, func() { ns.Shutdown(); ns.WaitForShutdown() })
	return ns, nil
}

// free returns an error where the address cannot be listened on. The embedded nats-server would try again and again,
// and say so each time.
func free(ctx context.Context, listen string) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", listen)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is in use; choose another with --nats.listen, or work with the nats-server there: "+
			"tarry serve --store memory --data DIR --journal.mode sync --journal.dsn sqlite:DIR/journal.db "+
			"--nats.url nats://%[1]s", listen)
	case err != nil:
		return fmt.Errorf("nats.listen %q: %w", listen, err)
	}
	return l.Close()
}

// address splits an address as nats-server wants it, which takes port 0 for its usual one.
func address(listen string) (host string, port int, err error) {
	if listen == "" {
		return "", 0, nil
	}
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, err
	}
	if port, err = strconv.Atoi(text); port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, err
}

func startNATS(e embedded, log zerolog.Logger) (*server.Server, error) {
	host, port, err := address(e.listen)
	if err != nil {
		return nil, fmt.Errorf("nats.listen %q: %w", e.listen, err)
	}
	ns, err := server.NewServer(&server.Options{
		ServerName: e.name, DontListen: e.listen == "", Host: host, Port: port, JetStream: true, StoreDir: e.dir,
		SyncAlways: e.durable, NoSigs: true,
		Username: e.user, Password: e.password, Authorization: e.auth,
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
		return nil, errors.Join(fmt.Errorf("start the embedded nats-server on nats.listen %q", e.listen), failed.last())
	}
	return ns, nil
}
