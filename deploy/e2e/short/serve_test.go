package short_test

import (
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestServeRefusesABadSettingByName(t *testing.T) {
	t.Parallel()
	binary := site.Binary(t)
	for name, c := range map[string]struct {
		env  []string
		args []string
		says []string
	}{
		"environment": {[]string{"TARRY_BUCKETS=0"}, nil, []string{"buckets", "TARRY_BUCKETS", "1", "1024"}},
		"flag": {nil, []string{"--zookeeper.session", "1s"},
			[]string{"zookeeper.session", "1s", "2s", "40s"}},
		"two at once": {[]string{"TARRY_CLAIM_BATCH=many", "TARRY_LOG_LEVEL=loud"}, nil,
			[]string{"claim.batch", "many", "log.level", "loud"}},
		"unknown":        {[]string{"TARRY_BUKETS=4"}, nil, []string{"TARRY_BUKETS", "TARRY_BUCKETS"}},
		"half a journal": {[]string{"TARRY_JOURNAL_MODE=sync"}, nil, []string{"journal.mode", "journal.dsn"}},
		"without a token": {[]string{"TARRY_HTTP_LISTEN=0.0.0.0:0"}, nil,
			[]string{"http.listen", "http.token", "http.insecure"}},
		"a secret": {[]string{"TARRY_HTTP_TOKEN=short", "TARRY_REDIS_PASSWORD=" + site.RedisPassword + "\x01"}, nil,
			[]string{"http.token", "redis.password"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := lab.Start(t, "tarry-refused", append(c.env, "GORACE=atexit_sleep_ms=0"), binary,
				append([]string{"serve"}, c.args...)...)
			if code := p.Wait(site.Patience); code != 2 {
				t.Errorf("it ended with %d, want 2", code)
			}
			for _, word := range c.says {
				if !strings.Contains(p.Log(), word) {
					t.Errorf("it does not say %q: %s", word, p.Log())
				}
			}
			if strings.Contains(p.Log(), site.RedisPassword) ||
				strings.Contains(p.Log(), "short") && name == "a secret" && strings.Contains(p.Log(), `"short"`) {
				t.Errorf("it shows a secret: %s", p.Log())
			}
		})
	}
}

func TestServeRefusesARedisThatItsMessagesAreNotSafeIn(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	rdb := s.Client()
	if err := rdb.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(); err != nil {
		t.Fatal(err)
	}
	evicting := s.Launch("evicting")
	if code := evicting.Wait(site.Patience); code != 1 && code != 2 {
		t.Errorf("it ended with %d", code)
	}
	for _, word := range []string{"maxmemory-policy", "allkeys-lru", "noeviction"} {
		if !strings.Contains(evicting.Log(), word) {
			t.Errorf("it does not say %q: %s", word, evicting.Log())
		}
	}
	if n := rdb.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("it left %d keys in a redis that it refused", n)
	}
	if err := rdb.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err(); err != nil {
		t.Fatal(err)
	}
	s.Start("four")
	eight := s.Launch("eight", "TARRY_BUCKETS=8")
	if code := eight.Wait(site.Patience); code != 1 && code != 2 {
		t.Errorf("it ended with %d", code)
	}
	for _, word := range []string{"buckets is 8", "begun with 4", "set buckets to 4", "tarry rebucket 8"} {
		if !strings.Contains(eight.Log(), word) {
			t.Errorf("it does not say %q: %s", word, eight.Log())
		}
	}
}

func TestServeWaitsForServersThatAreNotThereYet(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{Zk: true})
	s.Redis.Kill()
	s.Nats.Kill()
	s.Zk.Kill()
	a := s.Launch("a")
	s.Missing(a, "nats", "redis", "zookeeper")
	answer := s.Must(a, http.MethodPost, "/v1/messages", map[string]any{"topic": "a.b", "delay": "1h"})
	if answer.Status != http.StatusServiceUnavailable {
		t.Errorf("a push: %d %s", answer.Status, answer.Raw)
	}
	if answer := s.Must(a, http.MethodGet, "/livez", nil); answer.Status != http.StatusOK {
		t.Errorf("it says it does not live: %d %s", answer.Status, answer.Raw)
	}
	for _, said := range []string{"waiting for redis", "nats cannot be reached", "zookeeper unreachable"} {
		a.WaitLog(said)
	}
	// They return one after the other.
	s.Zk.Restart()
	s.Missing(a, "nats", "redis")
	s.Nats.Restart()
	s.Missing(a, "redis")
	s.Redis.Restart()
	s.Ready(a)
	if leader, _ := s.Leader(0, a); leader != a {
		t.Error("it does not lead")
	}
	s.Push(a, map[string]any{"topic": "a.b", "delay": "1h"})
}

func TestServeRefusesAnAddressInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	if n, err := strconv.Atoi(port); err != nil || n == 0 {
		t.Fatal(port, err)
	}
	p := lab.Start(t, "tarry-second", []string{"GORACE=atexit_sleep_ms=0"}, site.Binary(t),
		"serve", "--http.listen", taken.Addr().String())
	if code := p.Wait(site.Patience); code != 1 && code != 2 {
		t.Errorf("it ended with %d", code)
	}
	if !strings.Contains(p.Log(), "http.listen") || !strings.Contains(p.Log(), port) {
		t.Errorf("it does not name the address: %s", p.Log())
	}
}
