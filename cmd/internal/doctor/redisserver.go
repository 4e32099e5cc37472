package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/store/timeline"
)

// redisSeen is one server that holds messages.
type redisSeen struct {
	*patient
	*notes

	addr   string
	rdb    redis.UniversalClient
	info   map[string]string
	config map[string]string // nil where CONFIG is forbidden
}

// closed stands for a setting that only CONFIG shows.
const closed = "CONFIG is forbidden here, as on most managed Redis"

func (p *patient) redisServer(ctx context.Context, addr string) ([]Check, []reading) {
	r := &redisSeen{patient: p, notes: p.notes("redis", addr), addr: addr, rdb: p.dialRedis(addr)}
	defer r.rdb.Close()
	if !r.reach(ctx) {
		return r.checks, nil
	}
	r.readConfig(ctx)
	r.version()
	r.role()
	r.coverage()
	r.memory()
	r.persistence()
	r.replication()
	r.rights(ctx)
	r.latency(ctx)
	r.neighbours(ctx)
	return r.checks, r.clock(ctx)
}

// reach asks for everything that INFO has; false where nothing more can be asked.
func (r *redisSeen) reach(ctx context.Context) bool {
	call, cancel := r.within(ctx)
	defer cancel()
	text, err := r.rdb.Info(call, "everything").Result()
	if err != nil {
		change := "start Redis, open the port, or correct redis.addrs (and redis.tls where one side speaks TLS)"
		switch word, _, _ := strings.Cut(err.Error(), " "); {
		case word == "WRONGPASS" || word == "NOAUTH" || strings.Contains(err.Error(), "invalid password") ||
			strings.Contains(err.Error(), "without any password"):
			change = "correct redis.username and redis.password"
		case word == "NOPERM":
			change = "give the user the commands that tarry needs: ACL SETUSER … +@all -@dangerous +info, see the " +
				"check rights"
		case word == "LOADING":
			change = "wait until Redis has loaded its data"
		}
		r.broken("reachable", err, change)
		return false
	}
	r.info = timeline.ParseInfo(text)
	mode := r.info["redis_mode"]
	r.ok("reachable", "Redis %s, %s", r.info["redis_version"], mode)
	switch want := r.redisMode(); {
	case mode == string(sentinel):
		r.fail("mode", "it is a Sentinel, not a server that holds data", sentinelHint)
		return false
	case mode == string(cluster) && want == single:
		r.fail("mode", "it is a node of a Cluster, and one address in redis.addrs means a single server",
			"name two nodes of the Cluster at least in redis.addrs")
		return true
	case mode == string(cluster) && want == sentinel:
		r.fail("mode", "it is a node of a Cluster, and redis.master means Sentinels",
			"leave redis.master out and name the Cluster's nodes in redis.addrs")
	}
	return true
}

// readConfig asks for what INFO does not show.
func (r *redisSeen) readConfig(ctx context.Context) {
	config := map[string]string{}
	for _, name := range []string{"appendfsync", "save", "maxmemory-policy", "stop-writes-on-bgsave-error",
		"min-replicas-to-write", "no-appendfsync-on-rewrite", "cluster-require-full-coverage"} {
		call, cancel := r.within(ctx)
		values, err := r.rdb.ConfigGet(call, name).Result()
		cancel()
		if err != nil {
			return
		}
		maps.Copy(config, values)
	}
	r.config = config
}

func (r *redisSeen) version() {
	change := ""
	if !timeline.AtLeast(r.info["redis_version"], 6, 2) {
		change = "upgrade Redis to 6.2 or later: tarry serve does not start on this one"
	}
	r.judge(Fail, "version", r.info["redis_version"], change)
}

func (r *redisSeen) role() {
	if r.info["loading"] == "1" {
		r.fail("role", "it is loading its data", "wait until it has")
		return
	}
	if role := r.info["role"]; role != "master" {
		r.fail("role", fmt.Sprintf("it is a %s of %s:%s", role, r.info["master_host"], r.info["master_port"]),
			"point redis.addrs at the master, or have Sentinels find it: "+sentinelHint)
		return
	}
	r.ok("role", "master")
}

// fullWarn is the percentage from which a limit counts as near.
const fullWarn = 75

// coverage looks whether a node of a Cluster goes on while others are away. With yes, which is the default, Redis
// serves no slot at all once one is served by nobody.
func (r *redisSeen) coverage() {
	if r.info["redis_mode"] != string(cluster) {
		return
	}
	const setting = "cluster-require-full-coverage"
	switch value := r.config[setting]; value {
	case "no":
		r.ok("full coverage", "%s no", setting)
	case "":
		r.unknown("full coverage", closed,
			"make sure that "+setting+" is no, else the loss of one node stops every bucket")
	default:
		r.warn("full coverage", setting+" "+value, setting+" no in redis.conf of every node, and CONFIG SET "+setting+
			" no for now: with this one the loss of one node stops every bucket, and not its own alone")
	}
}

func (r *redisSeen) memory() {
	policy := r.info["maxmemory_policy"]
	if policy == "" {
		policy = r.config["maxmemory-policy"]
	}
	change := ""
	if policy != "noeviction" {
		change = "maxmemory-policy noeviction in redis.conf, and CONFIG SET maxmemory-policy noeviction for now: " +
			"with this one Redis throws away waiting messages when its memory is full"
	}
	if policy == "" {
		r.unknown("eviction", "Redis does not show its maxmemory-policy", "make sure that it is noeviction")
	} else {
		r.judge(Fail, "eviction", "maxmemory-policy "+policy, change)
	}

	used, most := number(r.info["used_memory"]), number(r.info["maxmemory"])
	machine := number(r.info["total_system_memory"])
	percent := share(used, most)
	switch {
	case most == 0 && machine > 0 && share(used, machine) > fullWarn:
		r.warn("memory", fmt.Sprintf("%s used, no maxmemory, and the machine has %s", size(used), size(machine)),
			"set maxmemory below what the machine can spare, or add memory: without a limit the kernel kills Redis "+
				"in place of a refusal")
	case most == 0:
		r.ok("memory", "%s used, no maxmemory", size(used))
	case percent > fullWarn:
		r.warn("memory", fmt.Sprintf("%s of %s used, %d %%", size(used), size(most), percent),
			"raise maxmemory or add servers: at the limit pushes are refused until messages have left")
	default:
		r.ok("memory", "%s of %s used, %d %%", size(used), size(most), percent)
	}
	if outbox := r.cfg.Journal.Outbox; r.cfg.Journal.Mode != "off" && most > 0 && outbox > most/2 {
		r.warn("outbox",
			fmt.Sprintf("journal.outbox lets %s wait for the database, of a maxmemory of %s", size(outbox), size(most)),
			"lower journal.outbox or raise maxmemory: while the database is away, changes alone would fill Redis")
	}
}

// persistence is what a restart of Redis leaves.
func (r *redisSeen) persistence() {
	aof := r.info["aof_enabled"] == "1"
	journal := r.cfg.Journal.Mode
	const on = "appendonly yes in redis.conf, and CONFIG SET appendonly yes for now"
	switch {
	case aof:
		r.ok("append-only file", "on")
	case journal == "off":
		r.warn("append-only file", "off, and so is the journal: a restart of Redis loses messages that wait, all of "+
			"them where there is no snapshot either", on+"; or set journal.mode")
	case journal == "async":
		r.warn("append-only file", "off: a restart of Redis loses the changes that the journal had not got yet",
			on+", or journal.mode sync")
	default:
		r.ok("append-only file", "off; after a restart of Redis everything comes from the journal")
	}
	if aof {
		r.fsync(journal)
	}
	r.writes(aof)
}

func (r *redisSeen) fsync(journal string) {
	switch fsync := r.config["appendfsync"]; {
	case r.config == nil:
		r.unknown("appendfsync", closed, "make sure that it is everysec or always")
	case fsync == "no":
		r.warn("appendfsync",
			"no: the kernel writes when it likes, and a power cut loses up to half a minute of pushes",
			"appendfsync everysec, or always")
	case fsync == "everysec" && r.config["no-appendfsync-on-rewrite"] == "yes":
		r.warn("appendfsync", "everysec, but not while the file is rewritten (no-appendfsync-on-rewrite yes): a "+
			"power cut then loses minutes", "no-appendfsync-on-rewrite no")
	case fsync == "everysec" && journal != "sync":
		r.ok("appendfsync", "everysec: a power cut loses the pushes of the last second or two; always loses none")
	default:
		r.ok("appendfsync", "%s", fsync)
	}
}

// writes is whether the disk takes what Redis writes.
func (r *redisSeen) writes(aof bool) {
	if status := r.info["aof_last_write_status"]; aof && status != "ok" {
		r.fail("disk", "the last write to the append-only file failed ("+status+"): Redis refuses pushes",
			"make room on Redis's disk, or mend it")
		return
	}
	if r.info["rdb_last_bgsave_status"] == "err" {
		stops := r.config["stop-writes-on-bgsave-error"]
		snapshots := r.config["save"]
		switch {
		case r.config == nil || stops == "yes" && snapshots != "":
			r.fail("disk", "the last snapshot failed, and with stop-writes-on-bgsave-error Redis refuses every push",
				"make room on Redis's disk or memory for the fork (vm.overcommit_memory 1); the reason is in "+
					"Redis's log")
		default:
			r.warn("disk", "the last snapshot failed", "make room on Redis's disk or memory for the fork "+
				"(vm.overcommit_memory 1); the reason is in Redis's log")
		}
		return
	}
	if r.info["aof_last_bgrewrite_status"] == "err" {
		r.warn("disk", "the last rewrite of the append-only file failed, so it grows without end",
			"make room on Redis's disk; the reason is in Redis's log")
		return
	}
	r.ok("disk", "Redis's last writes succeeded")
}

func (r *redisSeen) replication() {
	replicas := int(number(r.info["connected_slaves"]))
	if replicas == 0 {
		if r.redisMode() != single {
			r.warn("replicas", "none: no other server has these messages", "give this master a replica")
		}
	} else {
		r.replicas(replicas)
	}
	if least := number(r.config["min-replicas-to-write"]); least > 0 &&
		number(r.info["min_slaves_good_slaves"]) < least {
		r.fail("min-replicas-to-write", fmt.Sprintf("%d asked for and %d in step: Redis refuses every push", least,
			number(r.info["min_slaves_good_slaves"])),
			"bring the replicas back, or lower min-replicas-to-write")
	}
}

func (r *redisSeen) replicas(replicas int) {
	persists := r.info["aof_enabled"] == "1" || r.config["save"] != ""
	if r.config == nil {
		persists = true // not to be known
	}
	if !persists {
		r.warn("replicas", plural(replicas, "replica")+
			" of a master that writes nothing to its disk (no append-only file, no save): when it is restarted by "+
			"itself it comes back empty, and the replicas empty themselves after it",
			"appendonly yes on the master, or have nothing restart it")
	} else {
		r.ok("replicas", "%s connected", plural(replicas, "replica"))
	}
	least := number(r.config["min-replicas-to-write"])
	switch {
	case r.config == nil:
		r.unknown("min-replicas-to-write", closed, "with the journal off, 1 or more bounds what a failover loses")
	case least > 0:
		r.ok("min-replicas-to-write",
			"%d: it bounds what a failover loses, which only journal.mode sync makes nothing", least)
	case r.cfg.Journal.Mode == "off":
		r.warn("min-replicas-to-write", "0: a master that lost its replicas goes on answering, and the failover "+
			"loses all of it (11,010 of 36,828 pushes in a test)",
			"min-replicas-to-write 1 and min-replicas-max-lag 2; to lose nothing, journal.mode sync")
	default:
		r.ok("min-replicas-to-write", "0; what a failover loses comes back from the journal, as far as it had it")
	}
}

func (r *redisSeen) latency(ctx context.Context) {
	call, cancel := r.within(ctx)
	defer cancel()
	took, err := median(func() error { return r.rdb.Time(call).Err() }) // PING is refused where the disk is full
	limit := r.call()
	switch {
	case err != nil:
		r.broken("latency", err, "look at the network and at Redis's slow log")
	case took > limit/2:
		r.fail("latency", fmt.Sprintf("a round trip takes %s, and tarry gives a call %s", round(took), limit),
			"bring Redis nearer, or find what holds it up (SLOWLOG GET, LATENCY DOCTOR)")
	case took > 20*time.Millisecond:
		r.warn("latency", fmt.Sprintf("a round trip takes %s", round(took)), "bring Redis nearer, or find what holds "+
			"it up (SLOWLOG GET, LATENCY DOCTOR): every message pays for several")
	default:
		r.ok("latency", "a round trip takes %s", round(took))
	}
}

// neighbours names other namespaces on this server. It looks at a bounded number of keys: a shared Redis may have many.
func (r *redisSeen) neighbours(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, min(r.timeout, time.Second))
	defer cancel()
	found := map[string]bool{}
	cursor, whole := uint64(0), false
	for range 100 {
		keys, next, err := r.rdb.Scan(call, cursor, "{*}:meta", 1000).Result()
		if err != nil {
			break
		}
		for _, key := range keys {
			if name := strings.TrimSuffix(strings.TrimPrefix(key, "{"), "}:meta"); name != r.cfg.Namespace &&
				!strings.Contains(name, ":") {
				found[name] = true
			}
		}
		if cursor = next; cursor == 0 {
			whole = true
			break
		}
	}
	text := "no other"
	if len(found) > 0 {
		text = "others here: " + shorten(slices.Collect(maps.Keys(found)))
	}
	if !whole {
		text += ", of the part of the keys that was looked at"
	}
	r.ok("namespaces", "%s", text)
}

func (r *redisSeen) clock(ctx context.Context) []reading {
	var readings []reading
	for range 3 {
		call, cancel := r.within(ctx)
		sent := time.Now()
		now, err := r.rdb.Time(call).Result()
		got := time.Now()
		cancel()
		if err != nil {
			break
		}
		readings = append(readings, read("redis "+r.addr, now, sent, got))
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
