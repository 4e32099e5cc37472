package stage

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// Postgres starts a PostgreSQL with one database that nobody has used yet, and returns connections to it. It answers a
// commit before its log is on the disk, and flushes that within a second, as Redis does beside it; a pool of 512 MB as
// MariaDB's.
func (s *Scope) Postgres(connections int) *pgxpool.Pool {
	servers, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(servers) == 0 {
		s.Fatalf("postgres is not installed: run deploy/lab/install.sh")
	}
	server := servers[len(servers)-1]
	data, port := s.TempDir(), strconv.Itoa(lab.FreePort(s))
	// It refuses to run as root; Debian has a user for it.
	var as []string
	if os.Geteuid() == 0 {
		as = []string{"/usr/bin/setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"}
		if out, err := exec.CommandContext(s.ctx, "chown", "postgres:postgres", data).CombinedOutput(); err != nil {
			s.Fatalf("give postgres its directory: %w: %s", err, out)
		}
	}
	initdb := append(as, filepath.Join(filepath.Dir(server), "initdb"), "--pgdata="+data, "--username=tarry",
		"--auth=trust", "--no-sync", "--no-locale", "--encoding=UTF8")
	if out, err := exec.CommandContext(s.ctx, initdb[0], initdb[1:]...).CombinedOutput(); err != nil {
		s.Fatalf("make postgres's directory: %w: %s", err, out)
	}
	run := append(as, server, "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "synchronous_commit=off", "-c", "shared_buffers=512MB")
	lab.Start(s, "postgres", nil, run[0], run[1:]...)
	config, err := pgxpool.ParseConfig("postgres://tarry@127.0.0.1:" + port + "/postgres?sslmode=disable")
	if err != nil {
		s.Fatal(err)
	}
	config.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(s.ctx, config)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(pool.Close)
	err = Until(s.ctx, 50*time.Millisecond, func(ctx context.Context) error { return pool.Ping(ctx) })
	if err != nil {
		s.Fatal(fmt.Errorf("wait for postgres: %w", err))
	}
	var version string
	if err := pool.QueryRow(s.ctx, "SHOW server_version").Scan(&version); err != nil {
		s.Fatal(fmt.Errorf("ask postgres for its version: %w", err))
	}
	version, _, _ = strings.Cut(version, " ")
	s.is("postgresql", version)
	return pool
}
