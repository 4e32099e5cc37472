package lab

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Redis is a running redis-server.
type Redis struct {
	*Process
	Addr string // host:port
}

// NewRedis starts a redis-server for this test alone: no RDB snapshots, an append-only file fsynced each second, and
// short time-outs for replicas. args are redis-server's own and override these, as in NewRedis(t, "--appendfsync",
// "always", "--maxmemory", "64mb").
func NewRedis(t testing.TB, args ...string) *Redis {
	t.Helper()
	Needs(t, "redis-server")
	c, err := startRedis(t.TempDir(), args)
	if err != nil {
		t.Fatal(err)
	}
	return &Redis{own(t, c), c.addr}
}

// SharedRedis returns the one redis-server of this test binary. Use your own key prefix, and never flush, pause or stop
// it.
func SharedRedis(t testing.TB) *Redis {
	t.Helper()
	Needs(t, "redis-server")
	c, err := machine.redis.get(func() (*child, error) {
		dir, err := machine.scratch.sub("redis")
		if err != nil {
			return nil, err
		}
		return startRedis(dir, nil)
	})
	p := use(t, c, err)
	return &Redis{p, p.c.addr}
}

func startRedis(dir string, args []string, env ...string) (*child, error) {
	bin, err := program("redis-server")
	if err != nil {
		return nil, err
	}
	return onPorts(1, func(ports []port, release func()) (*child, error) {
		c := &child{name: "redis-server", addr: ports[0].addr(), dir: dir, bin: bin, env: env, release: release}
		c.args = append([]string{
			"--port", strconv.Itoa(ports[0].number), "--bind", loopback, "--dir", dir,
			"--save", "", "--appendonly", "yes", "--appendfsync", "everysec",
			// By default, a stopping primary waits for a lagging replica as long as stop waits for the primary.
			"--shutdown-timeout", "1", "--repl-diskless-sync-delay", "0",
			// Without it, a replica that still writes its first append-only file would not end at all.
			"--shutdown-on-sigterm", "force",
		}, args...)
		c.ready = func() error { return redisAnswers(c.addr) }
		return c, startOn(c)
	})
}

// redisAnswers sends one PING. A server that requires a password answers with an error, and is up; a server that still
// loads its data is not.
func redisAnswers(addr string) error {
	conn, err := dial(addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "PING\r\n"); err != nil {
		return fmt.Errorf("ping redis: %w", err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return fmt.Errorf("ping redis: %w", err)
	}
	if line = strings.TrimSpace(line); line != "+PONG" && !strings.HasPrefix(line, "-NOAUTH") {
		return fmt.Errorf("ping redis: it says %q", line)
	}
	return nil
}

// dial connects for one short request.
func dial(addr string) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp4", addr, time.Second)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}
