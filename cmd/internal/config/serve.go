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
	// separates this tarry from others on the same servers; part of every key, stream and znode
	Namespace string `setting:"namespace" default:"default" limit:"identifier 32" of:"serve dev migrate"`
	// name of this process, unique among the instances
	// default: the host's name
	Instance string `setting:"instance" limit:"label 64"`
	// where waiting messages are kept: redis, for several instances; memory, for one machine with a journal on SQLite
	Store string `setting:"store" default:"redis" limit:"redis|memory"`
	// directory of an instance without Redis: its lock, its machine id, the embedded NATS's streams; tarry serve needs
	// it with store: memory; with it, tarry dev also keeps a SQLite journal in sync there, so waiting messages survive
	// a restart
	// default: for tarry dev, a temporary directory, removed at the end
	Data      string    `setting:"data" limit:"directory" of:"serve dev migrate"`
	HTTP      HTTP      `setting:"http"`
	Seeds     Seeds     `setting:"seeds"`
	Peer      Peer      `setting:"peer"`
	Cluster   Cluster   `setting:"cluster"`
	NATS      NATS      `setting:"nats"`
	Redis     Redis     `setting:"redis"`
	ZooKeeper ZooKeeper `setting:"zookeeper"`
	Journal   Journal   `setting:"journal"`
	// number of parts of the timeline; tarry rebucket changes it once there is one in Redis
	Buckets int      `setting:"buckets" default:"4" limit:"1..1024"`
	Claim   Claim    `setting:"claim"`
	Publish Publish  `setting:"publish"`
	Webhook Webhooks `setting:"webhook"`
	// when a message that a consumer sent back is delivered again, if neither the message nor its topic has a
	// schedule; after the last delay it is dead
	// default: 0,0,2m,10m,10m,1h,2h,6h,15h
	Retry    string   `setting:"retry" limit:"schedule" of:"serve dev"`
	Dead     Dead     `setting:"dead"`
	Attempts Attempts `setting:"attempts"`
	Ended    Ended    `setting:"ended"`
	Names    Names    `setting:"names"`
	Stop     Stop     `setting:"stop"`
	Log      Log      `setting:"log"`
	Topics   []Topic  `setting:"topics"`
}

// LargestMessage returns how many bytes body and headers of a message may have together, whatever NATS accepts. It is
// a little less than a request: at the default limit, a statement that carries them with every byte escaped then has
// less than the 16 MiB that MariaDB accepts by default.
func (h *HTTP) LargestMessage() int { return int(h.BodyLimit - h.BodyLimit/128) }

// HTTP is the API's server. Without Token and Tokens no token is required. Tokens are those of the file's list and of
// TokensFile.
type HTTP struct {
	// address on which HTTP is served; beyond loopback only with http.token, http.tokens or http.insecure
	Listen string `setting:"listen" default:"127.0.0.1:7070" limit:"listen" of:"serve dev"`
	// token that a client sends as Authorization: Bearer; it has all rights
	Token Secret `setting:"token" limit:"token 16" of:"serve dev"`
	// YAML file with tokens, in the form of http.tokens, which are added to those; for a mounted secret
	TokensFile string `setting:"tokens_file" limit:"file" of:"serve dev"`
	// listen beyond loopback even without a token
	Insecure bool `setting:"insecure" default:"false" of:"serve dev"`
	// address on which only /livez and /readyz are also served, in plain HTTP and to anybody: for probers without
	// certificates
	ProbeListen string `setting:"probe_listen" limit:"listen"`
	// serve the page for operators at /console; it holds no secret, and asks its user for a token if one is required
	Console bool `setting:"console" default:"true" of:"serve dev"`
	// host names that clients may use if no token is required, for example behind a proxy; addresses and localhost are
	// always allowed
	Hosts []string `setting:"hosts" limit:"host" max:"64" of:"serve dev"`
	// addresses and networks of proxies that limit their clients; of the memory for request bodies, any other caller,
	// by its token or else its address, may hold at most a quarter, and of http.connections three
	Proxies []string `setting:"proxies" limit:"network" max:"64"`
	// largest body of one request, also of a batch; body and headers of a message may have 1/128 less, however it is
	// pushed
	BodyLimit int64 `setting:"body_limit" default:"8MiB" limit:"64KiB..256MiB" of:"serve migrate"`
	// largest headers of one request, to which Go's HTTP server adds 4 KiB; the headers of a message are in the body
	HeaderLimit int64 `setting:"header_limit" default:"16KiB" limit:"4KiB..1MiB"`
	// how long a client may take to send its headers, and to complete the TLS handshake
	HeaderTimeout time.Duration `setting:"header_timeout" default:"5s" limit:"100ms..1m"`
	// how long a client may take to send a whole request; at least http.header_timeout
	ReadTimeout time.Duration `setting:"read_timeout" default:"30s" limit:"100ms..10m"`
	// how long a connection may wait for its next request
	IdleTimeout time.Duration `setting:"idle_timeout" default:"2m" limit:"1s..1h"`
	// largest number of connections; a further one replaces an idle one, or is closed if none is idle; the requests of
	// one token or address take three quarters
	Connections int       `setting:"connections" default:"10000" limit:"16..1000000"`
	TLS         ServerTLS `setting:"tls"`
	Tokens      []Token   `setting:"tokens"`
}

// Seeds is a listener for the routes of other systems alone, for clients that cannot send a token: they have the rights
// of the one that Token names. Listen may be empty.
type Seeds struct {
	// address on which the routes of camellia and sdmq alone are also served, to clients that cannot send a token;
	// beyond loopback only with seeds.insecure
	Listen string `setting:"listen" limit:"listen" of:"serve dev"`
	// name of the token, one of http.tokens, whose rights the callers of seeds.listen have
	Token string `setting:"token" limit:"token name 64" of:"serve dev"`
	// let seeds.listen be beyond loopback: whoever reaches it has the rights of seeds.token
	Insecure bool `setting:"insecure" default:"false" of:"serve dev"`
}

// Peer is the address under which other instances reach this one. Advertise may be empty: see Serve.Advertised.
type Peer struct {
	// address of this instance, as /v1/cluster shows it; other instances reach its host
	// default: http.listen, with the host's name for all interfaces
	Advertise string `setting:"advertise" limit:"dial"`
	// address for the links by which standbys see at once that the leader is dead; off: they wait for its session to
	// expire
	// default: the host of http.listen, port 7071
	Listen string `setting:"listen" limit:"listen or off"`
}

// PeerOff is the value of peer.listen that turns fast takeovers off, and PeerPort the port that it has by itself.
const (
	PeerOff  = "off"
	PeerPort = "7071"
)

// NATS is the connection to the queue and the intake on it. At most one of user with password, token and creds is set.
// Without a URL, which only InMemory may lack, NATS is embedded, and served on Listen.
type NATS struct {
	// NATS servers; with store: memory and without this setting, NATS is embedded
	URL []string `setting:"url" default:"nats://127.0.0.1:4222" limit:"nats url" max:"16" of:"serve migrate"`
	// address on which the embedded NATS is served; beyond loopback only with nats.user or nats.token, which clients
	// must then present, or with http.insecure
	Listen string `setting:"listen" default:"127.0.0.1:4222" limit:"listen" of:"serve dev"`
	// first part of the intake's subjects: delayed.orders.new is due on orders.new
	Prefix string `setting:"prefix" default:"delayed" limit:"prefix" of:"serve migrate"`
	// NATS user; needs nats.password
	User string `setting:"user" limit:"name 256" of:"serve migrate"`
	// NATS password
	Password Secret `setting:"password" limit:"secret 512" of:"serve migrate"`
	// NATS token, in place of user and password
	Token Secret `setting:"token" limit:"secret 512" of:"serve migrate"`
	// NATS credentials file (JWT and key), in place of user and password
	Creds   string  `setting:"creds" limit:"file" of:"serve migrate"`
	TLS     TLS     `setting:"tls"`
	Intake  Intake  `setting:"intake"`
	Rejects Rejects `setting:"rejects"`
	// also serve operators' calls on NATS, to every client that may publish to tarry.<namespace>.admin.>
	Admin bool `setting:"admin" default:"false" of:"serve dev"`
	// publish what happens, as that a message died, on tarry.<namespace>.event.<kind>.<topic>
	Events bool `setting:"events" default:"true" of:"serve dev"`
}

// ServerTLS are PEM files of the API; Cert and Key are both set or both empty.
type ServerTLS struct {
	// PEM file of the certificate and of those between it and its authority; needs http.tls.key; read again when it
	// changes
	Cert string `setting:"cert" limit:"file"`
	// PEM file of the certificate's key
	Key string `setting:"key" limit:"file"`
	// PEM file of the authorities of client certificates; with it, every client must present one
	CA string `setting:"ca" limit:"file"`
}

// TLS are PEM files of a client; Cert and Key are both set or both empty.
type TLS struct {
	// PEM file of the authority of the NATS servers' certificates; turns TLS on
	CA string `setting:"ca" limit:"file" of:"serve migrate"`
	// PEM file of the client certificate; needs nats.tls.key
	Cert string `setting:"cert" limit:"file" of:"serve migrate"`
	// PEM file of the client certificate's key
	Key string `setting:"key" limit:"file" of:"serve migrate"`
}

// Intake is the stream that holds tagged messages until Redis has them.
type Intake struct {
	// copies of the intake stream; 3 in a NATS cluster
	Replicas int `setting:"replicas" default:"1" limit:"1..5" of:"serve migrate"`
	// size at which the intake stream refuses further pushes
	MaxBytes int64 `setting:"max_bytes" default:"1GiB" limit:"1MiB..1TiB" of:"serve dev migrate"`
}

// Rejects bounds the stream of refused pushes.
type Rejects struct {
	// size at which the stream of refused pushes drops the oldest; the large ones of one subject take at most an
	// eighth
	MaxBytes int64 `setting:"max_bytes" default:"64MiB" limit:"1MiB..1TiB" of:"serve dev migrate"`
	// refused pushes kept for each first token of their topics; beyond that, the oldest of this token are dropped
	PerSubject int `setting:"per_subject" default:"1000" limit:"1..1000000" of:"serve migrate"`
}

// Redis is the connection to the timeline. With Master the addresses are Sentinels; without, several are a Cluster.
type Redis struct {
	// Redis server; or all Sentinels, with redis.master; or some nodes of a Cluster
	Addrs []string `setting:"addrs" default:"127.0.0.1:6379" limit:"dial" max:"64"`
	// name of the master that the Sentinels watch
	Master string `setting:"master" limit:"label 128"`
	// Redis ACL user; needs redis.password
	Username string `setting:"username" limit:"name 256"`
	// Redis password
	Password Secret `setting:"password" limit:"secret 512"`
	// Redis database; a Cluster has only 0
	DB int `setting:"db" default:"0" limit:"0..1023"`
	// use TLS for Redis, with the system's authorities (SSL_CERT_FILE names others)
	TLS bool `setting:"tls" default:"false"`
}

// ZooKeeper is the connection for the election. Username and Password are both set or both empty.
type ZooKeeper struct {
	// ZooKeeper servers, preferably all of the ensemble
	Servers []string `setting:"servers" default:"127.0.0.1:2181" limit:"dial" max:"16"`
	// session time-out: how long a silent leader stays leader; the servers have limits too (by default 4s to 40s)
	Session time.Duration `setting:"session" default:"6s" limit:"2s..40s"`
	// ZooKeeper digest user; needs zookeeper.password
	Username string `setting:"username" limit:"digest user 256"`
	// ZooKeeper digest password
	Password Secret `setting:"password" limit:"secret 512"`
}

// Journal is the SQL record of every change. Mode is off, async or sync; the DSN holds a password.
type Journal struct {
	// SQL journal of every change: sync answers a push after its commit, async once Redis has it; with off, only Redis
	// keeps the messages
	Mode string `setting:"mode" default:"off" limit:"off|async|sync"`
	// database of the journal: user:password@tcp(host:3306)/database, or sqlite:FILE; each namespace needs its own
	DSN Secret `setting:"dsn" limit:"dsn" of:"serve migrate"`
	// update the database's tables at the start; if false, tarry migrate does it
	Migrate bool `setting:"migrate" default:"true"`
	// bytes in Redis that may wait for the journal, in all buckets together; above this, pushes, edits and requeues
	// are refused, and due messages are still delivered
	Outbox int64 `setting:"outbox" default:"256MiB" limit:"1MiB..1TiB"`
	// how long messages stay in the journal after they ended; waiting and dead messages always stay
	Keep time.Duration `setting:"keep" default:"720h" limit:"1h..876000h"`
	// how far back a Redis that was restarted or promoted may have lost changes: later changes are compared before
	// anything is delivered
	Window time.Duration `setting:"window" default:"10m" limit:"1m..24h"`
	// how often the leader compares all of Redis with the journal and repairs what differs
	Audit time.Duration `setting:"audit" default:"6h" limit:"1m..720h"`
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
	// how many instances there should be at least; while there are fewer, all that are there say so
	Instances int `setting:"instances" default:"1" limit:"1..64"`
}

// Claim bounds what the leader takes from a bucket at once.
type Claim struct {
	// messages that the leader claims from a bucket at once
	Batch int `setting:"batch" default:"500" limit:"1..2000"`
	// bytes that the leader claims from a bucket at once
	Bytes int64 `setting:"bytes" default:"8MiB" limit:"1MiB..256MiB"`
}

// Publish bounds what the leader has under way to NATS.
type Publish struct {
	// how long NATS may take to acknowledge a delivery; at most half of zookeeper.session
	Timeout time.Duration `setting:"timeout" default:"2s" limit:"100ms..20s"`
	// deliveries that may wait for NATS's acknowledgement at once
	Pending int `setting:"pending" default:"8192" limit:"1..65536"`
}

// Webhooks says to which networks webhooks may post although they are not public.
type Webhooks struct {
	// addresses and networks to which webhooks may post although they are not public
	Allow []string `setting:"allow" limit:"network" max:"64" of:"serve dev"`
}

// Dead says how long dead messages are kept; 0 means forever.
type Dead struct {
	// how long dead messages are kept
	Keep time.Duration `setting:"keep" default:"0" limit:"1h..876000h" zero:"ever" of:"serve dev"`
}

// Attempts says after how many permanent refusals a message is dead.
type Attempts struct {
	// permanent NATS refusals before a message without a retry schedule, its own or its topic's, is dead
	Limit int `setting:"limit" default:"5" limit:"1..1000"`
}

// Ended says how long ended messages are remembered.
type Ended struct {
	// how long the end of a message is remembered, for retries of its push and late cancels
	Keep time.Duration `setting:"keep" default:"10m" limit:"leastEnded..24h"`
}

// Names says how long the journal is consulted about names.
type Names struct {
	// with the journal on: how long after its end a message is recognized by its name; at most journal.keep; with 0,
	// as without a journal
	Keep time.Duration `setting:"keep" default:"168h" limit:"1h..876000h" zero:"none"`
}

// Stop bounds a graceful stop.
type Stop struct {
	// how long a graceful stop waits for messages in flight; at least publish.timeout
	Timeout time.Duration `setting:"timeout" default:"10s" limit:"100ms..10m"`
}

// Log has level trace, debug, info, warn or error, and format auto, json or console.
type Log struct {
	// lowest severity that is logged
	Level string `setting:"level" default:"info" limit:"trace|debug|info|warn|error" of:"serve dev migrate"`
	// json for machines, console for people; auto is console on a terminal, else json
	Format string `setting:"format" default:"auto" limit:"auto|json|console" of:"serve dev migrate"`
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
