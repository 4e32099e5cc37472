package journal

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler/record"
)

// Config configures a journal in SQL.
type Config struct {
	// DSN has go-sql-driver/mysql's form (user:password@tcp(host:3306)/database), or is sqlite:FILE. It is never logged
	// and never part of an error.
	DSN string
	// Namespace is the only namespace that the database belongs to.
	Namespace string
	// MaxRow bounds the bytes of a message's body and headers together, 1 MiB by default. The server must accept
	// statements of that size.
	MaxRow int
	// Migrate brings an older schema up to date when the journal is opened; without it an older schema is refused.
	Migrate bool
	// Conns bounds the connections to a server, 8 by default and 2 at least: a migration holds its lock on one and runs
	// on another.
	Conns int

	// MaxRejects bounds how many rejected pushes are kept, record.MaxRejects by default.
	MaxRejects int

	Log zerolog.Logger

	// copying allows a database with an unfinished copy; see Copy.
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
	// write and read are one pool on a server; on SQLite write is one connection, as its file has one writer at a time.
	write, read pool
	// prepared opens the pools for use.
	prepared atomic.Bool
	// term is a term that the database has on record, perhaps not its highest. Only a higher one needs a statement.
	term atomic.Uint64
	// fenced holds the buckets whose fence has a row to lock.
	fenced sync.Map
}

var _ Store = (*SQL)(nil)

// New makes a journal without connecting to its database. Until Prepare has returned nil, every call returns
// scheduler.ErrUnavailable. The error of New concerns the settings.
func New(cfg Config) (*SQL, error) {
	cfg.MaxRow = cmp.Or(cfg.MaxRow, defaultMaxRow)
	cfg.Conns = cmp.Or(cfg.Conns, defaultConns)
	cfg.MaxRejects = cmp.Or(cfg.MaxRejects, record.MaxRejects)
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

// Open connects to the journal's database and prepares it.
func Open(ctx context.Context, cfg Config) (*SQL, error) {
	s, _, _, err := open(ctx, cfg)
	return s, err
}

// Migrate migrates the schema of cfg's database to the version that this tarry knows, and returns the versions before
// and after. Unlike Open, it does not require a fitting schema, nor that a copy into the database has ended.
func Migrate(ctx context.Context, cfg Config) (from, to int64, err error) {
	cfg.Migrate, cfg.copying = true, true
	s, from, to, err := open(ctx, cfg)
	if err != nil {
		return from, to, err
	}
	return from, to, s.Close()
}

func open(ctx context.Context, cfg Config) (s *SQL, from, to int64, err error) {
	if s, err = New(cfg); err != nil {
		return nil, 0, 0, fmt.Errorf("journal: %w", err)
	}
	if from, to, err = s.prepare(ctx); err != nil {
		return nil, from, to, errors.Join(fmt.Errorf("journal at %s: %w", s.kind.place, err), s.Close())
	}
	return s, from, to, nil
}

// Prepare checks that the database is fit: its version, its settings, its schema and its namespace. If it is not,
// Prepare returns ErrUnfit. Any other error may pass, and Prepare may be repeated.
func (s *SQL) Prepare(ctx context.Context) error {
	_, _, err := s.prepare(ctx)
	return err
}

// prepare returns the versions of the schema before and after.
func (s *SQL) prepare(ctx context.Context) (from, to int64, err error) {
	if err := s.kind.check(ctx, s); err != nil {
		return 0, 0, err
	}
	if from, err = s.Version(ctx); err != nil {
		return 0, 0, err
	}
	if from > 0 { // before writing to a foreign database
		if err := s.checkNamespace(ctx); err != nil {
			return from, from, err
		}
		if err := s.checkCopied(ctx); err != nil {
			return from, from, err
		}
	}
	known, err := s.known()
	switch {
	case err != nil:
		return from, from, err
	case from > known:
		return from, from, newer(from, known)
	case from < known && !s.cfg.Migrate:
		return from, from, fmt.Errorf("%w: its schema has version %d and this tarry needs %d: run \"tarry migrate\"",
			ErrUnfit, from, known)
	case from < known:
		if from, to, err = s.Migrate(ctx); err != nil {
			return from, to, err
		}
		if from != to && !s.cfg.copying { // the commands report it themselves
			s.log.Info().Int64("from", from).Int64("to", to).Msg("journal schema migrated")
		}
	}
	if err := s.claimNamespace(ctx); err != nil {
		return from, known, err
	}
	s.prepared.Store(true)
	return from, known, nil
}

// claimNamespace assigns the database to this namespace if it belongs to none yet, and refuses it if it belongs to
// another.
func (s *SQL) claimNamespace(ctx context.Context) error {
	_, err := s.write.db.ExecContext(ctx,
		"INSERT INTO meta (name, value) VALUES ('namespace', ?)"+s.kind.conflict+"name = meta.name", s.cfg.Namespace)
	if err != nil {
		return fmt.Errorf("claim the database for %q: %w", s.cfg.Namespace, err)
	}
	return s.checkNamespace(ctx)
}

// checkNamespace refuses another namespace's database.
func (s *SQL) checkNamespace(ctx context.Context) error {
	owner, err := namespace(ctx, s.write.db)
	if err == nil && owner != "" && owner != s.cfg.Namespace {
		err = fmt.Errorf("%w: it belongs to namespace %q, not %q", ErrUnfit, owner, s.cfg.Namespace)
	}
	return err
}

// namespace returns the namespace that a database belongs to, or "".
func namespace(ctx context.Context, db *sql.DB) (owner string, err error) {
	err = db.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'namespace'").Scan(&owner)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("read the namespace: %w", err)
	}
	return owner, nil
}

// Close closes all connections.
func (s *SQL) Close() error {
	if s.write == s.read {
		return s.write.db.Close()
	}
	return errors.Join(s.read.db.Close(), s.write.db.Close())
}

// Ping reports whether the journal answers and can be written to. It writes, since a read-only database answers every
// query.
func (s *SQL) Ping(ctx context.Context) error {
	_, err := s.write.ExecContext(ctx, "UPDATE meta SET value = value WHERE name = 'namespace'")
	if full(err) {
		return errDiskFull
	}
	return wrap(err, "ping the journal")
}

//go:embed migrations
var migrations embed.FS

// versions is the table of goose, which takes 4 MiB for each line of a migration outside StatementBegin and -End.
const versions = "schema_versions"

// Migrate migrates the schema to the version that this tarry knows, and returns the versions before and after. Several
// instances may do so at once. A newer schema is ErrUnfit.
func (s *SQL) Migrate(ctx context.Context) (from, to int64, err error) {
	known, err := s.known()
	if err != nil {
		return 0, 0, err
	}
	err = s.kind.lock(ctx, s, func(db *sql.DB) error {
		if from, err = version(ctx, db); err != nil {
			return err
		}
		to = from
		switch {
		case from > known:
			return newer(from, known)
		case from == known:
			return nil
		}
		provider, err := s.provider(db)
		if err != nil {
			return err
		}
		if _, err := provider.Up(ctx); err != nil {
			return fmt.Errorf("migrate the schema from version %d to %d: %w", from, known, err)
		}
		to = known
		return nil
	})
	return from, to, err
}

// Version returns the version of the schema, or 0 for an empty database.
func (s *SQL) Version(ctx context.Context) (int64, error) { return version(ctx, s.write.db) }

func version(ctx context.Context, db *sql.DB) (int64, error) {
	var at sql.NullInt64
	err := db.QueryRowContext(ctx, "SELECT MAX(version_id) FROM "+versions).Scan(&at)
	if err != nil && !noTable(err) {
		return 0, fmt.Errorf("read the schema's version: %w", err)
	}
	return at.Int64, nil
}

// known returns the version of the newest migration in this binary.
func (s *SQL) known() (int64, error) {
	p, err := s.provider(s.write.db)
	if err != nil {
		return 0, err
	}
	sources := p.ListSources()
	return sources[len(sources)-1].Version, nil
}

func (s *SQL) provider(db *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, s.kind.migrations)
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	p, err := goose.NewProvider(database.Dialect(s.kind.goose), db, files, goose.WithDisableGlobalRegistry(true),
		goose.WithTableName(versions))
	return p, wrap(err, "read the migrations")
}

func newer(version, known int64) error {
	return fmt.Errorf("%w: its schema has version %d, made by a newer tarry; this one knows %d", ErrUnfit,
		version, known)
}

// noTable reports whether a table does not exist. SQLite has no code for it.
func noTable(err error) bool {
	if my, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return my.Number == 1146
	}
	return err != nil && strings.Contains(err.Error(), "no such table")
}
