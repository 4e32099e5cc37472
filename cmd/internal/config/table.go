package config

import (
	"strings"
	"time"
)

// command is a set of the commands that read a setting.
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
	fallback string // the default as text; "" if the setting may be empty
	computed string // what replaces an empty value, in words
	limit    limit
	help     string // begins in lower case, no full stop
	secret   bool
	of       command
}

const envPrefix = "TARRY_"

func (s setting) env() string { return envName(s.name) }

func envName(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
}
func flagName(name string) string { return "--" + name }

// configName names the file. It is the only setting that a file cannot contain.
const configName = "config"

func configFile() setting {
	return setting{name: configName, limit: readableFile(), help: "YAML file with settings",
		of: serve | dev | client | migrate}
}

// settings returns the table, in the order of the documents. The settings of a section are together.
func settings() []setting {
	const kib, mib, gib, tib = 1 << 10, 1 << 20, 1 << 30, 1 << 40
	second, minute, hour := time.Second, time.Minute, time.Hour
	return []setting{
		{name: "namespace", fallback: "default", of: serve | dev | migrate, limit: identifier(32),
			help: "separates this tarry from others on the same servers; part of every key, stream and znode"},
		{name: "instance", computed: "the host's name", of: serve, limit: label(64),
			help: "name of this process, unique among the instances"},

		{name: "store", fallback: storeRedis, of: serve, limit: choice{storeRedis, storeMemory},
			help: "where waiting messages are kept: redis, for several instances; memory, for one machine with a " +
				"journal on SQLite"},
		{name: "data", computed: "for tarry dev, a temporary directory, removed at the end", of: serve | dev | migrate,
			limit: directory(),
			help: "directory of an instance without Redis: its lock, its machine id, the embedded NATS's streams; " +
				"tarry serve needs it with store: memory; with it, tarry dev also keeps a SQLite journal in sync " +
				"there, so waiting messages survive a restart"},

		{name: "http.listen", fallback: "127.0.0.1:7070", of: serve | dev, limit: listenAddress(),
			help: "address on which HTTP is served; beyond loopback only with http.token, http.tokens or " +
				"http.insecure"},
		{name: "http.token", secret: true, of: serve | dev, limit: token(16, 512),
			help: "token that a client sends as Authorization: Bearer; it has all rights"},
		{name: "http.tokens_file", of: serve | dev, limit: readableFile(),
			help: "YAML file with tokens, in the form of http.tokens, which are added to those; for a mounted secret"},
		{name: "http.insecure", fallback: "false", of: serve | dev, limit: toggle{},
			help: "listen beyond loopback even without a token"},
		{name: "http.probe_listen", of: serve, limit: listenAddress(),
			help: "address on which only /livez and /readyz are also served, in plain HTTP and to anybody: for " +
				"probers without certificates"},
		{name: "http.hosts", of: serve | dev, limit: several{of: hostName(), max: 64},
			help: "host names that clients may use if no token is required, for example behind a proxy; addresses " +
				"and localhost are always allowed"},
		{name: "http.proxies", of: serve, limit: several{of: network(), max: 64},
			help: "addresses and networks of proxies that limit their clients; of the memory for request bodies, any " +
				"other caller, by its token or else its address, may hold at most a quarter, and of http.connections three"},
		{name: "http.body_limit", fallback: "8MiB", of: serve | migrate, limit: size(64*kib, 256*mib),
			help: "largest body of one request, also of a batch; body and headers of a message may have 1/128 less, " +
				"however it is pushed"},
		{name: "http.header_limit", fallback: "16KiB", of: serve, limit: size(4*kib, mib),
			help: "largest headers of one request, to which Go's HTTP server adds 4 KiB; the headers of a message " +
				"are in the body"},
		{name: "http.header_timeout", fallback: "5s", of: serve, limit: span(100*time.Millisecond, minute),
			help: "how long a client may take to send its headers, and to complete the TLS handshake"},
		{name: "http.read_timeout", fallback: "30s", of: serve, limit: span(100*time.Millisecond, 10*minute),
			help: "how long a client may take to send a whole request; at least http.header_timeout"},
		{name: "http.idle_timeout", fallback: "2m", of: serve, limit: span(second, hour),
			help: "how long a connection may wait for its next request"},
		{name: "http.connections", fallback: "10000", of: serve, limit: integer(16, 1_000_000),
			help: "largest number of connections; a further one replaces an idle one, or is closed if none is idle; " +
				"the requests of one token or address take three quarters"},
		{name: "http.tls.cert", of: serve, limit: readableFile(),
			help: "PEM file of the certificate and of those between it and its authority; needs http.tls.key; " +
				"read again when it changes"},
		{name: "http.tls.key", of: serve, limit: readableFile(),
			help: "PEM file of the certificate's key"},
		{name: "http.tls.ca", of: serve, limit: readableFile(),
			help: "PEM file of the authorities of client certificates; with it, every client must present one"},

		{name: "seeds.listen", of: serve | dev, limit: listenAddress(),
			help: "address on which the routes of camellia and sdmq alone are also served, to clients that cannot " +
				"send a token; beyond loopback only with seeds.insecure"},
		{name: "seeds.token", of: serve | dev, limit: tokenName(64),
			help: "name of the token, one of http.tokens, whose rights the callers of seeds.listen have"},
		{name: "seeds.insecure", fallback: "false", of: serve | dev, limit: toggle{},
			help: "let seeds.listen be beyond loopback: whoever reaches it has the rights of seeds.token"},

		{name: "peer.advertise", computed: "http.listen, with the host's name for all interfaces", of: serve,
			limit: dialAddress(),
			help:  "address of this instance, as /v1/cluster shows it; other instances reach its host"},
		{name: "peer.listen", computed: "the host of http.listen, port 7071", of: serve, limit: listenOrOff(),
			help: "address for the links by which standbys see at once that the leader is dead; off: they wait for its " +
				"session to expire"},

		{name: "cluster.instances", fallback: "1", of: serve, limit: integer(1, 64),
			help: "how many instances there should be at least; while there are fewer, all that are there say so"},

		{name: "nats.url", fallback: "nats://127.0.0.1:4222", of: serve | migrate, limit: several{of: natsURL(), max: 16},
			help: "NATS servers; with store: memory and without this setting, NATS is embedded"},
		{name: "nats.listen", fallback: "127.0.0.1:4222", of: serve | dev, limit: listenAddress(),
			help: "address on which the embedded NATS is served; beyond loopback only with nats.user or nats.token, " +
				"which clients must then present, or with http.insecure"},
		{name: "nats.prefix", fallback: "delayed", of: serve | migrate, limit: prefix(),
			help: "first part of the intake's subjects: delayed.orders.new is due on orders.new"},
		{name: "nats.user", of: serve | migrate, limit: freeText("name", 256),
			help: "NATS user; needs nats.password"},
		{name: "nats.password", secret: true, of: serve | migrate, limit: freeText("secret", 512),
			help: "NATS password"},
		{name: "nats.token", secret: true, of: serve | migrate, limit: freeText("secret", 512),
			help: "NATS token, in place of user and password"},
		{name: "nats.creds", of: serve | migrate, limit: readableFile(),
			help: "NATS credentials file (JWT and key), in place of user and password"},
		{name: "nats.tls.ca", of: serve | migrate, limit: readableFile(),
			help: "PEM file of the authority of the NATS servers' certificates; turns TLS on"},
		{name: "nats.tls.cert", of: serve | migrate, limit: readableFile(),
			help: "PEM file of the client certificate; needs nats.tls.key"},
		{name: "nats.tls.key", of: serve | migrate, limit: readableFile(),
			help: "PEM file of the client certificate's key"},
		{name: "nats.intake.replicas", fallback: "1", of: serve | migrate, limit: integer(1, 5),
			help: "copies of the intake stream; 3 in a NATS cluster"},
		{name: "nats.intake.max_bytes", fallback: "1GiB", of: serve | dev | migrate, limit: size(mib, tib),
			help: "size at which the intake stream refuses further pushes"},

		{name: "nats.rejects.max_bytes", fallback: "64MiB", of: serve | dev | migrate, limit: size(mib, tib),
			help: "size at which the stream of refused pushes drops the oldest; the large ones of one subject take " +
				"at most an eighth"},
		{name: "nats.rejects.per_subject", fallback: "1000", of: serve | migrate, limit: integer(1, 1_000_000),
			help: "refused pushes kept for each first token of their topics; beyond that, the oldest of this token " +
				"are dropped"},

		{name: "nats.admin", fallback: "false", of: serve | dev, limit: toggle{},
			help: "also serve operators' calls on NATS, to every client that may publish to tarry.<namespace>.admin.>"},

		{name: "redis.addrs", fallback: "127.0.0.1:6379", of: serve, limit: several{of: dialAddress(), max: 64},
			help: "Redis server; or all Sentinels, with redis.master; or some nodes of a Cluster"},
		{name: "redis.master", of: serve, limit: label(128),
			help: "name of the master that the Sentinels watch"},
		{name: "redis.username", of: serve, limit: freeText("name", 256),
			help: "Redis ACL user; needs redis.password"},
		{name: "redis.password", secret: true, of: serve, limit: freeText("secret", 512),
			help: "Redis password"},
		{name: "redis.db", fallback: "0", of: serve, limit: integer(0, 1023),
			help: "Redis database; a Cluster has only 0"},
		{name: "redis.tls", fallback: "false", of: serve, limit: toggle{},
			help: "use TLS for Redis, with the system's authorities (SSL_CERT_FILE names others)"},

		{name: "zookeeper.servers", fallback: "127.0.0.1:2181", of: serve, limit: several{of: dialAddress(), max: 16},
			help: "ZooKeeper servers, preferably all of the ensemble"},
		{name: "zookeeper.session", fallback: "6s", of: serve, limit: span(2*second, 40*second),
			help: "session time-out: how long a silent leader stays leader; the servers have limits too (by default " +
				"4s to 40s)"},
		{name: "zookeeper.username", of: serve, limit: digestUser(256),
			help: "ZooKeeper digest user; needs zookeeper.password"},
		{name: "zookeeper.password", secret: true, of: serve, limit: freeText("secret", 512),
			help: "ZooKeeper digest password"},

		{name: "journal.mode", fallback: "off", of: serve, limit: choice{"off", "async", "sync"},
			help: "SQL journal of every change: sync answers a push after its commit, async once Redis has it; with " +
				"off, only Redis keeps the messages"},
		{name: "journal.dsn", secret: true, of: serve | migrate, limit: dsn(),
			help: "database of the journal: user:password@tcp(host:3306)/database, or sqlite:FILE; each namespace " +
				"needs its own"},
		{name: "journal.migrate", fallback: "true", of: serve, limit: toggle{},
			help: "update the database's tables at the start; if false, tarry migrate does it"},
		{name: "journal.outbox", fallback: "256MiB", of: serve, limit: size(mib, tib),
			help: "bytes in Redis that may wait for the journal, in all buckets together; above this, pushes, edits and " +
				"requeues are refused, and due messages are still delivered"},
		{name: "journal.keep", fallback: "720h", of: serve, limit: span(hour, 100*365*24*hour),
			help: "how long messages stay in the journal after they ended; waiting and dead messages always stay"},
		{name: "journal.window", fallback: "10m", of: serve, limit: span(minute, 24*hour),
			help: "how far back a Redis that was restarted or promoted may have lost changes: later changes are " +
				"compared before anything is delivered"},
		{name: "journal.audit", fallback: "6h", of: serve, limit: span(minute, 30*24*hour),
			help: "how often the leader compares all of Redis with the journal and repairs what differs"},

		{name: "buckets", fallback: "4", of: serve, limit: integer(1, MaxBuckets),
			help: "number of parts of the timeline; tarry rebucket changes it once there is one in Redis"},
		{name: "claim.batch", fallback: "500", of: serve, limit: integer(1, 2000),
			help: "messages that the leader claims from a bucket at once"},
		{name: "claim.bytes", fallback: "8MiB", of: serve, limit: size(mib, 256*mib),
			help: "bytes that the leader claims from a bucket at once"},
		{name: "publish.timeout", fallback: "2s", of: serve, limit: span(100*time.Millisecond, 20*second),
			help: "how long NATS may take to acknowledge a delivery; at most half of zookeeper.session"},
		{name: "publish.pending", fallback: "8192", of: serve, limit: integer(1, 65536),
			help: "deliveries that may wait for NATS's acknowledgement at once"},
		{name: "webhook.allow", of: serve | dev, limit: several{of: network(), max: 64},
			help: "addresses and networks to which webhooks may post although they are not public"},
		{name: "retry", computed: "0,0,2m,10m,10m,1h,2h,6h,15h", of: serve | dev, limit: schedule(),
			help: "when a message that a consumer sent back is delivered again, if neither the message nor its topic " +
				"has a schedule; after the last delay it is dead"},
		{name: "dead.keep", fallback: "0", of: serve | dev, limit: lasting(hour, 100*365*24*hour, "ever"),
			help: "how long dead messages are kept"},
		{name: "attempts.limit", fallback: "5", of: serve, limit: integer(1, 1000),
			help: "permanent NATS refusals before a message without a retry schedule, its own or its topic's, is dead"},
		{name: "ended.keep", fallback: "10m", of: serve, limit: span(leastEnded, 24*hour),
			help: "how long the end of a message is remembered, for retries of its push and late cancels"},
		{name: "names.keep", fallback: "168h", of: serve, limit: lasting(hour, 100*365*24*hour, "none"),
			help: "with the journal on: how long after its end a message is recognized by its name; at most " +
				"journal.keep; with 0, as without a journal"},
		{name: "stop.timeout", fallback: "10s", of: serve, limit: span(100*time.Millisecond, 10*minute),
			help: "how long a graceful stop waits for messages in flight; at least publish.timeout"},

		{name: "log.level", fallback: "info", of: serve | dev | migrate,
			limit: choice{"trace", "debug", "info", "warn", "error"},
			help:  "lowest severity that is logged"},
		{name: "log.format", fallback: "auto", of: serve | dev | migrate, limit: choice{"auto", "json", "console"},
			help: "json for machines, console for people; auto is console on a terminal, else json"},

		{name: "server", fallback: "http://127.0.0.1:7070", of: client, limit: webURL(),
			help: "HTTP address of an instance, or of a proxy in front of several; if it is not set and the " +
				"environment or the file has http.listen of tarry serve, that address, by https if http.tls.cert is " +
				"set"},
		{name: "token", secret: true, of: client, limit: token(1, 512),
			help: "the http.token of that instance"},
		{name: "tls.ca", of: client, limit: readableFile(),
			help: "PEM file of the authority of the https server's certificate, in place of the system's"},
		{name: "tls.cert", of: client, limit: readableFile(),
			help: "PEM file of the certificate to present to a server that asks for one; needs tls.key"},
		{name: "tls.key", of: client, limit: readableFile(),
			help: "PEM file of the certificate's key"},
		{name: "tls.server_name", of: client, limit: hostName(),
			help: "name that the server's certificate must have, if that is not the host in server"},
		{name: "json", fallback: "false", of: client, limit: toggle{},
			help: "print JSON for machines"},
		{name: "timeout", fallback: "10s", of: client, limit: span(100*time.Millisecond, 10*minute),
			help: "how long one call may take"},
	}
}
