package stage

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// Program returns the path of the tarry to measure: the one given, or one built from this checkout, which lasts as long
// as this process.
func Program(ctx context.Context, given string) (path string, err error) {
	if given != "" {
		_, err := os.Stat(given)
		return given, err
	}
	if failure := Run(ctx, func(s *Scope) { path = lab.Binary(s, "./cmd/tarry") }); failure != nil {
		return "", failure
	}
	return path, nil
}

// Versions is what the servers of this test said they are.
func (s *Scope) Versions() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.versions)
}

func (s *Scope) is(name, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions[name] = version
}

// NATS starts a nats-server with no data.
func (s *Scope) NATS() *lab.NATS {
	n := lab.NewNATS(s)
	s.is("nats-server", n.Version())
	return n
}

// Redis is a redis-server and a client to look into it.
type Redis struct {
	*lab.Redis
	Client *redis.Client
}

// Redis starts a redis-server with no data and an append-only file that is fsynced each second.
func (s *Scope) Redis() *Redis {
	r := &Redis{Redis: lab.NewRedis(s)}
	r.Client = redis.NewClient(&redis.Options{Addr: r.Addr, MaxRetries: -1})
	s.Cleanup(func() { _ = r.Client.Close() })
	version, err := r.info(s.ctx, "server", "redis_version")
	if err != nil {
		s.Fatal(err)
	}
	s.is("redis", version)
	return r
}

// UsedMemory is what Redis itself counts: keys, values, indexes, buffers.
func (r *Redis) UsedMemory(ctx context.Context) (int64, error) {
	text, err := r.info(ctx, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	var n int64
	if _, err := fmt.Sscan(text, &n); err != nil {
		return 0, fmt.Errorf("read used_memory %q: %w", text, err)
	}
	return n, nil
}

// Scripts is how often it has run a script.
func (r *Redis) Scripts(ctx context.Context) (n int, err error) {
	for _, command := range []string{"eval", "evalsha"} {
		text, err := r.info(ctx, "commandstats", "cmdstat_"+command)
		if err != nil {
			continue // none yet
		}
		calls := 0
		if _, err := fmt.Sscanf(text, "calls=%d,", &calls); err != nil {
			return 0, fmt.Errorf("read commandstats %q: %w", text, err)
		}
		n += calls
	}
	return n, nil
}

func (r *Redis) info(ctx context.Context, section, field string) (string, error) {
	text, err := r.Client.Info(ctx, section).Result()
	if err != nil {
		return "", fmt.Errorf("ask redis for info %s: %w", section, err)
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value, nil
		}
	}
	return "", fmt.Errorf("ask redis for info %s: it has no %s", section, field)
}

// zooKeeper starts a ZooKeeper with no data.
func (s *Scope) zooKeeper() *lab.ZooKeeper {
	z := lab.NewZooKeeper(s)
	if text, err := z.Command("srvr"); err == nil {
		first, _, _ := strings.Cut(text, "\n")
		_, version, _ := strings.Cut(first, ": ")
		version, _, _ = strings.Cut(version, "-")
		s.is("zookeeper", strings.TrimSpace(version))
	}
	return z
}

// tarryVersion asks the program itself.
func (s *Scope) tarryVersion(program string) {
	out, err := exec.CommandContext(s.ctx, program, "version").Output()
	if err != nil {
		s.Fatal(fmt.Errorf("ask tarry for its version: %w", err))
	}
	first, _, _ := strings.Cut(string(out), "\n")
	version, _, _ := strings.Cut(strings.TrimPrefix(first, "tarry "), ",")
	s.is("tarry", strings.TrimSpace(version))
}
