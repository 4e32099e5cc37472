package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Inspection describes a database: what Open would check, and what decides whether the database keeps its promises.
// Inspect judges nothing and changes nothing: it does not create a missing SQLite file.
type Inspection struct {
	// Place names the database without credentials.
	Place string
	// File is SQLite's file, and Missing whether it does not exist yet.
	File    string
	Missing bool
	// Server is the answer of VERSION(). Unfit is why Open refuses the server, or nil.
	Server string
	Unfit  error
	// NeedPacket is the max_allowed_packet that messages of Config.MaxRow need.
	NeedPacket int64
	// Variables are the server's own settings and Session those of this session, by lower-case name. Names that the server
	// does not know are missing.
	Variables, Session map[string]string
	// Schema is the version of the tables, 0 without tables. Known is the version that this tarry creates.
	Schema, Known int64
	// Namespace is the namespace that the database belongs to, or "".
	Namespace string
	// Engines are the storage engines of the tables, by table.
	Engines map[string]string
	// Forbidden are statements that this user may not run on the tables; it is empty if there are no tables yet.
	Forbidden []string
	// Clocks are readings of the server's time in UTC.
	Clocks []ClockReading
}

// ClockReading is a server's clock, read by a query sent and answered at these times.
type ClockReading struct{ Server, Sent, Got time.Time }

// inspected are the variables that Inspect reads.
var inspected = []string{
	"innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin", "innodb_doublewrite", "innodb_force_recovery",
	"read_only", "super_read_only", "innodb_read_only",
	"wsrep_on", "max_allowed_packet",
}

// Inspect reads what a database reports about itself. It returns an error if the database cannot be asked at all; the
// error never contains the DSN.
func Inspect(ctx context.Context, cfg Config) (found Inspection, err error) {
	s, err := New(cfg)
	if err != nil {
		return found, fmt.Errorf("journal: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	found.Place, found.File = s.kind.place, s.kind.file
	found.NeedPacket = 2*int64(s.cfg.MaxRow) + packetRoom
	if found.Known, err = s.known(); err != nil {
		return found, fmt.Errorf("journal at %s: %w", s.kind.place, err)
	}
	if found.File != "" {
		err = s.inspectSQLite(ctx, &found)
	} else {
		err = s.inspectMySQL(ctx, &found)
	}
	return found, wrap(err, "journal at %s", s.kind.place)
}

// inspectTables reads what both kinds of database have.
func inspectTables(ctx context.Context, db *sql.DB, found *Inspection) (err error) {
	if found.Schema, err = version(ctx, db); err != nil || found.Schema == 0 {
		return err
	}
	if found.Namespace, err = namespace(ctx, db); noTable(err) {
		return nil
	}
	return err
}

// inspectSQLite opens the file read-only. It does not use the pools of s, which would create the file.
func (s *SQL) inspectSQLite(ctx context.Context, found *Inspection) (err error) {
	if _, err := os.Stat(found.File); errors.Is(err, os.ErrNotExist) {
		found.Missing = true
		_, err := os.Stat(filepath.Dir(found.File))
		return wrap(err, "look at its directory")
	} else if err != nil {
		return fmt.Errorf("look at the file: %w", err)
	}
	db, err := openSQLite(found.File, url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(5000)", "query_only(1)"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&found.Server); err != nil {
		return fmt.Errorf("open the file: %w", err)
	}
	var mode string
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return fmt.Errorf("open the file: %w", err)
	}
	found.Variables = map[string]string{"journal_mode": mode}
	return inspectTables(ctx, db, found)
}

func (s *SQL) inspectMySQL(ctx context.Context, found *Inspection) error {
	if err := s.read.db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&found.Server); err != nil {
		return fmt.Errorf("ask the server for its version: %w", err)
	}
	found.Unfit = checkVersion(found.Server)
	list := "'" + strings.Join(inspected, "', '") + "'"
	var err error
	if found.Variables, err = s.settings(ctx, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ("+list+")"); err != nil {
		return err
	}
	if found.Session, err = s.settings(
		ctx, "SHOW SESSION VARIABLES WHERE Variable_name IN ('wait_timeout', 'max_allowed_packet')"); err != nil {
		return err
	}
	for range 3 {
		var ms int64
		sent := time.Now()
		// The time of this statement, in UTC and not in the session's time zone.
		err := s.read.db.QueryRowContext(
			ctx, "SELECT CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS SIGNED)").Scan(&ms)
		if err != nil {
			return fmt.Errorf("ask for the time: %w", err)
		}
		found.Clocks = append(found.Clocks, ClockReading{Server: time.UnixMicro(ms), Sent: sent, Got: time.Now()})
	}
	if err := inspectTables(ctx, s.read.db, found); err != nil {
		return err
	}
	if found.Schema == 0 {
		return nil
	}
	return s.inspectRights(ctx, found)
}

// settings reads names and values.
func (s *SQL) settings(ctx context.Context, query string) (map[string]string, error) {
	out := map[string]string{}
	err := each(ctx, s.read.db, query, nil, func(row scanner) error {
		var name, value string
		err := row.Scan(&name, &value)
		out[strings.ToLower(name)] = value
		return err
	})
	return out, wrap(err, "ask the server for its settings")
}

// inspectRights makes the server plan the statements that tarry runs: EXPLAIN needs the same privileges and changes
// nothing.
func (s *SQL) inspectRights(ctx context.Context, found *Inspection) error {
	found.Engines = map[string]string{}
	err := each(ctx, s.read.db, "SELECT TABLE_NAME, ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = "+
		"DATABASE() AND ENGINE IS NOT NULL", nil, func(row scanner) error {
		var table, engine string
		err := row.Scan(&table, &engine)
		found.Engines[table] = engine
		return err
	})
	if err != nil {
		return fmt.Errorf("list the tables: %w", err)
	}
	for _, try := range []struct{ what, statement string }{
		{"SELECT", "SELECT uid FROM messages WHERE uid = ''"},
		{"INSERT", "INSERT INTO states (number, word) VALUES (0, 'none')"},
		{"UPDATE", "UPDATE messages SET due = due WHERE uid = ''"},
		{"DELETE", "DELETE FROM transitions WHERE uid = ''"},
	} {
		err := each(ctx, s.read.db, "EXPLAIN "+try.statement, nil, func(scanner) error { return nil })
		if my, ok := errors.AsType[*mysql.MySQLError](err); ok &&
			slices.Contains([]uint16{1044, 1142, 1143, 1370}, my.Number) {
			found.Forbidden = append(found.Forbidden, try.what)
		} else if ok && my.Number == 1146 {
			continue // a table is missing: the schema is foreign or incomplete
		} else if err != nil {
			return fmt.Errorf("explain %s: %w", try.what, err)
		}
	}
	return nil
}
