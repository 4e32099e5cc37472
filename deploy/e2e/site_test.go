package e2e_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// What must never be in a log. Each server asks for its password; HTTP asks for the token.
const (
	redisPassword = "marker-redis-password-7f3a"
	natsPassword  = "marker-nats-password-51bc"
	httpToken     = "marker-http-token-90de-4411"
	zkPassword    = "marker-zookeeper-password-a20c"
	bodyMarker    = "marker-body-66d1:"
)

var markers = []string{redisPassword, natsPassword, httpToken, zkPassword, bodyMarker}

const (
	session  = 4 * time.Second
	patience = time.Minute // for what takes seconds on an idle machine
	natsUser = "tarry"
)

// site is the servers of one story and the instances on them. Redis and NATS are of its own. ZooKeeper is shared, with
// a namespace of its own.
type site struct {
	t     *testing.T
	ns    string
	redis *lab.Redis
	nats  *lab.NATS
	zk    *lab.ZooKeeper

	redisAddr string // where instances find Redis: the server, or a proxy before it
	binary    string
	settings  []string // of every instance, beyond the usual
	db        *lab.MariaDB
	database  string // of the journal; see journal
	instances []*instance
	workers   []worker // of the queue group
}

// siteOptions change how a site's servers start.
type siteOptions struct {
	redis []string
	nats  []lab.NATSOption
	plain bool // a binary without the race detector, where speed is what matters
	zk    bool // a ZooKeeper of its own: the story stops it, or chooses its namespace
}

// newSite starts the servers. start starts its instances.
func newSite(t *testing.T, o siteOptions) *site {
	t.Helper()
	t.TempDir() // registered before scan: the logs must still be there
	s := &site{t: t, ns: "e2e-" + strconv.FormatUint(uint64(rand.Uint32()), 36)}
	t.Cleanup(s.scan)
	flags := lab.Race()
	if o.plain {
		flags = nil
	}
	s.binary = lab.Binary(t, "./cmd/tarry", flags...)
	s.redis = lab.NewRedis(t, append([]string{"--requirepass", redisPassword}, o.redis...)...)
	s.redisAddr = s.redis.Addr
	s.nats = lab.NewNATS(t, append(o.nats,
		lab.NATSConfig(fmt.Sprintf("authorization { user: %s, password: %q }", natsUser, natsPassword)))...)
	s.zk = lab.SharedZooKeeper(t)
	if o.zk {
		s.zk = lab.NewZooKeeper(t)
	}
	return s
}

// instance is one tarry serve.
type instance struct {
	*lab.Process
	name string
	addr string // of HTTP
}

// environment is what instance name is started with.
func (s *site) environment(name, addr string) []string {
	usual := []string{
		"GORACE=atexit_sleep_ms=0", // the race detector would keep every process for a second
		"TARRY_NAMESPACE=" + s.ns, "TARRY_INSTANCE=" + name, "TARRY_HTTP_LISTEN=" + addr,
		"TARRY_HTTP_TOKEN=" + httpToken,
		"TARRY_NATS_URL=" + s.nats.URL(), "TARRY_NATS_USER=" + natsUser, "TARRY_NATS_PASSWORD=" + natsPassword,
		"TARRY_REDIS_ADDRS=" + s.redisAddr, "TARRY_REDIS_PASSWORD=" + redisPassword,
		"TARRY_ZOOKEEPER_SERVERS=" + s.zk.Addr, "TARRY_ZOOKEEPER_SESSION=" + session.String(),
		"TARRY_ZOOKEEPER_USERNAME=tarry", "TARRY_ZOOKEEPER_PASSWORD=" + zkPassword,
	}
	return append(usual, s.settings...)
}

// launch starts an instance and does not wait for it. Settings as in "TARRY_BUCKETS=8" win over the site's.
func (s *site) launch(name string, settings ...string) *instance {
	s.t.Helper()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(lab.FreePort(s.t)))
	p := lab.Start(s.t, "tarry-"+name, append(s.environment(name, addr), settings...), s.binary, "serve")
	i := &instance{Process: p, name: name, addr: addr}
	s.instances = append(s.instances, i)
	return i
}

// start is launch, and waits until the instance is ready.
func (s *site) start(name string, settings ...string) *instance {
	s.t.Helper()
	i := s.launch(name, settings...)
	s.ready(i)
	return i
}

// history is all that the instance ever logged, in every run.
func (i *instance) history() []byte {
	b, err := os.ReadFile(filepath.Join(i.Dir(), "tarry-"+i.name+".log"))
	if err != nil {
		return []byte(err.Error())
	}
	return b
}

// scan fails the test when a log holds a body or a credential.
func (s *site) scan() {
	for _, i := range s.instances {
		log := i.history()
		if !bytes.Contains(log, []byte(`"serving http"`)) && !bytes.Contains(log, []byte("tarry: ")) {
			s.t.Errorf("the log of %s is not there: %.200q", i.name, log)
		}
		for line := range bytes.Lines(log) {
			if at := slices.IndexFunc(
				markers, func(m string) bool { return bytes.Contains(line, []byte(m)) }); at >= 0 {
				s.t.Errorf("the log of %s holds %q: %.300q", i.name, markers[at], line)
				break
			}
		}
	}
}

// connect is a client of NATS as any consumer or producer has one.
func (s *site) connect(name string) *nats.Conn {
	s.t.Helper()
	nc, err := nats.Connect(s.nats.URL(), nats.Name(name), nats.UserInfo(natsUser, natsPassword),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}

// client speaks to Redis directly, past any proxy.
func (s *site) client() *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: s.redis.Addr, Password: redisPassword, ClientName: "e2e"})
	s.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}
