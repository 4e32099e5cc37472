package stage

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// MariaDB is a mariadbd with one database that nobody has used yet.
type MariaDB struct{ *lab.MariaDB }

const database = "tarry"

// mariadbArgs are those of a small production server: each commit is flushed to the disk (lab's own setting), a pool of
// 512 MB, and a redo log that a burst does not fill. There is no binary log.
var mariadbArgs = []string{
	"--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=512M", "--innodb-log-file-size=512M",
	"--max-allowed-packet=64M", "--skip-name-resolve", "--skip-log-bin",
}

// MariaDB starts a mariadbd with no data. Where it is not installed, the failure says how to install it.
func (s *Scope) MariaDB() *MariaDB {
	m := &MariaDB{lab.NewMariaDB(s, mariadbArgs...)}
	version, err := m.SQL("", "CREATE DATABASE "+database+"; SELECT VERSION()")
	if err != nil {
		s.Fatal(fmt.Errorf("make the journal's database: %w", err))
	}
	version, _, _ = strings.Cut(version, "-")
	s.is("mariadb", strings.TrimSpace(version))
	return m
}

// journalDSN is what tarry needs to find it.
func (m *MariaDB) journalDSN() string { return m.DSN(database) }

// Bytes is what all tables take, rows and indexes, in whole pages.
func (m *MariaDB) Bytes() (int64, error) {
	names, err := m.SQL(database,
		"SELECT GROUP_CONCAT(table_name) FROM information_schema.tables WHERE table_schema = '"+database+"'")
	if err != nil {
		return 0, fmt.Errorf("list the journal's tables: %w", err)
	}
	// The sizes are as of the last count of pages, which this is.
	if _, err := m.SQL(database, "ANALYZE TABLE "+strings.TrimSpace(names)); err != nil {
		return 0, fmt.Errorf("count the journal's pages: %w", err)
	}
	return m.sum("data_length + index_length", "%")
}

// Messages is about how many rows the table of messages has, as of the last Bytes.
func (m *MariaDB) Messages() (int64, error) { return m.sum("table_rows", "messages") }

// sum adds what the server knows of the tables that a pattern matches.
func (m *MariaDB) sum(what, tables string) (int64, error) {
	text, err := m.SQL(database, fmt.Sprintf("SELECT SUM(%s) FROM information_schema.tables "+
		"WHERE table_schema = '%s' AND table_name LIKE '%s'", what, database, tables))
	if err != nil {
		return 0, fmt.Errorf("ask for the journal's size: %w", err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the journal's size: %w", err)
	}
	return n, nil
}
