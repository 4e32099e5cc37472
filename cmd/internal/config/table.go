package config

import (
	"strings"
	"time"
)

// command is who reads a setting; a setting may have several.
type command uint8

const (
	serve command = 1 << iota
	dev
	client
	migrate
)

func (c command) String() string {
	var names []string
	for _, known := range []struct {
		command
		name string
	}{{serve, "tarry serve"}, {dev, "tarry dev"}, {client, "the client commands"}, {migrate, "tarry migrate"}} {
		if c&known.command != 0 {
			names = append(names, known.name)
		}
	}
	return list(names, "and")
}

// setting is one row of the table.
type setting struct {
	name     string // the YAML path, from which the other spellings follow
	fallback string // the default as text; "" where the setting may be empty
	computed string // what stands in for an empty one, in words
	limit    limit
	help     string // begins in lower case, no full stop
	secret   bool
	of       command
}

const envPrefix = "TARRY_"

func (s setting) env() string  { return envName(s.name) }
func (s setting) flag() string { return flagName(s.name) }

func envName(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
}
func flagName(name string) string { return "--" + name }

// configName names the file. It is the one setting that stands in no file.
const configName = "config"

func configFile() setting {
	return setting{name: configName, limit: readableFile(), help: "YAML file with settings",
		of: serve | dev | client | migrate}
}

// settings is the table, in the order of documents. Names of one section stand together.
func settings() []setting {
	const kib, mib, gib, tib = 1 << 10, 1 << 20, 1 << 30, 1 << 40
	second, minute, hour := time.Second, time.Minute, time.Hour
	return []setting{
		{name: "namespace", fallback: "default", of: serve | dev | migrate, limit: identifier(32),
			help: "what keeps this tarry apart from others on the same servers; part of every key, stream and znode"},
		{name: "instance", computed: "the host's name", of: serve, limit: label(64),
			help: "name of this process, unlike that of any other instance"},

		{name: "store", fallback: storeRedis, of: serve, limit: choice{storeRedis, storeMemory},
			help: "where what waits is held: redis, for several instances; memory, for one machine with a " +
				"journal on SQLite"},
		{name: "data", computed: "for tarry dev a temporary directory, removed at the end", of: serve | dev | migrate,
			limit: directory(),
			help: "directory of what an instance without Redis keeps: its lock, its machine id, the embedded " +
				"NATS's streams; " +
				"tarry serve needs it with store: memory, and named for tarry dev it holds a SQLite journal in sync, " +
				"so that what waits outlives a restart"},

		{name: "http.listen", fallback: "127.0.0.1:7070", of: serve | dev, limit: listenAddress(),
			help: "where HTTP is served; beyond loopback only with http.token, http.tokens or http.insecure"},
		{name: "http.token", secret: true, of: serve | dev, limit: token(16, 512),
			help: "what a client must send as Authorization: Bearer; it has all rights"},
		{name: "http.tokens_file", of: serve | dev, limit: readableFile(),
			help: "YAML file with tokens, written as under http.tokens and added to those: for a secret that " +
				"is mounted"},
		{name: "http.insecure", fallback: "false", of: serve | dev, limit: toggle{},
			help: "listen beyond loopback without a token all the same"},
		{name: "http.probe_listen", of: serve, limit: listenAddress(),
			help: "where /livez and /readyz are served as well, in plain HTTP to anybody and nothing else: for " +
				"probers without certificates"},
		{name: "http.hosts", of: serve | dev, limit: several{hostName(), 64},
			help: "names under which clients reach it where no token is asked for, as behind a proxy; addresses and " +
				"localhost always do"},
		{name: "http.body_limit", fallback: "8MiB", of: serve | migrate, limit: size(64*kib, 256*mib),
			help: "largest body of one request, a batch included"},
		{name: "http.header_limit", fallback: "16KiB", of: serve, limit: size(4*kib, mib),
			help: "largest headers of one request; those of a message stand in the body"},
		{name: "http.header_timeout", fallback: "5s", of: serve, limit: span(100*time.Millisecond, minute),
			help: "how long a client may take to send its headers, and for the TLS handshake"},
		{name: "http.read_timeout", fallback: "30s", of: serve, limit: span(100*time.Millisecond, 10*minute),
			help: "how long a client may take to send a whole request; at least http.header_timeout"},
		{name: "http.idle_timeout", fallback: "2m", of: serve, limit: span(second, hour),
			help: "how long a connection may wait for its next request"},
		{name: "http.connections", fallback: "10000", of: serve, limit: integer(16, 1_000_000),
			help: "connections at once; beyond them one that is idle makes room, else the new one is closed"},
		{name: "http.tls.cert", of: serve, limit: readableFile(),
			help: "PEM file of the certificate, and of those between it and its authority; goes with http.tls.key; " +
				"read again when it changes"},
		{name: "http.tls.key", of: serve, limit: readableFile(),
			help: "PEM file of the certificate's key"},
		{name: "http.tls.ca", of: serve, limit: readableFile(),
			help: "PEM file of the authorities of client certificates; with it a client without one is turned away"},

		{name: "peer.advertise", computed: "http.listen, with the host's name for all interfaces", of: serve,
			limit: dialAddress(),
			help:  "address of this instance as /v1/cluster shows it"},

		{name: "nats.url", fallback: "nats://127.0.0.1:4222", of: serve | migrate, limit: several{natsURL(), 16},
			help: "NATS servers; with store: memory and without this setting NATS is embedded"},
		{name: "nats.listen", fallback: "127.0.0.1:4222", of: serve | dev, limit: listenAddress(),
			help: "where the embedded NATS is served; beyond loopback only with nats.user or nats.token, which it " +
				"asks for then, or with http.insecure"},
		{name: "nats.prefix", fallback: "delayed", of: serve | migrate, limit: prefix(),
			help: "first part of the intake's subjects: delayed.orders.new is due on orders.new"},
		{name: "nats.user", of: serve | migrate, limit: freeText("name", 256),
			help: "NATS user; goes with nats.password"},
		{name: "nats.password", secret: true, of: serve | migrate, limit: freeText("secret", 512),
			help: "NATS password"},
		{name: "nats.token", secret: true, of: serve | migrate, limit: freeText("secret", 512),
			help: "NATS token, in place of user and password"},
		{name: "nats.creds", of: serve | migrate, limit: readableFile(),
			help: "NATS credentials file (JWT and key), in place of user and password"},
		{name: "nats.tls.ca", of: serve | migrate, limit: readableFile(),
			help: "PEM file of the authority that NATS servers are checked against; asks for TLS"},
		{name: "nats.tls.cert", of: serve | migrate, limit: readableFile(),
			help: "PEM file of the client certificate; goes with nats.tls.key"},
		{name: "nats.tls.key", of: serve | migrate, limit: readableFile(),
			help: "PEM file of the client certificate's key"},
		{name: "nats.intake.replicas", fallback: "1", of: serve | migrate, limit: integer(1, 5),
			help: "copies of the intake stream; 3 in a NATS cluster"},
		{name: "nats.intake.max_bytes", fallback: "1GiB", of: serve | migrate, limit: size(mib, tib),
			help: "size at which the intake stream refuses further pushes"},

		{name: "nats.rejects.max_bytes", fallback: "64MiB", of: serve | migrate, limit: size(mib, tib),
			help: "size at which the stream of refused pushes drops the oldest; the large ones of one subject take " +
				"an eighth at most"},
		{name: "nats.rejects.per_subject", fallback: "1000", of: serve | migrate, limit: integer(1, 1_000_000),
			help: "refused pushes that are kept for one first part of a topic; beyond them the oldest of that part " +
				"are dropped"},

		{name: "nats.admin", fallback: "false", of: serve | dev, limit: toggle{},
			help: "serve the calls of operators on NATS too, to whoever may publish to tarry.<namespace>.admin.>"},

		{name: "redis.addrs", fallback: "127.0.0.1:6379", of: serve, limit: several{dialAddress(), 64},
			help: "Redis server; or all Sentinels, with redis.master; or some nodes of a Cluster"},
		{name: "redis.master", of: serve, limit: label(128),
			help: "name of the master that the Sentinels watch"},
		{name: "redis.username", of: serve, limit: freeText("name", 256),
			help: "Redis ACL user; goes with redis.password"},
		{name: "redis.password", secret: true, of: serve, limit: freeText("secret", 512),
			help: "Redis password"},
		{name: "redis.db", fallback: "0", of: serve, limit: integer(0, 1023),
			help: "Redis database; a Cluster has 0 only"},
		{name: "redis.tls", fallback: "false", of: serve, limit: toggle{},
			help: "speak TLS to Redis, checked against the system's authorities (SSL_CERT_FILE names others)"},

		{name: "zookeeper.servers", fallback: "127.0.0.1:2181", of: serve, limit: several{dialAddress(), 16},
			help: "ZooKeeper servers, best all of the ensemble"},
		{name: "zookeeper.session", fallback: "6s", of: serve, limit: span(2*second, 40*second),
			help: "session time-out: how long a silent leader stays leader; the servers' own bounds hold too (4s to " +
				"40s unless set)"},
		{name: "zookeeper.username", of: serve, limit: digestUser(256),
			help: "ZooKeeper digest user; goes with zookeeper.password"},
		{name: "zookeeper.password", secret: true, of: serve, limit: freeText("secret", 512),
			help: "ZooKeeper digest password"},

		{name: "journal.mode", fallback: "off", of: serve, limit: choice{"off", "async", "sync"},
			help: "SQL journal of every change: sync answers a push after its commit, async after Redis; off means " +
				"that Redis alone keeps the messages"},
		{name: "journal.dsn", secret: true, of: serve | migrate, limit: dsn(),
			help: "database of the journal, as user:password@tcp(host:3306)/database, or sqlite:FILE; one database " +
				"for one namespace"},
		{name: "journal.migrate", fallback: "true", of: serve, limit: toggle{},
			help: "bring the database's tables up to date at start; without it that is done by tarry migrate"},
		{name: "journal.outbox", fallback: "256MiB", of: serve, limit: size(mib, tib),
			help: "bytes in Redis that may wait for the journal, over all buckets; above it pushes are refused and " +
				"what is due still goes out"},
		{name: "journal.keep", fallback: "720h", of: serve, limit: span(hour, 100*365*24*hour),
			help: "how long messages stay in the journal after they ended; what waits or is dead always stays"},
		{name: "journal.window", fallback: "10m", of: serve, limit: span(minute, 24*hour),
			help: "how far back a Redis that was restarted or promoted may have lost changes: what changed since is " +
				"compared before anything goes out"},
		{name: "journal.audit", fallback: "6h", of: serve, limit: span(minute, 30*24*hour),
			help: "how often the leader compares all of Redis with the journal and mends what differs"},

		{name: "buckets", fallback: "4", of: serve, limit: integer(1, 1024),
			help: "parts the timeline is divided into; fixed by the first start on a Redis"},
		{name: "claim.batch", fallback: "500", of: serve, limit: integer(1, 2000),
			help: "messages the leader takes from a bucket at once"},
		{name: "claim.bytes", fallback: "8MiB", of: serve, limit: size(mib, 256*mib),
			help: "bytes the leader takes from a bucket at once"},
		{name: "publish.timeout", fallback: "2s", of: serve, limit: span(100*time.Millisecond, 20*second),
			help: "how long NATS may take to confirm a delivery; at most half of zookeeper.session"},
		{name: "publish.pending", fallback: "8192", of: serve, limit: integer(1, 65536),
			help: "deliveries that may await NATS at once"},
		{name: "retry", computed: "0,0,2m,10m,10m,1h,2h,6h,15h", of: serve | dev, limit: schedule(),
			help: "when a message that a consumer sent back is tried again, where neither it nor its topic says; " +
				"after the last delay it is dead"},
		{name: "dead.keep", fallback: "0", of: serve | dev, limit: lasting(hour, 100*365*24*hour, "ever"),
			help: "how long dead messages are kept"},
		{name: "attempts.limit", fallback: "5", of: serve, limit: integer(1, 1000),
			help: "permanent NATS refusals before a message without a retry schedule, its own or its topic's, is dead"},
		{name: "ended.keep", fallback: "10m", of: serve, limit: span(leastEnded, 24*hour),
			help: "how long the end of a message is remembered, for retries of its push and late cancels"},
		{name: "names.keep", fallback: "168h", of: serve, limit: lasting(hour, 100*365*24*hour, "none"),
			help: "with the journal on: how long after its end a message is recognized by its name; at most " +
				"journal.keep, 0 as without a journal"},
		{name: "stop.timeout", fallback: "10s", of: serve, limit: span(100*time.Millisecond, 10*minute),
			help: "how long a graceful stop waits for what is in flight; at least publish.timeout"},

		{name: "log.level", fallback: "info", of: serve | dev | migrate,
			limit: choice{"trace", "debug", "info", "warn", "error"},
			help:  "least severe line that is logged"},
		{name: "log.format", fallback: "auto", of: serve | dev | migrate, limit: choice{"auto", "json", "console"},
			help: "json for machines, console for people; auto is console on a terminal, else json"},

		{name: "server", fallback: "http://127.0.0.1:7070", of: client, limit: webURL(),
			help: "HTTP address of an instance, or of a proxy before several; where it is not given and the " +
				"environment or the " +
				"file has http.listen of tarry serve, that address, over https with http.tls.cert"},
		{name: "token", secret: true, of: client, limit: token(1, 512),
			help: "the http.token of that instance"},
		{name: "tls.ca", of: client, limit: readableFile(),
			help: "PEM file of the authority that an https server is checked against, in place of the system's"},
		{name: "tls.cert", of: client, limit: readableFile(),
			help: "PEM file of the certificate to show to a server that asks for one; goes with tls.key"},
		{name: "tls.key", of: client, limit: readableFile(),
			help: "PEM file of the certificate's key"},
		{name: "tls.server_name", of: client, limit: hostName(),
			help: "name that the server's certificate must have, where that is not the one in server"},
		{name: "json", fallback: "false", of: client, limit: toggle{},
			help: "print JSON for machines"},
		{name: "timeout", fallback: "10s", of: client, limit: span(100*time.Millisecond, 10*minute),
			help: "how long one call may take"},
	}
}

// later are names that the design has and this version does not, each with what it will come with.
func later() map[string]string {
	return map[string]string{
		"peer.listen": "fast takeover",
	}
}
