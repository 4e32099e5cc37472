package config

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/spf13/pflag"
)

// Serve holds the checked settings of an instance: of tarry serve, and of tarry dev and tarry migrate, which have some
// of them. A setting that a command does not have is at its default, or at the value that tarry dev uses instead.
type Serve struct {
	Namespace string    `setting:"namespace"`
	Instance  string    `setting:"instance"` // never empty
	Store     string    `setting:"store"`    // redis or memory
	Data      string    `setting:"data"`     // empty with Redis, and for the temporary directory of tarry dev
	HTTP      HTTP      `setting:"http"`
	Seeds     Seeds     `setting:"seeds"`
	Peer      Peer      `setting:"peer"`
	Cluster   Cluster   `setting:"cluster"`
	NATS      NATS      `setting:"nats"`
	Redis     Redis     `setting:"redis"`
	ZooKeeper ZooKeeper `setting:"zookeeper"`
	Journal   Journal   `setting:"journal"`
	Buckets   int       `setting:"buckets"`
	Claim     Claim     `setting:"claim"`
	Publish   Publish   `setting:"publish"`
	Webhook   Webhooks  `setting:"webhook"`
	Retry     string    `setting:"retry"` // as wire.ParseRetry reads it; may be empty
	Dead      Dead      `setting:"dead"`
	Topics    []Topic   `setting:"topics"`
	Attempts  Attempts  `setting:"attempts"`
	Ended     Ended     `setting:"ended"`
	Names     Names     `setting:"names"`
	Stop      Stop      `setting:"stop"`
	Log       Log       `setting:"log"`
}

// LargestMessage returns how many bytes body and headers of a message may have together, whatever NATS accepts. It is
// a little less than a request: at the default limit, a statement that carries them with every byte escaped then has
// less than the 16 MiB that MariaDB accepts by default.
func (h *HTTP) LargestMessage() int { return int(h.BodyLimit - h.BodyLimit/128) }

// HTTP is the API's server. Without Token and Tokens no token is required. Tokens are those of the file's list and of
// TokensFile.
type HTTP struct {
	Listen        string        `setting:"listen"`
	ProbeListen   string        `setting:"probe_listen"` // may be empty
	Token         Secret        `setting:"token"`
	Tokens        []Token       `setting:"tokens"`
	TokensFile    string        `setting:"tokens_file"`
	Insecure      bool          `setting:"insecure"`
	Hosts         []string      `setting:"hosts"`
	Proxies       []string      `setting:"proxies"`
	BodyLimit     int64         `setting:"body_limit"`
	HeaderLimit   int64         `setting:"header_limit"`
	HeaderTimeout time.Duration `setting:"header_timeout"`
	ReadTimeout   time.Duration `setting:"read_timeout"`
	IdleTimeout   time.Duration `setting:"idle_timeout"`
	Connections   int           `setting:"connections"`
	TLS           TLS           `setting:"tls"`
}

// Seeds is a listener for the routes of other systems alone, for clients that cannot send a token: they have the rights
// of the one that Token names. Listen may be empty.
type Seeds struct {
	Listen   string `setting:"listen"`
	Token    string `setting:"token"`
	Insecure bool   `setting:"insecure"`
}

// Peer is the address under which other instances reach this one. Advertise may be empty: see Serve.Advertised.
type Peer struct {
	Advertise string `setting:"advertise"`
	Listen    string `setting:"listen"` // off, or empty for a port of its own beside http.listen
}

// PeerOff is the value of peer.listen that turns fast takeovers off, and PeerPort the port that it has by itself.
const (
	PeerOff  = "off"
	PeerPort = "7071"
)

// NATS is the connection to the queue and the intake on it. At most one of user with password, token and creds is set.
// Without a URL, which only InMemory may lack, NATS is embedded, and served on Listen.
type NATS struct {
	URL      []string `setting:"url"`
	Listen   string   `setting:"listen"`
	Prefix   string   `setting:"prefix"`
	User     string   `setting:"user"`
	Password Secret   `setting:"password"`
	Token    Secret   `setting:"token"`
	Creds    string   `setting:"creds"`
	TLS      TLS      `setting:"tls"`
	Intake   Intake   `setting:"intake"`
	Rejects  Rejects  `setting:"rejects"`
	Admin    bool     `setting:"admin"` // serve the calls of operators on NATS too
}

// TLS are PEM files; Cert and Key are both set or both empty.
type TLS struct {
	CA   string `setting:"ca"`
	Cert string `setting:"cert"`
	Key  string `setting:"key"`
}

// Intake is the stream that holds tagged messages until Redis has them.
type Intake struct {
	Replicas int   `setting:"replicas"`
	MaxBytes int64 `setting:"max_bytes"`
}

// Rejects bounds the stream of refused pushes.
type Rejects struct {
	MaxBytes   int64 `setting:"max_bytes"`
	PerSubject int   `setting:"per_subject"`
}

// Redis is the connection to the timeline. With Master the addresses are Sentinels; without, several are a Cluster.
type Redis struct {
	Addrs    []string `setting:"addrs"`
	Master   string   `setting:"master"`
	Username string   `setting:"username"`
	Password Secret   `setting:"password"`
	DB       int      `setting:"db"`
	TLS      bool     `setting:"tls"`
}

// ZooKeeper is the connection for the election. Username and Password are both set or both empty.
type ZooKeeper struct {
	Servers  []string      `setting:"servers"`
	Session  time.Duration `setting:"session"`
	Username string        `setting:"username"`
	Password Secret        `setting:"password"`
}

// Journal is the SQL record of every change. Mode is off, async or sync; the DSN holds a password.
type Journal struct {
	Mode    string        `setting:"mode"`
	DSN     Secret        `setting:"dsn"`
	Migrate bool          `setting:"migrate"`
	Outbox  int64         `setting:"outbox"`
	Keep    time.Duration `setting:"keep"`
	Window  time.Duration `setting:"window"`
	Audit   time.Duration `setting:"audit"`
}

// Password returns the password in DSN, if there is one.
func (j Journal) Password() string {
	d, err := mysql.ParseDSN(j.DSN.Reveal())
	if err != nil { // the name of a file
		return ""
	}
	return d.Passwd
}

// Cluster is what an operator expects of all instances together.
type Cluster struct {
	Instances int `setting:"instances"` // at least
}

// Claim bounds what the leader takes from a bucket at once.
type Claim struct {
	Batch int   `setting:"batch"`
	Bytes int64 `setting:"bytes"`
}

// Publish bounds what the leader has under way to NATS.
type Publish struct {
	Timeout time.Duration `setting:"timeout"`
	Pending int           `setting:"pending"`
}

// Webhooks says to which networks webhooks may post although they are not public.
type Webhooks struct {
	Allow []string `setting:"allow"`
}

// Dead says how long dead messages are kept; 0 means forever.
type Dead struct {
	Keep time.Duration `setting:"keep"`
}

// Attempts says after how many permanent refusals a message is dead.
type Attempts struct {
	Limit int `setting:"limit"`
}

// Ended says how long ended messages are remembered.
type Ended struct {
	Keep time.Duration `setting:"keep"`
}

// Names says how long the journal is consulted about names.
type Names struct {
	Keep time.Duration `setting:"keep"`
}

// Stop bounds a graceful stop.
type Stop struct {
	Timeout time.Duration `setting:"timeout"`
}

// Log has level trace, debug, info, warn or error, and format auto, json or console.
type Log struct {
	Level  string `setting:"level"`
	Format string `setting:"format"`
}

// MaxBuckets is the highest value of the setting buckets.
const MaxBuckets = 1024

// The words of the setting store.
const (
	storeRedis  = "redis"
	storeMemory = "memory"
)

// InMemory reports whether waiting messages are held in memory: one instance on one machine, made durable by its
// journal.
func (s Serve) InMemory() bool { return s.Store == storeMemory }

// Embedded reports whether the process serves its own NATS.
func (s Serve) Embedded() bool { return len(s.NATS.URL) == 0 }

// AddServeFlags, AddDevFlags and AddMigrateFlags give fs a flag for every setting of their command, and --config.
func AddServeFlags(fs *pflag.FlagSet)   { addFlags(fs, serve) }
func AddDevFlags(fs *pflag.FlagSet)     { addFlags(fs, dev) }
func AddMigrateFlags(fs *pflag.FlagSet) { addFlags(fs, migrate) }

// LoadServe reads all layers; flags may be nil. The error names every fault; the settings must then not be used.
func LoadServe(flags *pflag.FlagSet, environ []string) (Serve, error) {
	l := newLoader(serve)
	return l.serve(l.given(flags, environ))
}

// LoadDev is LoadServe for tarry dev: one instance in memory with an embedded NATS. With a data directory, its journal
// is a SQLite file there, in sync. Otherwise the journal has no file and lasts as long as the process.
func LoadDev(flags *pflag.FlagSet, environ []string) (Serve, error) {
	l := newLoader(dev)
	return l.serve(l.given(flags, environ))
}

// LoadMigrate is LoadServe for tarry migrate.
func LoadMigrate(flags *pflag.FlagSet, environ []string) (Serve, error) {
	l := newLoader(migrate)
	return l.serve(l.given(flags, environ))
}

func (l *loader) serve(ready bool) (Serve, error) {
	var s Serve
	if ready {
		l.fill(&s)
		switch l.command {
		case serve:
			l.instance(&s)
			if s.InMemory() && l.good("nats.url") && l.source("nats.url") == "" {
				s.NATS.URL = nil
			}
		case dev:
			s.inOneProcess()
		}
		l.checkTokens(s.HTTP)
		l.checkTopics(s.Topics, s.NATS.Prefix)
		switch l.command {
		case serve:
			l.checkServe(s)
		case dev:
			l.checkDev(s)
		case migrate:
			l.checkNATS()
			l.refuseIf(s.Journal.DSN == "", "journal.dsn", "is not set", l.row("journal.dsn").limit.words())
		}
	}
	if err := l.err(); err != nil {
		return Serve{}, err
	}
	return s, nil
}

// inOneProcess sets the values that tarry dev uses in place of the defaults.
func (s *Serve) inOneProcess() {
	s.Instance, s.Store, s.Buckets, s.NATS.URL = "dev", storeMemory, 1, nil
	s.Journal.Mode, s.Journal.Outbox, s.Journal.Audit = "async", 64<<20, time.Hour
	if s.Data != "" {
		s.Journal.Mode, s.Journal.DSN = "sync", Secret("sqlite:"+filepath.Join(s.Data, "journal.db"))
	}
	s.Publish.Pending, s.Stop.Timeout = 4096, 5*time.Second
}

// instance falls back to the host's name, which must satisfy the same limit.
func (l *loader) instance(s *Serve) {
	if s.Instance != "" || !l.good("instance") {
		return
	}
	name, err := l.hostname()
	if err != nil {
		l.refuse("instance", "is not set, and the host has no name: "+err.Error())
		return
	}
	l.text["instance"] = name
	if _, err := l.row("instance").limit.read(name); err != nil {
		l.refuse("instance", "is the host's name, which "+err.Error())
		return
	}
	s.Instance = name
}

// Advertised returns the address to advertise: peer.advertise or, without that, the address on which HTTP listens, with
// the host's name in place of "all interfaces".
func (s Serve) Advertised(listening string) string {
	if s.Peer.Advertise != "" {
		return s.Peer.Advertise
	}
	host, err := os.Hostname()
	if err != nil {
		host = s.Instance
	}
	return reached(listening, host)
}

// reached returns the address at which a server can be reached that listens on listen. If it listens on all interfaces,
// that is host.
func reached(listen, host string) string {
	on, port, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(on); err == nil && (on == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort(host, port)
	}
	return listen
}

// NeedRestart returns the names of the settings that differ between s, with which an instance runs, and next, and that
// need a restart: all but tokens, topics, retry and webhook.allow.
func (s Serve) NeedRestart(next Serve) (names []string) {
	before, now := byName(s), byName(next)
	for _, row := range settings() {
		if old, has := before[row.name]; has && row.name != "retry" && row.name != "http.tokens_file" &&
			row.name != "webhook.allow" && !reflect.DeepEqual(old, now[row.name]) {
			names = append(names, row.name)
		}
	}
	return names
}

// Shared returns short digests of the settings that should be the same at every instance, as name:digest with spaces
// between them. Secrets do not count.
func (s Serve) Shared() string {
	var all []string
	values := byName(s)
	for _, name := range []string{"attempts.limit", "dead.keep", "ended.keep", "http.body_limit", "http.tokens",
		"journal.keep", "journal.mode", "names.keep", "nats.prefix", "retry", "topics", "webhook.allow"} {
		text, err := json.Marshal(values[name])
		if err != nil { // a setting that JSON cannot hold: its type is as good
			text = fmt.Appendf(nil, "%+v", values[name])
		}
		sum := sha256.Sum256(text)
		all = append(all, fmt.Sprintf("%s:%x", name, sum[:4]))
	}
	return strings.Join(all, " ")
}

// Differing returns the names of those settings that two instances' Shared digests differ in. What one of them does not
// know does not count.
func Differing(one, other string) (names []string) {
	digests := map[string]string{}
	for _, word := range strings.Fields(other) {
		name, digest, _ := strings.Cut(word, ":")
		digests[name] = digest
	}
	for _, word := range strings.Fields(one) {
		name, digest, _ := strings.Cut(word, ":")
		if known, has := digests[name]; has && known != digest {
			names = append(names, name)
		}
	}
	return names
}

func byName(s Serve) map[string]any {
	all := map[string]any{}
	eachField(reflect.ValueOf(s), "", func(name string, field reflect.Value) { all[name] = field.Interface() })
	return all
}
