package lab_test

import (
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestMariaDB_KeepsWhatIsCommittedWhenKilledAndRestarted(t *testing.T) {
	t.Parallel()
	srv := lab.NewMariaDB(t)
	db := path.Base(srv.Database(t))
	mariadbSays(t, srv, db, "CREATE TABLE kept (v VARCHAR(20)) ENGINE=InnoDB; INSERT INTO kept VALUES ('valué ☃')", "")
	addr, pid := srv.Addr, srv.Pid()

	srv.Kill()
	if srv.Running() {
		t.Fatal("it runs after Kill")
	}
	if _, err := srv.SQL("", "SELECT 1"); err == nil {
		t.Fatal("it answers after Kill")
	}
	srv.Restart()
	if srv.Addr != addr || srv.Pid() == pid {
		t.Fatalf("after Restart: address %s, pid %d; before: %s, %d", srv.Addr, srv.Pid(), addr, pid)
	}
	mariadbSays(t, srv, db, "SELECT v FROM kept", "valué ☃\n")

	srv.Restart() // an orderly one, of a server that runs
	mariadbSays(t, srv, db, "SELECT v FROM kept", "valué ☃\n")
}

func TestMariaDB_AnswersNobodyWhilePaused(t *testing.T) {
	t.Parallel()
	srv := lab.NewMariaDB(t)
	srv.Pause()
	c := connect(t, srv.Addr)
	c.silent()
	srv.Resume()
	greeting := make([]byte, 5)
	if _, err := io.ReadFull(c.r, greeting); err != nil || greeting[4] != 10 {
		t.Fatalf("after Resume: got % x and %v, want a greeting in protocol 10", greeting, err)
	}
	c.conn.Close() // mariadbd says good-bye to each client before it stops
	mariadbSays(t, srv, "", "SELECT 1", "1\n")
}

func TestMariaDB_StopsWhilePaused(t *testing.T) {
	t.Parallel()
	srv := lab.NewMariaDB(t)
	srv.Pause()
	srv.Stop()
	if srv.Running() {
		t.Fatal("it runs after Stop")
	}
	if got := srv.Wait(0); got != 0 {
		t.Errorf("exit code: got %d, want 0, an orderly stop", got)
	}
}

func TestMariaDB_StopsAsSoonAsItIsReady(t *testing.T) {
	t.Parallel()
	srv := lab.NewMariaDB(t)
	for range 5 {
		srv.Restart()
	}
}

func TestMariaDB_ArgumentsWinOverTheDefaults(t *testing.T) {
	t.Parallel()
	plain := lab.SharedMariaDB(t)
	own := lab.NewMariaDB(t, "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M", "--max-connections=12")
	for _, tc := range []struct {
		srv             *lab.MariaDB
		variable, value string
	}{
		{plain, "innodb_flush_log_at_trx_commit", "1"},
		{plain, "innodb_buffer_pool_size", "67108864"},
		{plain, "character_set_server", "utf8mb4"},
		{plain, "socket", ""},
		{own, "innodb_buffer_pool_size", "33554432"},
		{own, "innodb_log_file_size", "8388608"},
		{own, "max_connections", "12"},
	} {
		got, err := tc.srv.SQL("", "SELECT @@"+tc.variable)
		if err != nil || got != tc.value+"\n" {
			t.Errorf("%s: got %q and %v, want %q", tc.variable, got, err, tc.value)
		}
	}
}

func TestMariaDB_KeepsItsDataInTheGivenDirectory(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), strings.Repeat("a-long-name", 12))
	srv := lab.NewMariaDBIn(t, data)
	db := path.Base(srv.Database(t))
	if _, err := os.Stat(filepath.Join(data, db)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(srv.Dir(), "data")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("data in the test's own directory too: %v", err)
	}
	srv.Kill()
	srv.Restart()
	mariadbSays(t, srv, "", "SHOW DATABASES LIKE '"+db+"'", db+"\n")
}

func TestMariaDB_WillNotWriteOverData(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	lab.NewMariaDBIn(t, data).Stop()
	text := failure(t, func(t testing.TB) { lab.NewMariaDBIn(t, data) })
	if !strings.Contains(text, "make mariadb's data directory") || !strings.Contains(text, "file exists") {
		t.Errorf("a second server on the same data: %s", text)
	}
}

func TestMariaDB_DatabasesAreEmptyAndApart(t *testing.T) {
	t.Parallel()
	srv := lab.SharedMariaDB(t)
	a, b := srv.Database(t), srv.Database(t)
	if a == b {
		t.Fatalf("twice %s, want two", a)
	}
	if want := "root@tcp(" + srv.Addr + ")/"; path.Dir(a)+"/" != want || srv.DSN(path.Base(a)) != a {
		t.Errorf("DSN: got %s, want %s and a name", a, want)
	}
	mariadbSays(t, srv, path.Base(a), "CREATE TABLE x (id INT); SHOW TABLES", "x\n")
	mariadbSays(t, srv, path.Base(b), "SHOW TABLES", "")
}

func TestMariaDB_RootNeedsNoPassword(t *testing.T) {
	t.Parallel()
	srv := lab.SharedMariaDB(t)
	mariadbSays(t, srv, "", "SELECT CURRENT_USER()", "root@127.0.0.1\n")
	grants, err := srv.SQL("", "SHOW GRANTS")
	if want := "GRANT ALL PRIVILEGES ON *.* TO `root`@`127.0.0.1` WITH GRANT OPTION\n"; err != nil ||
		!strings.Contains(grants, want) {
		t.Errorf("grants: got %q and %v, want %q", grants, err, want)
	}
}

func TestMariaDB_TellsWhatIsWrongWithAStatement(t *testing.T) {
	t.Parallel()
	_, err := lab.SharedMariaDB(t).SQL("", "SELECT nonsense")
	if err == nil || !strings.Contains(err.Error(), "Unknown column 'nonsense'") {
		t.Errorf("got %v, want the server's words", err)
	}
}

func TestMariaDB_SharedIsOneServer(t *testing.T) {
	t.Parallel()
	a, b := lab.SharedMariaDB(t), lab.SharedMariaDB(t)
	if a.Addr != b.Addr || a.Pid() != b.Pid() {
		t.Errorf("got %s (%d) and %s (%d), want one server", a.Addr, a.Pid(), b.Addr, b.Pid())
	}
	mariadbSays(t, a, "", "SELECT 1", "1\n")
}

func mariadbSays(t *testing.T, srv *lab.MariaDB, database, statements, want string) {
	t.Helper()
	got, err := srv.SQL(database, statements)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Fatalf("%s: got %q, want %q", statements, got, want)
	}
}
