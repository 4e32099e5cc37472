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
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/election"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/store/memory"
)

// An instance on one machine, tarry dev or tarry serve with store: memory, uses the parts in this file instead of
// servers: a directory of its own, an embedded nats-server, the timeline in memory, and an election of one. The waiting
// messages outlive the process in the journal, a SQLite file; at the next start the recovery restores them, as it does
// after the loss of a Redis.

const (
	natsStart = 10 * time.Second
	// temporary begins the name of a directory that ends with its process.
	temporary = "tarry-dev-"
	// The names in the directory.
	lockFile      = "lock"
	temporaryFile = "temporary"
	jetStreamFile = "jetstream"
)

// openData locks the data directory, and the journal, which may lie in another directory, against every other process:
// two instances that fill their memory from one journal would deliver everything twice. Without a directory in the
// settings it creates a temporary one.
func (o *opened) openData(context.Context) (err error) {
	if o.data = o.cfg.Data; o.data == "" {
		removeLeft()
		if o.data, err = os.MkdirTemp("", temporary); err != nil {
			return fmt.Errorf("make a temporary data directory: %w", err)
		}
		o.onStop("the temporary data directory", func() error { return os.RemoveAll(o.data) })
	}
	// The directory is locked before anything else uses it. Only then is it marked as one to remove: nobody takes the lock
	// of one that begins, and what somebody keeps by naming it in the settings is marked no more.
	if err := o.lockData(o.data); err != nil {
		return err
	}
	mark := filepath.Join(o.data, temporaryFile)
	if o.cfg.Data != "" {
		_ = os.Remove(mark)
	} else if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return fmt.Errorf("mark the temporary data directory: %w", err)
	}
	if dsn := o.cfg.Journal.DSN.Reveal(); dsn != "" {
		return o.lockJournal(dsn)
	}
	return nil
}

// removeLeft removes the temporary directories of processes that were killed: they are marked, and nobody holds their
// lock.
func removeLeft() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), temporary+"*"))
	for _, dir := range left {
		root, err := os.OpenRoot(dir) // a link to elsewhere is not followed
		if err != nil {
			continue // another user's
		}
		_, unmarked := root.Stat(temporaryFile)
		if f, err := root.OpenFile(lockFile, os.O_RDWR, 0); err == nil && unmarked != nil {
			_ = f.Close()
		} else if err == nil {
			if release, err := election.LockOpen(f); err == nil {
				_ = os.RemoveAll(dir) // what cannot be removed stays
				release()
			}
		}
		_ = root.Close()
	}
}

// lockData makes the directory and keeps every other process out of it.
func (c *closers) lockData(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the data directory: data %q: %w", dir, err)
	}
	if err := c.lock(filepath.Join(dir, lockFile)); err != nil {
		return fmt.Errorf("lock the data directory: data %q: %w", dir, err)
	}
	return nil
}

const sqliteScheme = "sqlite:"

// lockJournal keeps every other process out of a journal in a file.
func (c *closers) lockJournal(dsn string) error {
	if err := c.lock(strings.TrimPrefix(dsn, sqliteScheme) + "-lock"); err != nil {
		return fmt.Errorf("lock the journal: %w", err)
	}
	return nil
}

// lock holds a file's lock until everything is closed.
func (c *closers) lock(file string) error {
	release, err := election.LockFile(file)
	if err == nil {
		c.onClose("the lock "+file, release)
	}
	return err
}

// openMemory adds the timeline, and the machine id, which the directory keeps.
func (o *opened) openMemory(ctx context.Context) (err error) {
	if o.journal.prepare != nil {
		// A file is either usable at once or never, so there is no point in starting without it.
		if err := o.journal.prepare(ctx); err != nil {
			return err
		}
		o.journal.prepare = nil
	}
	o.store, err = memory.New(memory.Config{
		Buckets: message.Bucket(o.cfg.Buckets), EndedKeep: o.cfg.Ended.Keep, TombstoneKeep: tombstoneKeep,
		TombstoneLimit: tombstoneLimit, Record: o.recording(),
	})
	if err != nil {
		return fmt.Errorf("build the store: %w", err)
	}
	if o.machine, err = memory.OpenMachine(ctx, memory.MachineConfig{Dir: o.data, Log: o.log}); err != nil {
		return fmt.Errorf("take the machine id: %w", err)
	}
	o.prepareStore = func(context.Context) error { return nil }
	return nil
}

// openNATS starts the embedded NATS, unless the settings name another.
func (o *opened) openNATS(ctx context.Context) (err error) {
	if !o.cfg.Embedded() {
		return nil
	}
	o.ns, err = o.embedNATS(ctx, embedded{
		name: "tarry-" + o.cfg.Instance, listen: o.cfg.NATS.Listen, dir: filepath.Join(o.data, jetStreamFile),
		durable: o.cfg.Data != "", log: o.options.Log,
		user: o.cfg.NATS.User, password: o.cfg.NATS.Password.Reveal(), auth: o.cfg.NATS.Token.Reveal(),
	})
	if err != nil {
		return err
	}
	o.own = append(o.own, o.ns.Addr())
	if o.cfg.Data == "" { // the streams are made anew, so nothing is dropped that a larger one held: they fit the disk
		room := o.ns.JetStreamConfig().MaxStore
		intake, rejects := &o.cfg.NATS.Intake.MaxBytes, &o.cfg.NATS.Rejects.MaxBytes
		*intake, *rejects = min(*intake, max(room/4, 1<<20)), min(*rejects, max(room/16, 1<<20)) // and as much aside
	}
	return nil
}

// embedded is a nats-server in this process.
type embedded struct {
	name                 string
	listen               string // empty: for this process only
	dir                  string // of JetStream
	user, password, auth string // the clients' credentials; auth is a token
	// durable makes every write reach the disk before it is acknowledged. A message that was acknowledged to a
	// producer, or that the journal has as delivered, then also survives a power failure.
	durable bool
	log     zerolog.Logger
}

// embedNATS runs a nats-server with JetStream until everything is closed.
func (c *closers) embedNATS(ctx context.Context, e embedded) (*server.Server, error) {
	if e.listen != "" {
		if err := free(ctx, e.listen); err != nil {
			return nil, err
		}
	}
	ns, err := startNATS(e)
	if err != nil {
		return nil, err
	}
	c.onClose("the embedded NATS", func() { ns.Shutdown(); ns.WaitForShutdown() })
	return ns, nil
}

// free returns an error if the address is not available. The embedded nats-server would retry endlessly and log each
// attempt.
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

// address splits an address into nats-server's form, in which port 0 means the default port.
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

func startNATS(e embedded) (*server.Server, error) {
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
	failed := &natsLog{log: e.log.With().Str("component", "nats-server").Logger()}
	ns.SetLoggerV2(failed, false, false, false)
	ns.Start()
	if !ns.ReadyForConnections(natsStart) {
		ns.Shutdown()
		ns.WaitForShutdown()
		return nil, errors.Join(fmt.Errorf("start the embedded nats-server on nats.listen %q", e.listen), failed.last())
	}
	return ns, nil
}

// natsLog receives the log of the embedded nats-server: its errors and warnings are logged as ours, all else at debug
// level.
type natsLog struct {
	log zerolog.Logger

	mu      sync.Mutex
	trouble error
}

func (l *natsLog) note(format string, v []any) string {
	text := fmt.Sprintf(format, v...)
	l.mu.Lock()
	l.trouble = errors.New(text)
	l.mu.Unlock()
	return text
}

// last returns the last error or fatal message.
func (l *natsLog) last() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trouble
}

// Noticef and the rest are nats-server's Logger.
func (l *natsLog) Noticef(format string, v ...any) { l.log.Debug().Msgf(format, v...) }
func (l *natsLog) Warnf(format string, v ...any)   { l.log.Debug().Msgf(format, v...) }
func (l *natsLog) Errorf(format string, v ...any)  { l.log.Warn().Msg(l.note(format, v)) }
func (l *natsLog) Fatalf(format string, v ...any)  { l.log.Error().Msg(l.note(format, v)) }
func (l *natsLog) Debugf(format string, v ...any)  { l.log.Trace().Msgf(format, v...) }
func (l *natsLog) Tracef(format string, v ...any)  { l.log.Trace().Msgf(format, v...) }
