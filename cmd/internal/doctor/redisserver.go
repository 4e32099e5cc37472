package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
	config map[string]string // nil if CONFIG is forbidden
}

// closed is the finding for a setting that only CONFIG shows.
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
	return r.checks, r.clock(ctx)
}

// reach asks for everything that INFO has. It returns false if nothing more can be checked.
func (r *redisSeen) reach(ctx context.Context) bool {
	call, cancel := r.within(ctx)
	defer cancel()
	text, err := r.rdb.Info(call, "everything").Result()
	if err != nil {
		change := "start Redis, open the port, or correct redis.addrs (and redis.tls if only one side speaks TLS)"
		switch word, _, _ := strings.Cut(err.Error(), " "); {
		case word == "WRONGPASS" || word == "NOAUTH" || strings.Contains(err.Error(), "invalid password") ||
			strings.Contains(err.Error(), "without any password"):
			change = "correct redis.username and redis.password"
		case word == "NOPERM":
			change = "let the user call the commands that tarry needs: ACL SETUSER … +@all -@dangerous +info, see " +
				"the check rights"
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
		r.fail("mode", "it is a node of a Cluster, but one address in redis.addrs means a single server",
			"name at least two nodes of the Cluster in redis.addrs")
		return true
	case mode == string(cluster) && want == sentinel:
		r.fail("mode", "it is a node of a Cluster, but redis.master means Sentinels",
			"remove redis.master and name the Cluster's nodes in redis.addrs")
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
		r.fail("role", "it is loading its data", "wait until it has loaded them")
		return
	}
	if role := r.info["role"]; role != "master" {
		r.fail("role", fmt.Sprintf("it is a %s of %s:%s", role, r.info["master_host"], r.info["master_port"]),
			"point redis.addrs at the master, or have Sentinels find it: "+sentinelHint)
		return
	}
	r.ok("role", "master")
}

// fullWarn is the percentage of a limit above which the doctor warns.
const fullWarn = 75

// coverage checks whether a node of a Cluster still serves its slots if others are down. With yes, which is the
// default, Redis serves no slot once one slot has no node.
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
			"make sure that "+setting+" is no; otherwise the loss of one node stops every bucket")
	default:
		r.warn("full coverage", setting+" "+value, setting+" no in redis.conf of every node, and CONFIG SET "+setting+
			" no for now: with yes, the loss of one node stops every bucket, not only the buckets of that node")
	}
}

func (r *redisSeen) memory() {
	policy := cmp.Or(r.info["maxmemory_policy"], r.config["maxmemory-policy"])
	change := ""
	if policy != "noeviction" {
		change = "maxmemory-policy noeviction in redis.conf, and CONFIG SET maxmemory-policy noeviction for now: " +
			"with this policy, Redis deletes waiting messages when its memory is full"
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
			"set maxmemory below what the machine can spare, or add memory: without a limit, Redis does not refuse "+
				"pushes, and the kernel kills it")
	case most == 0:
		r.ok("memory", "%s used, no maxmemory", size(used))
	case percent > fullWarn:
		r.warn("memory", fmt.Sprintf("%s of %s used, %d %%", size(used), size(most), percent),
			"raise maxmemory or add servers: at the limit, pushes are refused until messages have left")
	default:
		r.ok("memory", "%s of %s used, %d %%", size(used), size(most), percent)
	}
	if outbox := r.cfg.Journal.Outbox; r.cfg.Journal.Mode != "off" && most > 0 && outbox > most/2 {
		r.warn("outbox",
			fmt.Sprintf("journal.outbox lets up to %s wait for the database, and maxmemory is "+
				"%s", size(outbox), size(most)),
			"lower journal.outbox or raise maxmemory: while the database does not answer, changes may fill Redis")
	}
}

// persistence checks what a restart of Redis keeps.
func (r *redisSeen) persistence() {
	aof := r.info["aof_enabled"] == "1"
	journal := r.cfg.Journal.Mode
	const on = "appendonly yes in redis.conf, and CONFIG SET appendonly yes for now"
	switch {
	case aof:
		r.ok("append-only file", "on")
	case journal == "off":
		r.warn("append-only file", "off, and so is the journal: a restart of Redis loses waiting messages, and all "+
			"of them if there is no snapshot", on+"; or set journal.mode")
	case journal == "async":
		r.warn("append-only file", "off: a restart of Redis loses the changes that were not in the journal yet",
			on+", or journal.mode sync")
	default:
		r.ok("append-only file", "off; after a restart of Redis, everything is restored from the journal")
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
			"no: the kernel decides when to write, and a power failure loses up to half a minute of pushes",
			"appendfsync everysec, or always")
	case fsync == "everysec" && r.config["no-appendfsync-on-rewrite"] == "yes":
		r.warn("appendfsync", "everysec, but not while the file is rewritten (no-appendfsync-on-rewrite yes): a "+
			"power failure then loses minutes", "no-appendfsync-on-rewrite no")
	case fsync == "everysec" && journal != "sync":
		r.ok("appendfsync", "everysec: a power failure loses the pushes of the last second or two; with always it "+
			"loses none")
	default:
		r.ok("appendfsync", "%s", fsync)
	}
}

// writes checks whether Redis can write to its disk.
func (r *redisSeen) writes(aof bool) {
	if status := r.info["aof_last_write_status"]; aof && status != "ok" {
		r.fail("disk", "the last write to the append-only file failed ("+status+"): Redis refuses pushes",
			"make room on Redis's disk, or repair it")
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
		r.fail("min-replicas-to-write", fmt.Sprintf("%d required and %d in step: Redis refuses every push", least,
			number(r.info["min_slaves_good_slaves"])),
			"bring the replicas back, or lower min-replicas-to-write")
	}
}

func (r *redisSeen) replicas(replicas int) {
	persists := r.info["aof_enabled"] == "1" || r.config["save"] != ""
	if r.config == nil {
		persists = true // unknown
	}
	if !persists {
		r.warn("replicas", plural(replicas, "replica")+
			" of a master that writes nothing to its disk (no append-only file, no save): if it restarts "+
			"automatically, it comes back empty, and then the replicas delete their data too",
			"appendonly yes on the master, or disable its automatic restart")
	} else {
		r.ok("replicas", "%s connected", plural(replicas, "replica"))
	}
	least := number(r.config["min-replicas-to-write"])
	switch {
	case r.config == nil:
		r.unknown("min-replicas-to-write", closed, "with the journal off, a value of 1 or more limits what a "+
			"failover loses")
	case least > 0:
		r.ok("min-replicas-to-write",
			"%d: it limits what a failover loses; only with journal.mode sync a failover loses nothing", least)
	case r.cfg.Journal.Mode == "off":
		r.warn("min-replicas-to-write", "0: a master that has lost its replicas still accepts pushes, and the "+
			"failover loses them all (11,010 of 36,828 pushes in a test)",
			"min-replicas-to-write 1 and min-replicas-max-lag 2; to lose nothing, journal.mode sync")
	default:
		r.ok("min-replicas-to-write", "0; what a failover loses is restored from the journal, as far as the journal "+
			"has it")
	}
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
