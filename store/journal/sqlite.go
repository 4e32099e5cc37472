package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
)

// sqliteReaders bounds the connections that only read; in WAL mode they and the
// writer do not wait for each other.
const sqliteReaders = 4

// sqliteCache is the writer's cache, 32 MiB: uids hit its indexes all over.
const sqliteCache = "cache_size(-32768)"

// connectSQLite opens a file, which need not exist yet. synchronous=FULL: what
// was committed survives the loss of power, as it must before a push is
// answered.
func (s *SQL) connectSQLite(file string) error {
	if file == "" {
		return fmt.Errorf("%w: %s names no file", ErrUnfit, sqliteScheme)
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return fmt.Errorf("find the journal's file: %w", err)
	}
	s.kind = &dialect{
		place:      sqliteScheme + file,
		file:       file,
		check:      checkSQLite,
		lock:       lockSQLite,
		migrations: "migrations/sqlite", goose: "sqlite3",

		conflict: " ON CONFLICT DO UPDATE SET ",
		incoming: func(column string) string { return "excluded." + column },
		greatest: "MAX",
		div:      "/",
		like:     "GLOB ?",
		any:      "*",
		literal:  strings.NewReplacer("[", "[[]", "*", "[*]", "?", "[?]").Replace,
		index:    func(name string) string { return " INDEXED BY " + name },
		rows:     1, // a prepared statement, run for each row
	}
	if s.write, err = openSQLite(file, url.Values{
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(0)", sqliteCache},
	}); err != nil {
		return err
	}
	s.write.SetMaxOpenConns(1)
	s.read, err = openSQLite(file, url.Values{"_pragma": {"busy_timeout(5000)", "query_only(1)"}})
	if err != nil {
		return errors.Join(err, s.write.Close())
	}
	s.read.SetMaxOpenConns(sqliteReaders)
	s.read.SetMaxIdleConns(sqliteReaders)
	return nil
}

func openSQLite(file string, options url.Values) (*sql.DB, error) {
	u := url.URL{Scheme: "file", Path: file, RawQuery: options.Encode()}
	c, err := sqlite.NewConnector(u.String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", file, err)
	}
	return sql.OpenDB(c), nil
}

// makeOwn makes a file that its owner alone may read and write; SQLite, which
// would let everybody read it, gives -wal and -shm the same mode. A file that is
// there keeps its own. Where none can be made, SQLite says why when it opens it.
func makeOwn(file string) {
	if f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
		f.Close()
	}
}

// checkSQLite makes the file, so that readers find it, and wants what the
// pragmas asked for.
func checkSQLite(ctx context.Context, s *SQL) error {
	makeOwn(s.kind.file)
	var mode string
	if err := s.write.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return fmt.Errorf("open the file: %w", err)
	}
	if mode != "wal" {
		return fmt.Errorf("%w: its journal mode is %s; WAL needs a file on a local disk", ErrUnfit, mode)
	}
	return nil
}

// lockSQLite runs do while a second file beside the journal's is locked. goose
// opens transactions of its own, so the journal's file cannot be. The lock ends
// with the process that holds it; the file, which is empty, stays.
func lockSQLite(ctx context.Context, s *SQL, do func(*sql.DB) error) (err error) {
	makeOwn(s.kind.file + "-migration")
	lock, err := openSQLite(s.kind.file+"-migration",
		url.Values{"_txlock": {"exclusive"}, "_pragma": {"busy_timeout(60000)"}})
	if err != nil {
		return fmt.Errorf("lock the schema: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	tx, err := lock.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("lock the schema: %w", err)
	}
	defer tx.Rollback() // it never writes
	return do(s.write)
}
