package lab

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// NewSentinel starts a Redis Sentinel for this test alone. It watches a master under a name, declares it dead after it
// was silent for the given time, and promotes a replica without other Sentinels.
func NewSentinel(t testing.TB, name string, master *Redis, silent time.Duration) *Redis {
	t.Helper()
	Needs(t, "redis-server")
	dir := t.TempDir()
	c, err := startSentinel(dir, name, master.Addr, silent)
	if err != nil {
		t.Fatal(err)
	}
	return &Redis{own(t, c), c.addr}
}

func startSentinel(dir, name, master string, silent time.Duration) (*child, error) {
	bin, err := program("redis-server")
	if err != nil {
		return nil, err
	}
	host, number, err := net.SplitHostPort(master)
	if err != nil {
		return nil, fmt.Errorf("address of the master: %w", err)
	}
	return onPorts(1, func(ports []port, release func()) (*child, error) {
		config := filepath.Join(dir, "sentinel.conf") // Sentinel writes to it
		text := fmt.Sprintf("port %d\nbind %s\ndir %s\nsentinel monitor %s %s %s 1\nsentinel down-after-milliseconds "+
			"%s %d\nsentinel failover-timeout %s 5000\n",
			ports[0].number, loopback, dir, name, host, number, name, silent.Milliseconds(), name)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("write the configuration of sentinel: %w", err)
		}
		c := &child{name: "sentinel", addr: ports[0].addr(), dir: dir, bin: bin, args: []string{config, "--sentinel"},
			release: release}
		c.ready = func() error { return redisAnswers(c.addr) }
		return c, startOn(c)
	})
}
