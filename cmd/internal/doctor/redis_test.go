package doctor_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/cmd/internal/doctor"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/store/timeline"
)

func TestRedis_ThatEvictsAndForgets(t *testing.T) {
	t.Parallel()
	server := lab.NewRedis(t, "--maxmemory-policy", "allkeys-lru", "--appendonly", "no")
	s := healthy(t)
	s["REDIS_ADDRS"], s["JOURNAL_MODE"] = server.Addr, "off"
	s.diagnosis(t).fails("redis eviction").warns("redis append-only file", "zookeeper ensemble").
		has(doctor.Fail, "redis", "eviction", "allkeys-lru", "noeviction").has(
		doctor.Warn, "redis", "append-only file", "loses waiting messages", "appendonly yes")

	s["JOURNAL_MODE"] = "async"
	s.diagnosis(t).warns("redis append-only file", "zookeeper ensemble").
		has(doctor.Warn, "redis", "append-only file", "changes that were not in the journal yet")
	s["JOURNAL_MODE"] = "sync"
	s.diagnosis(t).warns("zookeeper ensemble").has(doctor.OK, "redis", "append-only file",
		"everything is restored from the journal")
}

func TestRedis_ThatSyncsWhenItLikes(t *testing.T) {
	t.Parallel()
	server := lab.NewRedis(t, "--appendfsync", "no")
	s := healthy(t)
	s["REDIS_ADDRS"] = server.Addr
	s.diagnosis(t).fails().has(doctor.Warn, "redis", "appendfsync", "power failure", "everysec")
	if err := dialRedis(t, server.Addr).ConfigSet(t.Context(), "appendfsync", "everysec").Err(); err != nil {
		t.Fatal(err)
	}
	if err := dialRedis(t, server.Addr).ConfigSet(t.Context(), "no-appendfsync-on-rewrite", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	s.diagnosis(t).has(doctor.Warn, "redis", "appendfsync", "no-appendfsync-on-rewrite no")
}

// A snapshot that cannot be written makes Redis refuse every push.
func TestRedis_ThatStoppedWrites(t *testing.T) {
	t.Parallel()
	server := lab.NewRedis(t, "--save", "3600 1", "--dbfilename", "dump.rdb")
	rdb := dialRedis(t, server.Addr)
	if err := os.Mkdir(filepath.Join(server.Dir(), "dump.rdb"), 0o700); err != nil { // nothing can be renamed to it
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(filepath.Join(server.Dir(), "dump.rdb")) }) // else Redis does not stop
	if err := rdb.BgSave(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, 10*time.Second, func() error {
		info, err := rdb.Info(t.Context(), "persistence").Result()
		if err == nil && !strings.Contains(info, "rdb_last_bgsave_status:err") {
			err = os.ErrNotExist
		}
		return err
	})
	s := healthy(t)
	s["REDIS_ADDRS"] = server.Addr
	s.diagnosis(t).fails("redis disk").has(doctor.Fail, "redis", "disk", "refuses every push")
}

func TestRedis_ThatIsAReplicaOrHasOnesItWillEmpty(t *testing.T) {
	t.Parallel()
	master := lab.NewRedis(t, "--appendonly", "no", "--shutdown-timeout", "0")
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		t.Fatal(err)
	}
	replica := lab.NewRedis(t, "--replicaof", host+" "+port)
	lab.Eventually(t, 20*time.Second, func() error {
		info, err := dialRedis(t, replica.Addr).Info(t.Context(), "replication").Result()
		if err == nil && !strings.Contains(info, "master_link_status:up") {
			err = os.ErrNotExist
		}
		return err
	})
	s := healthy(t)
	s["REDIS_ADDRS"] = replica.Addr
	s.diagnosis(t).fails("redis role").has(doctor.Fail, "redis", "role", "slave of "+master.Addr)

	s["REDIS_ADDRS"], s["JOURNAL_MODE"] = master.Addr, "off"
	s.diagnosis(t).fails().warns(
		"redis append-only file", "redis replicas", "redis min-replicas-to-write", "zookeeper ensemble").
		has(doctor.Warn, "redis", "replicas", "comes back empty", "appendonly yes").has(doctor.Warn, "redis",
		"min-replicas-to-write", "min-replicas-max-lag")
	if err := dialRedis(t, master.Addr).ConfigSet(t.Context(), "min-replicas-to-write", "2").Err(); err != nil {
		t.Fatal(err)
	}
	s.diagnosis(t).fails("redis min-replicas-to-write").has(doctor.Fail, "redis", "min-replicas-to-write",
		"refuses every push")
}

func TestRedis_WhoseUserMayNotDoIt(t *testing.T) {
	t.Parallel()
	server := lab.NewRedis(t)
	rdb := dialRedis(t, server.Addr)
	s := healthy(t)
	ns := s["NAMESPACE"]
	s["REDIS_ADDRS"], s["REDIS_USERNAME"], s["REDIS_PASSWORD"] = server.Addr, "tarry", "a-password"
	acl := func(rules ...string) {
		t.Helper()
		args := []any{"ACL", "SETUSER", "tarry", "reset", "on", ">a-password"}
		for _, r := range rules {
			args = append(args, r)
		}
		if err := rdb.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	acl("~*", "+@all", "-evalsha", "-xadd") // it may ask
	s.diagnosis(t).fails("redis rights").has(doctor.Fail, "redis", "rights", "user tarry may not call EVALSHA, XADD",
		"ACL SETUSER tarry")
	acl("~other:*", "+@all", "&*")
	s.diagnosis(t).fails("redis rights", "redis buckets")
	acl("~*", "+@read", "+@write", "+@connection", "+info", "+time", "-lpop") // it may not: no EVALSHA
	s.diagnosis(t).fails().has(doctor.Unknown, "redis", "rights", "ACL DRYRUN", "ACL SETUSER tarry").has(doctor.Unknown,
		"redis", "appendfsync", "CONFIG is forbidden")

	// What the advice says is enough, though CONFIG and ACL stay closed.
	if err := rdb.Do(t.Context(), advised(t, ns, "")...).Err(); err != nil {
		t.Fatal(err)
	}
	s.diagnosis(t).fails().has(doctor.Unknown, "redis", "rights").has(
		doctor.Unknown, "redis", "appendfsync").has(doctor.OK, "redis", "eviction")
}

// advised is the user of Redis that the operators' page has, and the doctor advises, with what the page adds.
func advised(t *testing.T, ns, more string) []any {
	t.Helper()
	page, err := os.ReadFile("../../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	_, below, found := strings.Cut(string(page), "\nACL SETUSER tarry reset ")
	line, _, ended := strings.Cut(below, "\n")
	if !found || !ended || !strings.Contains(string(page), more) {
		t.Fatalf("docs/access.md has no user of Redis, or not %q", more)
	}
	line = strings.NewReplacer(">SECRET", ">a-password", "{default", "{"+ns).Replace(line)
	args := []any{"ACL", "SETUSER", "tarry", "reset"}
	for _, word := range strings.Fields(line + " " + more) {
		args = append(args, word)
	}
	return args
}

// With the user that the doctor advises, a timeline works; in a Cluster with what the page adds.
func TestRedis_AdvisedRightsAreEnoughForTheTimeline(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) []string{
		"server":  func(t *testing.T) []string { return []string{lab.NewRedis(t).Addr} },
		"cluster": func(t *testing.T) []string { return lab.NewRedisCluster(t, 3).Addrs() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addrs, more := start(t), ""
			if len(addrs) > 1 {
				more = "+asking +cluster|slots"
			}
			for _, addr := range addrs {
				if err := dialRedis(t, addr).Do(t.Context(), advised(t, "ns", more)...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			rdb := timeline.Dial(
				timeline.DialConfig{Addrs: addrs, Username: "tarry", Password: "a-password", Name: "tarry",
					CallTimeout: time.Second})
			defer rdb.Close()
			store, err := timeline.New(timeline.Config{Client: rdb, Namespace: "ns", Buckets: 4, EndedKeep: time.Minute,
				TombstoneKeep: time.Minute, TombstoneLimit: 10})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := store.MaxTerm(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, addr := range addrs {
				log, err := dialRedis(t, addr).ACLLog(t.Context(), 10).Result()
				if err != nil || len(log) > 0 {
					t.Errorf("%s denied %v, %v", addr, log, err)
				}
			}
		})
	}
}

// Where a Cluster wants all slots served, the loss of one node stops every bucket.
func TestRedis_ClusterThatStopsAsAWhole(t *testing.T) {
	t.Parallel()
	c := lab.NewRedisCluster(t, 3)
	s := healthy(t)
	s["REDIS_ADDRS"] = strings.Join(c.Addrs(), ",")
	s.diagnosis(t).fails().has(doctor.OK, "redis", "full coverage", "cluster-require-full-coverage no")
	last := dialRedis(t, c.Nodes[2].Addr)
	if err := last.ConfigSet(t.Context(), "cluster-require-full-coverage", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	s.diagnosis(t).fails().has(doctor.Warn, "redis", "full coverage", "cluster-require-full-coverage yes",
		"cluster-require-full-coverage no", "every bucket")
	// The finding says what a user who may not ask should make sure of.
	for _, node := range c.Nodes {
		for _, user := range [][]any{advised(t, s.config(t).Namespace, "+asking +cluster|slots"),
			{"ACL", "SETUSER", "tarry", "+cluster|info", "+cluster|nodes"}} {
			if err := dialRedis(t, node.Addr).Do(t.Context(), user...).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	s["REDIS_USERNAME"], s["REDIS_PASSWORD"] = "tarry", "a-password"
	s.diagnosis(t).has(doctor.Unknown, "redis", "full coverage", "CONFIG is forbidden",
		"cluster-require-full-coverage is no")

	for _, one := range healthy(t).diagnosis(t).Checks {
		if one.Name == "full coverage" {
			t.Error("a single server is asked whether it covers all slots")
		}
	}
}

func TestRedis_WhereTheNamespaceIsAnother(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	cfg := s.config(t)
	rdb := timeline.Dial(timeline.DialConfig{Addrs: cfg.Redis.Addrs, DB: 3, CallTimeout: time.Second})
	defer rdb.Close()
	store, err := timeline.New(timeline.Config{Client: rdb, Namespace: cfg.Namespace, Buckets: 4,
		EndedKeep: time.Minute, TombstoneKeep: time.Minute, TombstoneLimit: 10})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	s["REDIS_DB"] = "3"
	s.diagnosis(t).fails().has(doctor.OK, "redis", "key layout").has(doctor.OK, "redis", "buckets", "4")
	s["BUCKETS"] = "8"
	s.diagnosis(t).fails("redis buckets").has(doctor.Fail, "redis", "buckets", "begun with 4", "set buckets to 4")
	if err := rdb.HSet(t.Context(), "{"+cfg.Namespace+"}:meta", "layout", "99").Err(); err != nil {
		t.Fatal(err)
	}
	s["BUCKETS"] = "4"
	s.diagnosis(t).fails("redis key layout").has(doctor.Fail, "redis", "key layout", "layout 99")
}

// What the journal could not hold stands apart until somebody looks at it.
func TestRedis_ThatHoldsWhatTheJournalCouldNot(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s["BUCKETS"] = "4"
	ns, rdb := s["NAMESPACE"], dialRedis(t, s["REDIS_ADDRS"])
	if err := rdb.HSet(t.Context(), "{"+ns+"}:meta", "buckets", "4", "layout", timeline.Layout).Err(); err != nil {
		t.Fatal(err)
	}
	s.diagnosis(t).fails().has(doctor.OK, "redis", "quarantine", "empty")
	add := func(bucket int) {
		t.Helper()
		key := fmt.Sprintf("{%s:%d}:quarantine", ns, bucket)
		if err := rdb.Do(t.Context(), "XADD", key, "*", "entry", "1-1").Err(); err != nil {
			t.Fatal(err)
		}
	}
	add(3)
	add(3)
	s.diagnosis(t).fails().has(doctor.Warn, "redis", "quarantine", "2 in quarantine in '{"+ns+":3}:quarantine';",
		"tarry verify --repair", "redis-cli DEL '{"+ns+":3}:quarantine'")
	add(1)
	s.diagnosis(t).has(doctor.Warn, "redis", "quarantine",
		"3 in quarantine in '{"+ns+":1}:quarantine', '{"+ns+":3}:quarantine'",
		"redis-cli DEL '{"+ns+":1}:quarantine' and the same for the others")
	s["BUCKETS"] = "8" // then it is another thing that is wrong
	s.diagnosis(t).fails("redis buckets")
	if err := rdb.Set(t.Context(), "{"+ns+":0}:quarantine", "no stream", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s["BUCKETS"] = "4"
	s.diagnosis(t).fails().has(doctor.Unknown, "redis", "quarantine", "could not be checked")
}

func TestRedis_OfAnotherKindThanTheSettings(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	plain := s["REDIS_ADDRS"]
	s["REDIS_ADDRS"] = plain + "," + nobody(t)
	s.diagnosis(t).fails("redis cluster").has(doctor.Fail, "redis", "cluster", "single server")

	s["REDIS_ADDRS"], s["REDIS_MASTER"] = plain, "main"
	s.diagnosis(t).fails("redis reachable").has(doctor.Fail, "redis", "reachable", "not a Sentinel")

	node := lab.NewRedis(t, "--cluster-enabled", "yes")
	s["REDIS_ADDRS"], s["REDIS_MASTER"] = node.Addr, ""
	s.diagnosis(t).has(doctor.Fail, "redis", "mode", "node of a Cluster")
	s["REDIS_ADDRS"] = node.Addr + "," + nobody(t)
	s.diagnosis(t).fails("redis cluster").has(doctor.Fail, "redis", "cluster", "0 of 16384")
	if err := dialRedis(t, node.Addr).ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, 10*time.Second, func() error {
		info, err := dialRedis(t, node.Addr).ClusterInfo(t.Context()).Result()
		if err == nil && !strings.Contains(info, "cluster_state:ok") {
			err = os.ErrNotExist
		}
		return err
	})
	s.diagnosis(t).fails().has(doctor.OK, "redis", "cluster", "1 master").has(doctor.Warn, "redis", "replicas",
		"no other server")
}

func TestRedis_FoundThroughSentinels(t *testing.T) {
	t.Parallel()
	master := lab.NewRedis(t)
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	addr := nobody(t)
	_, own, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	text := "port " + own + "\nbind 127.0.0.1\nsentinel monitor main " + host + " " + port + " 1\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	lab.Start(t, "sentinel", nil, "redis-server", conf, "--sentinel")
	s := healthy(t)
	s["REDIS_ADDRS"], s["REDIS_MASTER"] = addr, "main"
	lab.Eventually(t, 10*time.Second, func() error { return dialRedis(t, addr).Ping(t.Context()).Err() })
	s.diagnosis(t).fails().warns("redis reachable", "redis sentinels named", "redis replicas", "zookeeper ensemble").
		has(doctor.Warn, "redis", "reachable", "it knows 0 other Sentinels", master.Addr, "three Sentinels").has(
		doctor.OK, "redis", "role", "master")
	s["REDIS_MASTER"] = "other"
	s.diagnosis(t).fails("redis reachable").has(doctor.Fail, "redis", "reachable", `no group "other"`)
	s["REDIS_ADDRS"], s["REDIS_MASTER"] = addr, ""
	s.diagnosis(t).has(doctor.Fail, "redis", "mode", "it is a Sentinel")
}
