package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"
)

// Config says where the journal is and what it must hold.
type Config struct {
	// DSN is go-sql-driver/mysql's form (user:password@tcp(host:3306)/database),
	// or sqlite:FILE. It is never logged and never part of an error.
	DSN string
	// Namespace is what the database belongs to, and to nothing else.
	Namespace string
	// MaxRow is how many bytes the body and headers of a message may have
	// together, 1 MiB by default. The server must take statements of that size.
	MaxRow int
	// Migrate brings an older schema up to date when the journal is opened;
	// without it an older schema is refused.
	Migrate bool
	// Conns bounds the connections to a server, 8 by default and 2 at least: a
	// migration holds its lock on one and runs on another.
	Conns int

	Log zerolog.Logger

	// copying: a copy into the database may be under way; see Copy.
	copying bool
}

const (
	defaultMaxRow = 1 << 20
	defaultConns  = 8
	sqliteScheme  = "sqlite:"
)

// SQL is a journal in a database. It is safe for concurrent use.
type SQL struct {
	cfg  Config
	log  zerolog.Logger
	kind *dialect
	// upserts are the statements of a write.
	upserts *upserts
	// write and read are one pool on a server; on SQLite write is one connection,
	// as its file has one writer at a time.
	write, read *sql.DB
	// term is at most the highest term that the database has on record: what is
	// not above it needs no statement.
	term atomic.Uint64
	// fenced are the buckets whose fence has a row to lock.
	fenced sync.Map
}

var _ Store = (*SQL)(nil)

// Open connects to the journal's database and checks that it is fit: its
// version, its settings, its schema and its namespace. What is not fit is
// ErrUnfit; another error may pass.
func Open(ctx context.Context, cfg Config) (*SQL, error) {
	s, err := connect(cfg)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("journal at %s: %w", s.kind.place, err), s.Close())
	}
	return s, nil
}

// Migrate brings the schema of cfg's database to the version that this tarry
// knows, and returns the versions before and after. Unlike Open it does not require
// a schema that fits.
func Migrate(ctx context.Context, cfg Config) (from, to int64, err error) {
	s, err := connect(cfg)
	if err != nil {
		return 0, 0, fmt.Errorf("journal: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.kind.check(ctx, s); err != nil {
		return 0, 0, fmt.Errorf("journal at %s: %w", s.kind.place, err)
	}
	version, err := s.Version(ctx)
	if err == nil && version > 0 { // before anything is changed in another's database
		err = s.checkNamespace(ctx)
	}
	if err == nil {
		from, to, err = s.Migrate(ctx)
	}
	if err == nil {
		err = s.claimNamespace(ctx)
	}
	if err != nil {
		return from, to, fmt.Errorf("journal at %s: %w", s.kind.place, err)
	}
	return from, to, nil
}

func connect(cfg Config) (*SQL, error) {
	if cfg.MaxRow == 0 {
		cfg.MaxRow = defaultMaxRow
	}
	if cfg.Conns == 0 {
		cfg.Conns = defaultConns
	}
	switch {
	case cfg.Namespace == "":
		return nil, errors.New("no namespace")
	case cfg.MaxRow < 0 || cfg.Conns < 0:
		return nil, fmt.Errorf("rows of up to %d bytes, %d connections: want positive numbers", cfg.MaxRow, cfg.Conns)
	}
	cfg.Conns = max(cfg.Conns, 2)
	s := &SQL{cfg: cfg, log: cfg.Log.With().Str("component", "journal").Logger()}
	var err error
	if file, ok := strings.CutPrefix(cfg.DSN, sqliteScheme); ok {
		err = s.connectSQLite(file)
	} else {
		err = s.connectMySQL(cfg.DSN)
	}
	if err != nil {
		return nil, err
	}
	s.upserts = newUpserts(s.kind)
	return s, nil
}

// prepare checks and does what Open promises.
func (s *SQL) prepare(ctx context.Context) error {
	if err := s.kind.check(ctx, s); err != nil {
		return err
	}
	version, err := s.Version(ctx)
	if err != nil {
		return err
	}
	if version > 0 { // before anything is written to another's database
		if err := s.checkNamespace(ctx); err != nil {
			return err
		}
		if err := s.checkCopied(ctx); err != nil {
			return err
		}
	}
	known, err := s.known()
	switch {
	case err != nil:
		return err
	case version > known:
		return newer(version, known)
	case version < known && !s.cfg.Migrate:
		return fmt.Errorf("%w: its schema has version %d and this tarry needs %d: run \"tarry migrate\"", ErrUnfit,
			version, known)
	case version < known:
		from, to, err := s.Migrate(ctx)
		if err != nil {
			return err
		}
		if from != to {
			s.log.Info().Int64("from", from).Int64("to", to).Msg("journal schema migrated")
		}
	}
	return s.claimNamespace(ctx)
}

// Close lets go of all connections.
func (s *SQL) Close() error {
	if s.write == s.read {
		return s.write.Close()
	}
	return errors.Join(s.read.Close(), s.write.Close())
}

// Ping reports whether the journal answers and can be written to: a database that
// is read-only answers every question.
func (s *SQL) Ping(ctx context.Context) error {
	if _, err := s.write.ExecContext(ctx, "UPDATE meta SET value = value WHERE name = 'namespace'"); err != nil {
		return fmt.Errorf("ping the journal: %w", err)
	}
	return nil
}
