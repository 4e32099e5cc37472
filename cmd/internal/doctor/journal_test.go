package doctor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/cmd/internal/doctor"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/store/journal"
)

func migrate(t *testing.T, dsn, namespace string) {
	t.Helper()
	if _, _, err := journal.Migrate(t.Context(), journal.Config{DSN: dsn, Namespace: namespace}); err != nil {
		t.Fatal(err)
	}
}

func TestJournal_OnAServerThatIsLax(t *testing.T) {
	t.Parallel()
	server := lab.NewMariaDB(t, "--max-allowed-packet=1M", "--innodb-flush-log-at-trx-commit=2", "--log-bin=binlog",
		"--sync-binlog=0", "--server-id=1")
	s := healthy(t)
	s["JOURNAL_DSN"] = server.Database(t)
	s.diagnosis(t).fails("journal max_allowed_packet").warns(
		"zookeeper ensemble", "journal durability").
		has(doctor.Fail, "journal", "max_allowed_packet", "1 MiB", "max_allowed_packet=16").
		has(doctor.Warn, "journal", "durability", "innodb_flush_log_at_trx_commit=2, sync_binlog=0")
	s["HTTP_BODY_LIMIT"] = "480KiB"
	s.diagnosis(t).fails().has(doctor.OK, "journal", "max_allowed_packet")
	if _, err := server.SQL("", "SET GLOBAL read_only = 1"); err != nil {
		t.Fatal(err)
	}
	s.diagnosis(t).has(doctor.Warn, "journal", "writable", "read_only")
}

func TestJournal_WhoseTablesAreNotReady(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s["JOURNAL_MIGRATE"] = "false"
	s.diagnosis(t).fails("journal schema").has(doctor.Fail, "journal", "schema", "version 0", "tarry migrate")
	migrate(t, s["JOURNAL_DSN"], s["NAMESPACE"])
	s.diagnosis(t).fails().has(doctor.OK, "journal", "namespace", "to this namespace")
	database := s["JOURNAL_DSN"][strings.LastIndex(s["JOURNAL_DSN"], "/")+1:]
	for _, statement := range []string{"ALTER TABLE transitions ENGINE=Aria",
		"INSERT INTO schema_versions (version_id, is_applied) VALUES (99, true)"} {
		if _, err := lab.SharedMariaDB(t).SQL(database, statement); err != nil {
			t.Fatal(err)
		}
	}
	s.diagnosis(t).fails("journal schema", "journal engine").has(doctor.Fail, "journal", "schema", "version 99").has(
		doctor.Fail, "journal", "engine", "transitions (Aria)")

	s["JOURNAL_DSN"] = lab.SharedMariaDB(t).Database(t)
	migrate(t, s["JOURNAL_DSN"], "somebody")
	s.diagnosis(t).fails("journal namespace").has(doctor.Fail, "journal", "namespace", "belongs to namespace somebody")
}

func TestJournal_WhoseUserMayNotDoIt(t *testing.T) {
	t.Parallel()
	server := lab.NewMariaDB(t)
	root := server.Database(t)
	database := root[strings.LastIndex(root, "/")+1:]
	s := healthy(t)
	s["JOURNAL_DSN"] = "tarry:a-password@tcp(" + server.Addr + ")/" + database
	run := func(statement string) {
		t.Helper()
		_, err := server.SQL("", strings.ReplaceAll(statement, "DB", "`"+strings.ReplaceAll(database, "_", `\_`)+"`"))
		if err != nil {
			t.Fatal(err)
		}
	}
	run("CREATE USER tarry@'%' IDENTIFIED BY 'a-password'")
	s.diagnosis(t).fails("journal reachable").has(doctor.Fail, "journal", "reachable", "grant the user access")
	run("GRANT SELECT, INSERT, UPDATE, DELETE ON DB.* TO tarry@'%'")
	s.diagnosis(t).fails().has(doctor.Unknown, "journal", "privileges", "no tables yet", "CREATE, ALTER, INDEX")
	migrate(t, root, s["NAMESPACE"])
	s.diagnosis(t).fails().has(doctor.OK, "journal", "privileges", "the user may do what tarry needs")
	run("REVOKE DELETE, UPDATE ON DB.* FROM tarry@'%'")
	s.diagnosis(t).fails("journal privileges").has(doctor.Fail, "journal", "privileges", "DELETE, UPDATE")
	run("GRANT UPDATE, DELETE, CREATE, ALTER, INDEX ON DB.* TO tarry@'%'")
	s.diagnosis(t).fails().has(doctor.OK, "journal", "privileges", "the user may do what tarry needs")
}

func TestJournal_InAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "journal.db")
	s := healthy(t)
	s["JOURNAL_DSN"] = "sqlite:" + file
	s.diagnosis(t).fails().has(doctor.OK, "journal", "file", "does not exist yet").has(doctor.OK, "journal", "writable")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it made %v, %v", left, err)
	}
	migrate(t, s["JOURNAL_DSN"], s["NAMESPACE"])
	s.diagnosis(t).fails().has(doctor.OK, "journal", "file", "journal mode wal").has(doctor.OK, "journal", "namespace",
		"to this namespace")
	s["NAMESPACE"] = "other"
	s.diagnosis(t).fails("journal namespace")

	if err := os.WriteFile(file, []byte(strings.Repeat("no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.diagnosis(t).fails("journal reachable").has(doctor.Fail, "journal", "reachable", "not a database")
	s["JOURNAL_DSN"] = "sqlite:" + filepath.Join(dir, "missing", "journal.db")
	s.diagnosis(t).fails("journal reachable").has(doctor.Fail, "journal", "reachable", "make its directory")
	if shm, err := os.MkdirTemp("/dev/shm", "tarry-doctor-"); err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(shm) })
		s["JOURNAL_DSN"] = "sqlite:" + filepath.Join(shm, "journal.db")
		s.diagnosis(t).fails().has(doctor.Warn, "journal", "file system", "in memory")
	}
}
