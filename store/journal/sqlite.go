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
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// sqliteReaders bounds the read-only connections; in WAL mode they and the writer do not wait for each other.
const sqliteReaders = 4

// sqlitePatience bounds how long an instance tries to open a file that another one is making.
const sqlitePatience = 5 * time.Second

// sqliteCache is the writer's cache, 32 MiB: uids touch its indexes at random.
const sqliteCache = "cache_size(-32768)"

// connectSQLite opens a file, which need not exist yet. With synchronous=FULL a commit survives a loss of power, as it
// must before a push is answered.
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
	write, err := openSQLite(file, url.Values{
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(0)", sqliteCache},
	})
	if err != nil {
		return err
	}
	write.SetMaxOpenConns(1)
	read, err := openSQLite(file, url.Values{"_pragma": {"busy_timeout(5000)", "query_only(1)"}})
	if err != nil {
		return errors.Join(err, write.Close())
	}
	read.SetMaxOpenConns(sqliteReaders)
	read.SetMaxIdleConns(sqliteReaders)
	s.write, s.read = pool{write, &s.prepared}, pool{read, &s.prepared}
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

// makeOwn creates a file that only its owner may read and write. SQLite would let everybody read it, and gives -wal and
// -shm the same mode. An existing file keeps its mode. If the file cannot be created, SQLite reports why when it opens
// it.
func makeOwn(file string) {
	if f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
		f.Close()
	}
}

// checkSQLite creates the file, so that readers find it, and checks that the pragmas took effect. Of two instances that
// open a new file at once, SQLite refuses one the change to WAL without regard to busy_timeout: that one tries again.
func checkSQLite(ctx context.Context, s *SQL) error {
	makeOwn(s.kind.file)
	var mode string
	ask := func() error { return s.write.db.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode) }
	end := time.Now().Add(sqlitePatience)
	err := ask()
	tick := time.Tick(5 * time.Millisecond)
	for ; busy(err) && time.Now().Before(end); err = ask() {
		select {
		case <-tick:
		case <-ctx.Done():
			return fmt.Errorf("open the file: %w", ctx.Err())
		}
	}
	if err != nil {
		return fmt.Errorf("open the file: %w", err)
	}
	if mode != "wal" {
		return fmt.Errorf("%w: its journal mode is %s; WAL needs a file on a local disk", ErrUnfit, mode)
	}
	return nil
}

func busy(err error) bool {
	var lite *sqlite.Error
	return errors.As(err, &lite) && lite.Code()&0xff == sqlite3.SQLITE_BUSY
}

// lockSQLite runs do while a second file beside the journal's is locked. The journal's file itself cannot be locked,
// since goose opens transactions of its own. The lock ends with the process that holds it; the empty file stays.
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
	return do(s.write.db)
}
