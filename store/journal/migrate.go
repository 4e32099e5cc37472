package journal

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
)

//go:embed migrations
var migrations embed.FS

// versions is the table in which goose records its migrations.
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
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	return p, nil
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
