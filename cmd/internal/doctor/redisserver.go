package doctor

import (
	"cmp"
	"context"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/store/timeline"
)

// closed is the finding for a setting that only CONFIG shows.
const closed = "CONFIG is forbidden here, as on most managed Redis"

// redisRules hold the INFO and the CONFIG of a server that holds messages. means is what the settings make of it:
// standalone, cluster or sentinel. CONFIG is open or closed.
var redisRules = []rule{
	{"mode", "redis_mode=sentinel", Fail, "it is a Sentinel, not a server that holds data", sentinelHint},
	{"mode", "redis_mode=cluster means=standalone", Fail,
		"it is a node of a Cluster, but one address in redis.addrs means a single server",
		"name at least two nodes of the Cluster in redis.addrs"},
	{"mode", "redis_mode=cluster means=sentinel", Fail,
		"it is a node of a Cluster, but redis.master means Sentinels",
		"remove redis.master and name the Cluster's nodes in redis.addrs"},

	{"version", "redis_version<6.2", Fail, "{redis_version}",
		"upgrade Redis to 6.2 or later: tarry serve does not start on this one"},
	{"version", "", OK, "{redis_version}", ""},

	{"role", "loading=1", Fail, "it is loading its data", "wait until it has loaded them"},
	{"role", "role!=master", Fail, "it is a {role} of {master_host}:{master_port}",
		"point redis.addrs at the master, or have Sentinels find it: " + sentinelHint},
	{"role", "", OK, "master", ""},

	// With yes, the default, a node of a Cluster serves no slot once one slot has no node.
	{"full coverage", "redis_mode=cluster CONFIG=closed", Unknown, closed,
		"make sure that cluster-require-full-coverage is no; otherwise the loss of one node stops every bucket"},
	{"full coverage", "redis_mode=cluster cluster-require-full-coverage=", Unknown,
		"Redis does not show its cluster-require-full-coverage",
		"make sure that it is no; otherwise the loss of one node stops every bucket"},
	{"full coverage", "redis_mode=cluster cluster-require-full-coverage!=no", Warn,
		"cluster-require-full-coverage {cluster-require-full-coverage}",
		"cluster-require-full-coverage no in redis.conf of every node, and CONFIG SET cluster-require-full-coverage no " +
			"for now: with yes, the loss of one node stops every bucket, not only the buckets of that node"},
	{"full coverage", "redis_mode=cluster", OK, "cluster-require-full-coverage no", ""},

	{"eviction", "maxmemory-policy=", Unknown, "Redis does not show its maxmemory-policy",
		"make sure that it is noeviction"},
	{"eviction", "maxmemory-policy!=noeviction", Fail, "maxmemory-policy {maxmemory-policy}",
		"maxmemory-policy noeviction in redis.conf, and CONFIG SET maxmemory-policy noeviction for now: with this " +
			"policy, Redis deletes waiting messages when its memory is full"},
	{"eviction", "", OK, "maxmemory-policy noeviction", ""},

	{"append-only file", "aof_enabled=1", OK, "on", ""},
	{"append-only file", "journal.mode=off", Warn,
		"off, and so is the journal: a restart of Redis loses waiting messages, and all of them if there is no snapshot",
		"appendonly yes in redis.conf, and CONFIG SET appendonly yes for now; or set journal.mode"},
	{"append-only file", "journal.mode=async", Warn,
		"off: a restart of Redis loses the changes that were not in the journal yet",
		"appendonly yes in redis.conf, and CONFIG SET appendonly yes for now, or journal.mode sync"},
	{"append-only file", "", OK, "off; after a restart of Redis, everything is restored from the journal", ""},

	{"appendfsync", "aof_enabled=1 CONFIG=closed", Unknown, closed, "make sure that it is everysec or always"},
	{"appendfsync", "aof_enabled=1 appendfsync=no", Warn,
		"no: the kernel decides when to write, and a power failure loses up to half a minute of pushes",
		"appendfsync everysec, or always"},
	{"appendfsync", "aof_enabled=1 appendfsync=everysec no-appendfsync-on-rewrite=yes", Warn,
		"everysec, but not while the file is rewritten (no-appendfsync-on-rewrite yes): a power failure then loses minutes",
		"no-appendfsync-on-rewrite no"},
	{"appendfsync", "aof_enabled=1 appendfsync=everysec journal.mode!=sync", OK,
		"everysec: a power failure loses the pushes of the last second or two; with always it loses none", ""},
	{"appendfsync", "aof_enabled=1", OK, "{appendfsync}", ""},

	{"disk", "aof_enabled=1 aof_last_write_status!=ok", Fail,
		"the last write to the append-only file failed ({aof_last_write_status}): Redis refuses pushes",
		"make room on Redis's disk, or repair it"},
	{"disk", "rdb_last_bgsave_status=err CONFIG=closed", Fail, snapshotFailed, snapshotChange},
	{"disk", "rdb_last_bgsave_status=err stop-writes-on-bgsave-error=yes save!=", Fail, snapshotFailed, snapshotChange},
	{"disk", "rdb_last_bgsave_status=err", Warn, "the last snapshot failed", snapshotChange},
	{"disk", "aof_last_bgrewrite_status=err", Warn,
		"the last rewrite of the append-only file failed, so it grows without end",
		"make room on Redis's disk; the reason is in Redis's log"},
	{"disk", "", OK, "Redis's last writes succeeded", ""},

	{"replicas", "connected_slaves=0| means!=standalone", Warn, "none: no other server has these messages",
		"give this master a replica"},
	{"replicas", "connected_slaves>0 aof_enabled!=1 CONFIG=open save=", Warn,
		"{connected_slaves} connected to a master that writes nothing to its disk (no append-only file, no save): if it " +
			"restarts automatically, it comes back empty, and then the replicas delete their data too",
		"appendonly yes on the master, or disable its automatic restart"},
	{"replicas", "connected_slaves>0", OK, "{connected_slaves} connected", ""},

	{"min-replicas-to-write", "min-replicas-to-write>{min_slaves_good_slaves}", Fail,
		"{min-replicas-to-write} required and {min_slaves_good_slaves} in step: Redis refuses every push",
		"bring the replicas back, or lower min-replicas-to-write"},
	{"min-replicas-to-write", "connected_slaves>0 CONFIG=closed", Unknown, closed,
		"with the journal off, a value of 1 or more limits what a failover loses"},
	{"min-replicas-to-write", "connected_slaves>0 min-replicas-to-write>0", OK,
		"{min-replicas-to-write}: it limits what a failover loses; only with journal.mode sync a failover loses nothing",
		""},
	{"min-replicas-to-write", "connected_slaves>0 journal.mode=off", Warn,
		"0: a master that has lost its replicas still accepts pushes, and the failover loses them all (11,010 of 36,828 " +
			"pushes in a test)",
		"min-replicas-to-write 1 and min-replicas-max-lag 2; to lose nothing, journal.mode sync"},
	{"min-replicas-to-write", "connected_slaves>0", OK,
		"0; what a failover loses is restored from the journal, as far as the journal has it", ""},
}

const (
	snapshotFailed = "the last snapshot failed, and with stop-writes-on-bgsave-error Redis refuses every push"
	snapshotChange = "make room on Redis's disk or memory for the fork (vm.overcommit_memory 1); the reason is in " +
		"Redis's log"
)

func (p *patient) redisServer(ctx context.Context, addr string) ([]Check, []reading) {
	n, rdb := p.notes("redis", addr), p.dialRedis(addr)
	defer rdb.Close()
	f, err := p.info(ctx, rdb)
	if err != nil {
		n.broken("reachable", err, redisChange(err))
		return n.checks, nil
	}
	n.ok("reachable", "Redis %s, %s", f["redis_version"], f["redis_mode"])
	if f["redis_mode"] == string(sentinel) {
		n.apply(redisRules[:1], f)
		return n.checks, nil
	}
	p.redisConfig(ctx, rdb, f)
	n.apply(redisRules, f.with("means", string(p.redisMode()), "journal.mode", p.cfg.Journal.Mode))
	p.redisRights(ctx, n, rdb)
	return n.checks, redisClock(ctx, p, addr, rdb)
}

// info asks for everything that INFO has.
func (p *patient) info(ctx context.Context, rdb redis.UniversalClient) (facts, error) {
	call, cancel := p.within(ctx)
	defer cancel()
	text, err := rdb.Info(call, "everything").Result()
	return timeline.ParseInfo(text), err
}

func redisChange(err error) string {
	switch word, _, _ := strings.Cut(err.Error(), " "); {
	case word == "WRONGPASS" || word == "NOAUTH" || strings.Contains(err.Error(), "invalid password") ||
		strings.Contains(err.Error(), "without any password"):
		return "correct redis.username and redis.password"
	case word == "NOPERM":
		return "let the user call the commands that tarry needs: ACL SETUSER … +@all -@dangerous +info, see the check rights"
	case word == "LOADING":
		return "wait until Redis has loaded its data"
	}
	return "start Redis, open the port, or correct redis.addrs (and redis.tls if only one side speaks TLS)"
}

// redisConfig adds what INFO does not show.
func (p *patient) redisConfig(ctx context.Context, rdb redis.UniversalClient, f facts) {
	config := map[string]string{"CONFIG": "open"}
	for _, name := range []string{"appendfsync", "save", "maxmemory-policy", "stop-writes-on-bgsave-error",
		"min-replicas-to-write", "no-appendfsync-on-rewrite", "cluster-require-full-coverage"} {
		call, cancel := p.within(ctx)
		values, err := rdb.ConfigGet(call, name).Result()
		cancel()
		if err != nil {
			config = map[string]string{"CONFIG": "closed"}
			break
		}
		maps.Copy(config, values)
	}
	maps.Copy(f, config)
	f["maxmemory-policy"] = cmp.Or(f["maxmemory_policy"], f["maxmemory-policy"])
}

func redisClock(ctx context.Context, p *patient, addr string, rdb redis.UniversalClient) (readings []reading) {
	for range 3 {
		call, cancel := p.within(ctx)
		sent := time.Now()
		now, err := rdb.Time(call).Result()
		got := time.Now()
		cancel()
		if err != nil {
			break
		}
		readings = append(readings, read("redis "+addr, now, sent, got))
	}
	return readings
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
