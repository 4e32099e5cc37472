package lab

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// MariaDB is a running mariadbd. Its user root needs no password.
type MariaDB struct {
	*Process
	Addr string // host:port
}

// NewMariaDB starts a mariadbd for this test alone. Settings that matter to a client are Debian's (utf8mb4, each commit
// flushed); otherwise the server is small: a pool of 64 MB, a redo log of 16 MB, no binary log. args are mariadbd's own
// and override these settings, as in NewMariaDB(t, "--max-connections=5", "--innodb-buffer-pool-size=256M").
func NewMariaDB(t testing.TB, args ...string) *MariaDB {
	t.Helper()
	dir := t.TempDir()
	return newMariaDB(t, dir, filepath.Join(dir, "data"), args)
}

// NewMariaDBIn is NewMariaDB with the data in the caller's directory, for example on a small file system that is to run
// full. The directory must be empty or not exist; a server without a table needs 50 MB. The output and temporary files
// are not in it. The directory is not removed.
func NewMariaDBIn(t testing.TB, data string, args ...string) *MariaDB {
	t.Helper()
	abs, err := filepath.Abs(data)
	if err != nil {
		t.Fatal(err)
	}
	return newMariaDB(t, t.TempDir(), abs, args)
}

func newMariaDB(t testing.TB, dir, data string, args []string) *MariaDB {
	t.Helper()
	Needs(t, "MariaDB")
	c, err := startMariaDB(dir, data, args)
	if err != nil {
		t.Fatal(err)
	}
	return &MariaDB{own(t, c), c.addr}
}

// SharedMariaDB returns the one mariadbd of this test binary. Use a Database of your own, change no global variable,
// and never pause or stop it.
func SharedMariaDB(t testing.TB) *MariaDB {
	t.Helper()
	Needs(t, "MariaDB")
	c, err := machine.mariadb.get(func() (*child, error) {
		dir, err := machine.scratch.sub("mariadb")
		if err != nil {
			return nil, err
		}
		return startMariaDB(dir, filepath.Join(dir, "data"), nil)
	})
	p := use(t, c, err)
	return &MariaDB{p, p.c.addr}
}

// DSN returns the DSN of a database for github.com/go-sql-driver/mysql. Append parameters after a question mark, as in
// m.DSN("tarry") + "?parseTime=true".
func (m *MariaDB) DSN(database string) string { return "root@tcp(" + m.Addr + ")/" + database }

// Database makes an empty database for the caller alone, and returns its DSN. It is removed with the server.
func (m *MariaDB) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("lab_%016x", rand.Uint64())
	if _, err := m.SQL("", "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return m.DSN(name)
}

const sqlPatience = 20 * time.Second

// SQL runs statements through the mariadb client and returns the rows, one per line, with tabs between columns. The
// name of the database may be empty.
func (m *MariaDB) SQL(database, statements string) (string, error) {
	bin, err := program("mariadb")
	if err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(m.Addr)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), sqlPatience)
	defer cancel()
	out, err := exec.CommandContext(ctx, bin, "--no-defaults", "--protocol=tcp", "--host="+host, "--port="+port,
		"--user=root",
		"--default-character-set=utf8mb4", "--batch", "--skip-column-names",
		"--database="+database, "--execute="+statements).Output()
	if err == nil {
		return string(out), nil
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("no answer in %s", sqlPatience)
	}
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return "", fmt.Errorf("ask mariadb %.80q: %w: %s", statements, err, strings.TrimSpace(string(exit.Stderr)))
	}
	return "", fmt.Errorf("ask mariadb %.80q: %w", statements, err)
}

// startMariaDB starts a server on a copy of the template. It has no Unix socket: a test's directory may be longer than
// the 107 bytes that a socket's path can have.
func startMariaDB(dir, data string, args []string) (*child, error) {
	bin, err := program("mariadbd")
	if err != nil {
		return nil, err
	}
	template, err := mariadbTemplate()
	if err != nil {
		return nil, err
	}
	if err := os.CopyFS(data, os.DirFS(template)); err != nil {
		return nil, fmt.Errorf("make mariadb's data directory: %w", err)
	}
	tmp := filepath.Join(dir, "tmp")
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return nil, fmt.Errorf("make mariadb's directory: %w", err)
	}
	return onPorts(1, func(ports []port, release func()) (*child, error) {
		c := &child{name: "mariadbd", addr: ports[0].addr(), dir: dir, bin: bin, release: release}
		c.args = []string{
			"--no-defaults", "--datadir=" + data, "--tmpdir=" + tmp,
			"--pid-file=" + filepath.Join(dir, "mariadbd.pid"), "--socket=",
			"--skip-networking=0", "--bind-address=" + loopback, "--port=" + strconv.Itoa(ports[0].number),
			"--skip-name-resolve",
			"--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci",
			"--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=64M", mariadbRedo,
			"--performance-schema=off",
		}
		if os.Geteuid() == 0 {
			c.args = append(c.args, "--user=root") // otherwise it refuses to run as root
		}
		c.args = append(c.args, args...)
		c.ready = func() error { return mariadbAnswers(c.addr) }
		return c, startOn(c)
	})
}

// mariadbRedo is the same in the template and in the servers: a server that finds another size rewrites the log as it
// starts.
const mariadbRedo = "--innodb-log-file-size=16M"

// mariadbTemplate returns a data directory with only the system tables. It is made once: that takes about a second, a
// copy a tenth of it. The method "normal" lets root in from 127.0.0.1 without a password; --skip-name-resolve keeps the
// program from looking up this machine's own name.
func mariadbTemplate() (string, error) {
	return machine.mariadbData.get(func() (string, error) {
		bin, err := program("mariadb-install-db")
		if err != nil {
			return "", err
		}
		dir, err := machine.scratch.sub("mariadb-template")
		if err != nil {
			return "", err
		}
		data := filepath.Join(dir, "data")
		c := &child{name: "mariadb-install-db", dir: dir, bin: bin, args: []string{
			"--no-defaults", "--datadir=" + data, "--tmpdir=" + dir,
			"--auth-root-authentication-method=normal", "--skip-name-resolve", "--skip-test-db", mariadbRedo,
		}}
		if err := c.launch(); err != nil {
			return "", err
		}
		late := time.NewTimer(startPatience)
		defer late.Stop()
		select {
		case <-c.exited():
		case <-late.C:
			c.kill()
		}
		if !c.exit().Success() {
			return "", fmt.Errorf("make mariadb's system tables: %s; output:\n%s", c.exit(), c.tail())
		}
		return data, nil
	})
}

// mariadbAnswers logs in and runs one SELECT. An open port alone means little: mariadbd accepts connections before it
// serves them, and a SIGTERM that arrives in between can be lost.
func mariadbAnswers(addr string) error {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.Logger = "root", "tcp", addr, new(mysql.NopLogger)
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = time.Second, 2*time.Second, 2*time.Second
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return fmt.Errorf("connect to mariadb: %w", err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	var one int
	if err := db.QueryRow("SELECT 1").Scan(&one); err != nil {
		return fmt.Errorf("ask mariadb SELECT 1: %w", err)
	}
	return nil
}
