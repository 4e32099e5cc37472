// Package site is what the stories of deploy/e2e share: the servers of one story and the instances on them, the load,
// the consumers, the history that they write and the checker that judges it.
package site

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// What must never be in a log. Each server asks for its password; HTTP asks for the token.
const (
	RedisPassword = "marker-redis-password-7f3a"
	NATSPassword  = "marker-nats-password-51bc"
	HTTPToken     = "marker-http-token-90de-4411"
	zkPassword    = "marker-zookeeper-password-a20c"
	BodyMarker    = "marker-body-66d1:"
)

var markers = []string{RedisPassword, NATSPassword, HTTPToken, zkPassword, BodyMarker}

const (
	session  = 4 * time.Second
	Patience = time.Minute // for what takes seconds on an idle machine
	// PatienceForMany is for 10,000 changes by one call: a slow machine that also compiles made 130 of them a second.
	PatienceForMany = 5 * time.Minute
	NATSUser        = "tarry"
)

// Site is the servers of one story and the instances on them. Redis and NATS are of its own. ZooKeeper is shared, with
// a namespace of its own.
type Site struct {
	T     *testing.T
	Ns    string
	Redis *lab.Redis
	Nats  *lab.NATS
	Zk    *lab.ZooKeeper

	RedisAddr string // where instances find Redis: the server, or a proxy before it
	Binary    string
	Settings  []string // of every instance, beyond the usual
	Db        *lab.MariaDB
	database  string // of the journal; see journal
	Instances []*Instance
	workers   []worker // of the queue group
}

// Options change how a site's servers start.
type Options struct {
	Redis []string
	Nats  []lab.NATSOption
	Plain bool // a binary without the race detector, where speed is what matters
	Zk    bool // a ZooKeeper of its own: the story stops it, or chooses its namespace
}

// Binary is the daemon of all stories, with the race detector when the test has it. An instance of it that is started
// with FAILPOINT=point:n kills itself when it passes that point for the n-th time.
func Binary(t testing.TB) string {
	t.Helper()
	return lab.Binary(t, "./cmd/tarry", append(lab.Race(), lab.Failpoints)...)
}

// New starts the servers. start starts its instances.
func New(t *testing.T, o Options) *Site {
	t.Helper()
	t.TempDir() // registered before scan: the logs must still be there
	s := &Site{T: t, Ns: "e2e-" + strconv.FormatUint(uint64(rand.Uint32()), 36)}
	t.Cleanup(s.scan)
	s.Binary = Binary(t)
	if o.Plain {
		s.Binary = lab.Binary(t, "./cmd/tarry")
	}
	s.Redis = lab.NewRedis(t, append([]string{"--requirepass", RedisPassword}, o.Redis...)...)
	s.RedisAddr = s.Redis.Addr
	s.Nats = lab.NewNATS(t, append(o.Nats,
		lab.NATSConfig(fmt.Sprintf("authorization { user: %s, password: %q }", NATSUser, NATSPassword)))...)
	s.Zk = lab.SharedZooKeeper(t)
	if o.Zk {
		s.Zk = lab.NewZooKeeper(t)
	}
	return s
}

// Instance is one tarry serve.
type Instance struct {
	*lab.Process
	Name string
	Addr string // of HTTP
}

// environment is what instance name is started with.
func (s *Site) environment(name, addr string) []string {
	usual := []string{
		"GORACE=atexit_sleep_ms=0", // the race detector would keep every process for a second
		"TARRY_NAMESPACE=" + s.Ns, "TARRY_INSTANCE=" + name, "TARRY_HTTP_LISTEN=" + addr,
		"TARRY_PEER_LISTEN=" + net.JoinHostPort("127.0.0.1", strconv.Itoa(lab.FreePort(s.T))),
		"TARRY_HTTP_TOKEN=" + HTTPToken,
		"TARRY_NATS_URL=" + s.Nats.URL(), "TARRY_NATS_USER=" + NATSUser, "TARRY_NATS_PASSWORD=" + NATSPassword,
		"TARRY_REDIS_ADDRS=" + s.RedisAddr, "TARRY_REDIS_PASSWORD=" + RedisPassword,
		"TARRY_ZOOKEEPER_SERVERS=" + s.Zk.Addr, "TARRY_ZOOKEEPER_SESSION=" + session.String(),
		"TARRY_ZOOKEEPER_USERNAME=tarry", "TARRY_ZOOKEEPER_PASSWORD=" + zkPassword,
	}
	return append(usual, s.Settings...)
}

// Launch starts an instance and does not wait for it. Settings as in "TARRY_BUCKETS=8" win over the site's.
func (s *Site) Launch(name string, settings ...string) *Instance {
	s.T.Helper()
	return s.LaunchBy(name, nil, settings...)
}

// LaunchBy starts an instance by a command that runs the words after its own.
func (s *Site) LaunchBy(name string, command []string, settings ...string) *Instance {
	s.T.Helper()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(lab.FreePort(s.T)))
	command = append(slices.Clone(command), s.Binary, "serve")
	p := lab.Start(s.T, "tarry-"+name, append(s.environment(name, addr), settings...), command[0], command[1:]...)
	i := &Instance{Process: p, Name: name, Addr: addr}
	s.Instances = append(s.Instances, i)
	return i
}

// Command starts another command with the settings of an instance.
func (s *Site) Command(args ...string) *lab.Process {
	s.T.Helper()
	return lab.Start(s.T, "tarry-"+strings.Join(args, "-"), s.environment("command", "127.0.0.1:0"), s.Binary, args...)
}

// Start is launch, and waits until the instance is ready.
func (s *Site) Start(name string, settings ...string) *Instance {
	s.T.Helper()
	i := s.Launch(name, settings...)
	s.Ready(i)
	return i
}

// History is all that the instance ever logged, in every run.
func (i *Instance) History() []byte {
	b, err := os.ReadFile(filepath.Join(i.Dir(), "tarry-"+i.Name+".log"))
	if err != nil {
		return []byte(err.Error())
	}
	return b
}

// scan fails the test when a log holds a body or a credential.
func (s *Site) scan() {
	for _, i := range s.Instances {
		log := i.History()
		if !bytes.Contains(log, []byte(`"serving http"`)) && !bytes.Contains(log, []byte("tarry: ")) {
			s.T.Errorf("the log of %s is not there: %.200q", i.Name, log)
		}
		for line := range bytes.Lines(log) {
			if at := slices.IndexFunc(
				markers, func(m string) bool { return bytes.Contains(line, []byte(m)) }); at >= 0 {
				s.T.Errorf("the log of %s holds %q: %.300q", i.Name, markers[at], line)
				break
			}
		}
	}
}

// Connect is a client of NATS as any consumer or producer has one.
func (s *Site) Connect(name string) *nats.Conn {
	s.T.Helper()
	nc, err := nats.Connect(s.Nats.URL(), nats.Name(name), nats.UserInfo(NATSUser, NATSPassword),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(nc.Close)
	return nc
}

// Client speaks to Redis directly, past any proxy.
func (s *Site) Client() *redis.Client { return s.ClientOf(s.Redis) }

// ClientOf is Client for another server of the story.
func (s *Site) ClientOf(server *lab.Redis) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, Password: RedisPassword, ClientName: "e2e"})
	s.T.Cleanup(func() { _ = rdb.Close() })
	return rdb
}
