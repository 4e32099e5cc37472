package lab

import (
	"context"
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
)

// MariaDB is a running mariadbd. Its user root needs no password.
type MariaDB struct {
	*Process
	Addr string // host:port
}

// NewMariaDB starts a mariadbd for this test alone, with the settings that Debian gives it where they matter to a
// client (utf8mb4, each commit flushed), and small otherwise: a pool of 64 MB, a redo log of 16 MB, no binary log. args
// are mariadbd's own and win over these, as in NewMariaDB(t, "--max-connections=5", "--innodb-buffer-pool-size=256M").
func NewMariaDB(t testing.TB, args ...string) *MariaDB {
	t.Helper()
	dir := t.TempDir()
	return newMariaDB(t, dir, filepath.Join(dir, "data"), args)
}

// NewMariaDBIn is NewMariaDB with the data in a directory of the caller's, as on a small file system that is to run
// full. It must be empty or not exist, and 50 MB is what a server without a table needs. The output and temporary files
// stay elsewhere. The directory is not removed.
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
	c, err := startMariaDB(dir, data, args)
	if err != nil {
		t.Fatal(err)
	}
	return &MariaDB{own(t, c), c.addr}
}

// SharedMariaDB is the one mariadbd of this test binary. Take a Database of your own, change no global variable, and
// never pause or stop it.
func SharedMariaDB(t testing.TB) *MariaDB {
	t.Helper()
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

// DSN names a database as github.com/go-sql-driver/mysql wants it. Add parameters behind a question mark, as in
// m.DSN("tarry") + "?parseTime=true".
func (m *MariaDB) DSN(database string) string { return "root@tcp(" + m.Addr + ")/" + database }

// Database makes an empty database that nobody else knows, and returns its DSN. It goes with the server.
func (m *MariaDB) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("lab_%016x", rand.Uint64())
	if _, err := m.SQL("", "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return m.DSN(name)
}

const sqlPatience = 20 * time.Second

// SQL runs statements through the mariadb client and returns the rows, one a line, a tab between columns. The database
// may be empty.
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

// startMariaDB makes a server of the template's copy. It has no Unix socket: a test's directory may be longer than the
// 107 bytes that the path of one can have.
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
			c.args = append(c.args, "--user=root") // else it refuses to run as root
		}
		c.args = append(c.args, args...)
		c.ready = func() error { return mariadbAnswers(c.addr) }
		return c, startOn(c)
	})
}

// mariadbRedo is the same in the template and in the servers: one that finds another size rewrites the log as it
// starts.
const mariadbRedo = "--innodb-log-file-size=16M"

// mariadbTemplate is a data directory with the system tables and no other, made once: that takes about a second, a copy
// a tenth of it. The method "normal" lets root in from 127.0.0.1 without a password; --skip-name-resolve keeps the
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
