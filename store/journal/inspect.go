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

// Inspection is what a database says of itself: what Open would go by, and what
// decides whether it keeps its word. Nothing is judged, and nothing is changed:
// an SQLite file that is not there is not made.
type Inspection struct {
	// Place names the database without credentials.
	Place string
	// File is SQLite's, and Missing whether it is not there yet.
	File    string
	Missing bool
	// Server is what VERSION() says; Unfit why Open refuses it, nil when it does not.
	Server string
	Unfit  error
	// NeedPacket is the max_allowed_packet that messages of Config.MaxRow need.
	NeedPacket int64
	// Variables are the server's own settings, Session those that this session
	// got, Status what it counts, all by name and lower-case; what it does not have
	// is missing.
	Variables, Session, Status map[string]string
	// Charset is the database's.
	Charset string
	// Schema is the version of the tables, 0 without any. Known is the version that
	// this tarry creates.
	Schema, Known int64
	// Namespace is whom the database belongs to, empty for nobody.
	Namespace string
	// Engines are the storage engines of the tables, by table.
	Engines map[string]string
	// Forbidden are statements that this user may not run on the tables; empty
	// where there are none yet.
	Forbidden []string
	// Grants are this user's, as SHOW GRANTS has them; nil where it does not tell.
	Grants []string
	// Clocks are readings of the server's time in UTC.
	Clocks []ClockReading
}

// ClockReading is what a server's clock said to a question sent and answered at
// these times.
type ClockReading struct{ Server, Sent, Got time.Time }

// inspected are the variables that are looked at.
var inspected = []string{
	"innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin", "innodb_doublewrite", "innodb_force_recovery",
	"read_only", "super_read_only", "innodb_read_only",
	"max_connections", "max_user_connections", "wsrep_on", "max_allowed_packet",
}

// Inspect asks a database about itself. The error means that it cannot be asked
// at all; it never holds the DSN.
func Inspect(ctx context.Context, cfg Config) (found Inspection, err error) {
	s, err := connect(cfg)
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
	if err != nil {
		return found, fmt.Errorf("journal at %s: %w", s.kind.place, err)
	}
	return found, nil
}

// inspectTables reads what both kinds have.
func inspectTables(ctx context.Context, db *sql.DB, found *Inspection) (err error) {
	if found.Schema, err = version(ctx, db); err != nil || found.Schema == 0 {
		return err
	}
	err = db.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'namespace'").Scan(&found.Namespace)
	if err != nil && !errors.Is(err, sql.ErrNoRows) && !noTable(err) {
		return fmt.Errorf("read the namespace: %w", err)
	}
	return nil
}

// inspectSQLite opens the file for reading alone; the pools of s stay unused, as
// they would make it.
func (s *SQL) inspectSQLite(ctx context.Context, found *Inspection) (err error) {
	if _, err := os.Stat(found.File); errors.Is(err, os.ErrNotExist) {
		found.Missing = true
		if _, err := os.Stat(filepath.Dir(found.File)); err != nil {
			return fmt.Errorf("look at its directory: %w", err)
		}
		return nil
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
	if err := s.read.QueryRowContext(ctx, "SELECT VERSION()").Scan(&found.Server); err != nil {
		return fmt.Errorf("ask the server for its version: %w", err)
	}
	found.Unfit = checkVersion(found.Server)
	list := "'" + strings.Join(inspected, "', '") + "'"
	var err error
	if found.Variables, err = s.settings(ctx, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ("+list+")"); err != nil {
		return err
	}
	if found.Session, err = s.settings(ctx, "SHOW SESSION VARIABLES WHERE Variable_name IN ('wait_timeout', "+
		"'innodb_lock_wait_timeout', 'character_set_client', 'sql_mode', 'max_allowed_packet')"); err != nil {
		return err
	}
	if found.Status, err = s.settings(
		ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_connected', 'Max_used_connections')"); err != nil {
		return err
	}
	if err := s.read.QueryRowContext(ctx, "SELECT @@character_set_database").Scan(&found.Charset); err != nil {
		return fmt.Errorf("ask for the character set: %w", err)
	}
	for range 3 {
		var ms int64
		sent := time.Now()
		// The clock of the call, not of the session: SYSDATE does not stand still.
		err := s.read.QueryRowContext(
			ctx, "SELECT CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS SIGNED)").Scan(&ms)
		if err != nil {
			return fmt.Errorf("ask for the time: %w", err)
		}
		found.Clocks = append(found.Clocks, ClockReading{Server: time.UnixMicro(ms), Sent: sent, Got: time.Now()})
	}
	if err := inspectTables(ctx, s.read, found); err != nil {
		return err
	}
	if found.Schema > 0 {
		if err := s.inspectRights(ctx, found); err != nil {
			return err
		}
	}
	err = each(ctx, s.read, "SHOW GRANTS", nil, func(row scanner) error {
		var grant string
		err := row.Scan(&grant)
		found.Grants = append(found.Grants, grant)
		return err
	})
	if err != nil {
		found.Grants = nil // what they would tell is then not known, no more
	}
	return nil
}

// settings reads names and values.
func (s *SQL) settings(ctx context.Context, query string) (map[string]string, error) {
	out := map[string]string{}
	err := each(ctx, s.read, query, nil, func(row scanner) error {
		var name, value string
		err := row.Scan(&name, &value)
		out[strings.ToLower(name)] = value
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ask the server for its settings: %w", err)
	}
	return out, nil
}

// inspectRights has the server plan what tarry runs: EXPLAIN asks for the same
// privileges and does nothing.
func (s *SQL) inspectRights(ctx context.Context, found *Inspection) error {
	found.Engines = map[string]string{}
	err := each(ctx, s.read, "SELECT TABLE_NAME, ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = "+
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
		err := each(ctx, s.read, "EXPLAIN "+try.statement, nil, func(scanner) error { return nil })
		if my, ok := errors.AsType[*mysql.MySQLError](err); ok &&
			slices.Contains([]uint16{1044, 1142, 1143, 1370}, my.Number) {
			found.Forbidden = append(found.Forbidden, try.what)
		} else if ok && my.Number == 1146 {
			continue // a table is missing: the schema is not ours, or half made
		} else if err != nil {
			return fmt.Errorf("explain %s: %w", try.what, err)
		}
	}
	return nil
}
