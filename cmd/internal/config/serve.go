package config

import (
	"net"
	"os"
	"time"

	"github.com/spf13/pflag"
)

// Serve are the settings of tarry serve, checked.
type Serve struct {
	Namespace string    `setting:"namespace"`
	Instance  string    `setting:"instance"` // never empty
	Store     string    `setting:"store"`    // redis or memory
	Data      string    `setting:"data"`     // empty with Redis
	HTTP      HTTP      `setting:"http"`
	Peer      Peer      `setting:"peer"`
	NATS      NATS      `setting:"nats"`
	OwnNATS   DevNATS   `setting:"nats"` // what this process serves
	Redis     Redis     `setting:"redis"`
	ZooKeeper ZooKeeper `setting:"zookeeper"`
	Journal   Journal   `setting:"journal"`
	Buckets   int       `setting:"buckets"`
	Claim     Claim     `setting:"claim"`
	Publish   Publish   `setting:"publish"`
	Retry     string    `setting:"retry"` // as wire.ParseRetry reads it; may be empty
	Dead      Dead      `setting:"dead"`
	Topics    []Topic   `setting:"topics"`
	Attempts  Attempts  `setting:"attempts"`
	Ended     Ended     `setting:"ended"`
	Names     Names     `setting:"names"`
	Stop      Stop      `setting:"stop"`
	Log       Log       `setting:"log"`
}

// HTTP is the API's server. Without Token and Tokens nobody is asked for one. Tokens are those of the file's list and
// of TokensFile.
type HTTP struct {
	Listen        string        `setting:"listen"`
	ProbeListen   string        `setting:"probe_listen"` // may be empty
	Token         Secret        `setting:"token"`
	Tokens        []Token       `setting:"tokens"`
	TokensFile    string        `setting:"tokens_file"`
	Insecure      bool          `setting:"insecure"`
	Hosts         []string      `setting:"hosts"`
	BodyLimit     int64         `setting:"body_limit"`
	HeaderLimit   int64         `setting:"header_limit"`
	HeaderTimeout time.Duration `setting:"header_timeout"`
	ReadTimeout   time.Duration `setting:"read_timeout"`
	IdleTimeout   time.Duration `setting:"idle_timeout"`
	Connections   int           `setting:"connections"`
	TLS           TLS           `setting:"tls"`
}

// Peer is how other instances see this one. Advertise may be empty: see Serve.Advertised.
type Peer struct {
	Advertise string `setting:"advertise"`
}

// NATS is the connection to the queue and the intake on it. At most one of user with password, token and creds is set.
// Without a URL, which only InMemory may lack, NATS is embedded.
type NATS struct {
	URL      []string `setting:"url"`
	Prefix   string   `setting:"prefix"`
	User     string   `setting:"user"`
	Password Secret   `setting:"password"`
	Token    Secret   `setting:"token"`
	Creds    string   `setting:"creds"`
	TLS      TLS      `setting:"tls"`
	Intake   Intake   `setting:"intake"`
	Rejects  Rejects  `setting:"rejects"`
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

// Rejects bounds the stream of what the intake refuses.
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

// Dead says how long dead messages are kept; 0 is for ever.
type Dead struct {
	Keep time.Duration `setting:"keep"`
}

// Attempts says after how many permanent refusals a message is dead.
type Attempts struct {
	Limit int `setting:"limit"`
}

// Ended is the short memory of ends.
type Ended struct {
	Keep time.Duration `setting:"keep"`
}

// Names is how long the journal is asked about names.
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

// The words of the setting store.
const (
	storeRedis  = "redis"
	storeMemory = "memory"
)

// InMemory reports whether what waits is held in memory: one instance, on one machine, kept by its journal.
func (s Serve) InMemory() bool { return s.Store == storeMemory }

// Embedded reports whether the process serves its own NATS.
func (s Serve) Embedded() bool { return len(s.NATS.URL) == 0 }

// AddServeFlags gives fs a flag for every setting of tarry serve, and --config.
func AddServeFlags(fs *pflag.FlagSet) { addFlags(fs, serve) }

// LoadServe reads all layers; flags may be nil. On error, which names everything that is wrong, the settings must not
// be used.
func LoadServe(flags *pflag.FlagSet, environ []string) (Serve, error) {
	l := newLoader(serve)
	return l.serve(l.given(flags, environ, readFile))
}

func (l *loader) serve(ready bool) (Serve, error) {
	var s Serve
	if ready {
		l.fill(&s)
		l.instance(&s)
		if s.InMemory() && l.good("nats.url") && l.source["nats.url"] == "" {
			s.NATS.URL = nil
		}
		s.HTTP.Tokens = l.tokens(s.HTTP.Token, s.HTTP.TokensFile)
		s.Topics = l.topics(s.NATS.Prefix)
		l.checkServe(s)
	}
	if err := l.err(); err != nil {
		return Serve{}, err
	}
	return s, nil
}

// instance falls back to the host's name, which has to pass the same limit.
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
		l.refuse("instance", "is the host's name and "+err.Error())
		return
	}
	s.Instance = name
}

// String is the settings as YAML, secrets masked.
func (s Serve) String() string { return describe(&s, serve) }

// Advertised is the address to show to others. It is peer.advertise; without that, where HTTP really listens, with
// the host's name in place of "all interfaces".
func (s Serve) Advertised(listening net.Addr) string {
	if s.Peer.Advertise != "" {
		return s.Peer.Advertise
	}
	host, port, err := net.SplitHostPort(listening.String())
	if err != nil {
		return listening.String()
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = s.Instance
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	return net.JoinHostPort(host, port)
}
