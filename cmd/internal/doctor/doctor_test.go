package doctor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/cmd/internal/doctor"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// setup are the settings of a test, by environment variable without TARRY_.
type setup map[string]string

// healthy names the shared servers, and a namespace of the test's own.
func healthy(t *testing.T) setup {
	t.Helper()
	ns := fmt.Sprintf("doctor-%016x", rand.Uint64())
	return setup{
		"NAMESPACE":         ns,
		"INSTANCE":          "one",
		"NATS_PREFIX":       ns,
		"REDIS_ADDRS":       lab.SharedRedis(t).Addr,
		"NATS_URL":          lab.SharedNATS(t).URL(),
		"ZOOKEEPER_SERVERS": lab.SharedZooKeeper(t).Addr,
		"JOURNAL_MODE":      "sync",
		"JOURNAL_DSN":       lab.SharedMariaDB(t).Database(t),
	}
}

func (s setup) config(t *testing.T) config.Serve {
	t.Helper()
	var environ []string
	for name, value := range s {
		environ = append(environ, "TARRY_"+name+"="+value)
	}
	cfg, err := config.LoadServe(nil, environ)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// diagnosis runs the doctor.
func (s setup) diagnosis(t *testing.T) *diagnosis {
	t.Helper()
	return &diagnosis{t, doctor.Run(t.Context(), s.config(t), 5*time.Second)}
}

type diagnosis struct {
	t *testing.T
	doctor.Report
}

// has wants a check of this group and name that ended so and says the words, in what was found or what to change.
func (d *diagnosis) has(status doctor.Status, group, name string, words ...string) *diagnosis {
	d.t.Helper()
	ok := slices.ContainsFunc(d.Checks, func(c doctor.Check) bool {
		return c.Status == status && c.Group == group && c.Name == name &&
			!slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(c.Found+" → "+c.Change, w) })
	})
	if !ok {
		d.t.Errorf("no %s for %s %s with %q in\n%s", status, group, name, words, d.Text())
	}
	return d
}

// fails wants these checks to fail, as "group name", and no others.
func (d *diagnosis) fails(want ...string) *diagnosis { d.t.Helper(); return d.only(doctor.Fail, want) }

// warns is the same for warnings.
func (d *diagnosis) warns(want ...string) *diagnosis { d.t.Helper(); return d.only(doctor.Warn, want) }

func (d *diagnosis) only(status doctor.Status, want []string) *diagnosis {
	d.t.Helper()
	var got []string
	for _, c := range d.Checks {
		if (c.Status == doctor.Warn || c.Status == doctor.Fail) && c.Change == "" {
			d.t.Errorf("%s %s says not what to change", c.Group, c.Name)
		}
		if c.Status == status && !slices.Contains(got, c.Group+" "+c.Name) {
			got = append(got, c.Group+" "+c.Name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		d.t.Errorf("%s: got %q, want %q in\n%s", status, got, want, d.Text())
	}
	return d
}

func dialRedis(t *testing.T, addr string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func dialNATS(t *testing.T, url string, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func create(t *testing.T, js jetstream.JetStream, cfg jetstream.StreamConfig) {
	t.Helper()
	if _, err := js.CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

func nobody(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", lab.FreePort(t))
}

func TestRun_FindsNothingWrongWithGoodServers(t *testing.T) {
	t.Parallel()
	d := healthy(t).diagnosis(t).fails().warns("zookeeper ensemble") // one server
	d.has(doctor.OK, "redis", "eviction", "noeviction").has(doctor.OK, "redis", "append-only file", "on").has(
		doctor.OK, "redis", "rights").
		has(doctor.OK, "nats", "intake", "does not exist yet").has(doctor.OK, "nats", "subscribe").has(
		doctor.OK, "nats", "publish").
		has(doctor.Unknown, "nats", "sync_interval", "sync_interval: always").
		has(doctor.OK, "zookeeper", "session", "6s").has(doctor.OK, "zookeeper", "access", "may make it").
		has(doctor.OK, "journal", "durability").has(doctor.OK, "journal", "schema", "version 0").has(
		doctor.Unknown, "journal", "privileges").
		has(doctor.OK, "machine", "clocks", "journal", "redis")
	if d.Sick(false) || !d.Sick(true) {
		t.Error("sick is not by the counts")
	}
}

func TestRun_EndsWithinTheTimeOutOnFrozenServers(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	frozen := map[string]string{"REDIS_ADDRS": s["REDIS_ADDRS"], "ZOOKEEPER_SERVERS": s["ZOOKEEPER_SERVERS"],
		"NATS_URL":    strings.TrimPrefix(s["NATS_URL"], "nats://"),
		"JOURNAL_DSN": lab.SharedMariaDB(t).Addr}
	for name, addr := range frozen {
		p := lab.NewProxy(t, addr)
		p.Stall()
		s[name] = strings.Replace(s[name], addr, p.Addr, 1)
	}
	start := time.Now()
	d := &diagnosis{t, doctor.Run(t.Context(), s.config(t), time.Second)}
	if took := time.Since(start); took > 8*time.Second {
		t.Errorf("it took %s", took)
	}
	d.fails("redis reachable", "nats reachable", "zookeeper reachable", "journal reachable")
}

func TestRun_EndsWhenItIsInterrupted(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan struct{})
	go func() { doctor.Run(ctx, s.config(t), time.Minute); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("it goes on")
	}
}

func TestRun_TellsNoSecret(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse-battery"
	server := lab.NewRedis(t, "--requirepass", "another-password")
	s := healthy(t)
	s["REDIS_ADDRS"], s["REDIS_PASSWORD"] = server.Addr, secret
	s["NATS_USER"], s["NATS_PASSWORD"] = "me", secret
	s["ZOOKEEPER_USERNAME"], s["ZOOKEEPER_PASSWORD"] = "me", secret
	s["HTTP_TOKEN"] = secret
	s["JOURNAL_DSN"] = "me:" + secret + "@tcp(" + lab.SharedMariaDB(t).Addr + ")/tarry"
	d := s.diagnosis(t)
	d.fails("redis reachable", "journal reachable").has(
		doctor.Fail, "redis", "reachable", "correct redis.username and redis.password").
		has(doctor.Fail, "journal", "reachable", "correct user and password in journal.dsn")
	raw, err := d.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(d.Text()+string(raw)+fmt.Sprint(d.Checks), secret) {
		t.Errorf("the secret shows:\n%s", d.Text())
	}
}

func TestHTTP_ThatLetsAnybodyIn(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s["HTTP_LISTEN"], s["HTTP_INSECURE"] = "0.0.0.0:7070", "true"
	s.diagnosis(t).fails().warns("zookeeper ensemble", "machine http access").has(doctor.Warn, "machine", "http access",
		"from anybody")
	s["HTTP_INSECURE"], s["HTTP_TOKEN"] = "false", "0123456789abcdef"
	s.diagnosis(t).fails().warns("zookeeper ensemble").has(doctor.OK, "machine", "http access", "in clear")
	s["HTTP_TOKEN"] = "change-this-token"
	s.diagnosis(t).fails().has(doctor.Warn, "machine", "http access", "pages print")
}
