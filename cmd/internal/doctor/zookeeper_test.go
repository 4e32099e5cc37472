package doctor_test

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/tarry-mq/tarry/cmd/internal/doctor"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/store/timeline"
)

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func dialZK(t *testing.T, addr string) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect([]string{addr}, 5*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func znode(t *testing.T, conn *zk.Conn, path, data string, acl []zk.ACL) {
	t.Helper()
	if _, err := conn.Create(path, []byte(data), 0, acl); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func TestZooKeeper_ThatGrantsAnotherSession(t *testing.T) {
	t.Parallel()
	small := lab.NewZooKeeper(t, lab.ZooKeeperTick(100*time.Millisecond)) // 2 s at most
	s := healthy(t)
	s["ZOOKEEPER_SERVERS"] = small.Addr
	s.diagnosis(t).fails("zookeeper session").has(doctor.Fail, "zookeeper", "session",
		"tarry asked for 6s and the server grants at most 2s", "maxSessionTimeout",
		"lower publish.timeout from 2s to 1s")
	s["ZOOKEEPER_SESSION"], s["PUBLISH_TIMEOUT"] = "2s", "1s"
	s.diagnosis(t).fails().warns("zookeeper ensemble")

	large := lab.NewZooKeeper(t, lab.ZooKeeperConfig("minSessionTimeout=8000"),
		lab.ZooKeeperConfig("4lw.commands.whitelist=mntr"))
	s["ZOOKEEPER_SERVERS"], s["ZOOKEEPER_SESSION"] = large.Addr, "4s"
	s.diagnosis(t).fails("zookeeper session").has(doctor.Fail, "zookeeper", "session", "at least 8s",
		"minSessionTimeout").has(doctor.OK, "zookeeper", "reachable")
}

// A name may have an address at which nobody listens before the one that is served: ::1, then 127.0.0.1.
func TestZooKeeper_ByAName(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s["ZOOKEEPER_SERVERS"] = strings.Replace(s["ZOOKEEPER_SERVERS"], "127.0.0.1", "localhost", 1)
	for range 3 {
		s.diagnosis(t).fails().has(doctor.OK, "zookeeper", "reachable", "it granted a session")
	}
	s["ZOOKEEPER_SERVERS"] = strings.Replace(nobody(t), "127.0.0.1", "localhost", 1)
	s.diagnosis(t).fails("zookeeper reachable").has(doctor.Fail, "zookeeper", "reachable", "refused",
		"correct zookeeper.servers")
}

func TestZooKeeper_InSeveralEnsembles(t *testing.T) {
	t.Parallel()
	ensemble := lab.NewZooKeeperEnsemble(t, 3)
	s := healthy(t)
	s["ZOOKEEPER_SERVERS"] = strings.Join(ensemble.Addrs(), ",")
	s.diagnosis(t).fails().warns().has(doctor.OK, "zookeeper", "ensemble", "3 voting servers, 1 may be lost")

	s["ZOOKEEPER_SERVERS"] = ensemble.Nodes[0].Addr
	s.diagnosis(t).fails().warns("zookeeper ensemble").has(doctor.Warn, "zookeeper", "ensemble",
		"zookeeper.servers names 1")
	s["ZOOKEEPER_SERVERS"] = strings.Join(append(ensemble.Addrs(), lab.SharedZooKeeper(t).Addr), ",")
	s.diagnosis(t).fails("zookeeper ensemble").has(doctor.Fail, "zookeeper", "ensemble", "standalone",
		lab.SharedZooKeeper(t).Addr)

	s["ZOOKEEPER_SERVERS"] = strings.Join(ensemble.Addrs(), ",")
	ensemble.Nodes[0].Kill()
	ensemble.WaitServing()
	s.diagnosis(t).fails().warns("zookeeper reachable", "zookeeper ensemble").has(doctor.Warn, "zookeeper", "ensemble",
		"1 of the named servers down")
	ensemble.Nodes[1].Kill()
	lab.Eventually(t, 20*time.Second, func() error {
		if mode := ensemble.Nodes[2].Mode(); mode != "" {
			return fmt.Errorf("still %s", mode)
		}
		return nil
	})
	s.diagnosis(t).fails("zookeeper reachable").has(doctor.Fail, "zookeeper", "reachable", "majority")
}

func TestZooKeeper_WhoseACLsKeepUsOut(t *testing.T) {
	t.Parallel()
	server := lab.NewZooKeeper(t)
	conn := dialZK(t, server.Addr)
	s := healthy(t)
	s["ZOOKEEPER_SERVERS"], s["NAMESPACE"] = server.Addr, "ns"
	all, own := zk.WorldACL(zk.PermAll), zk.DigestACL(zk.PermAll, "tarry", "a-password")
	znode(t, conn, "/tarry", "", all)
	s.diagnosis(t).fails().has(doctor.OK, "zookeeper", "access", "may make it")
	znode(t, conn, "/tarry/ns", "", own)
	if err := conn.AddAuth("digest", []byte("tarry:a-password")); err != nil {
		t.Fatal(err)
	}
	znode(t, conn, "/tarry/ns/term", "7", own)
	znode(t, conn, "/tarry/ns/instances", "", own)

	s.diagnosis(t).fails("zookeeper access").has(doctor.Fail, "zookeeper", "access", "/tarry/ns")
	s["ZOOKEEPER_USERNAME"], s["ZOOKEEPER_PASSWORD"] = "tarry", "b-password" // ZooKeeper takes any digest
	s.diagnosis(t).fails("zookeeper access").has(doctor.Fail, "zookeeper", "access", "/tarry/ns/term")
	s["ZOOKEEPER_PASSWORD"] = "a-password"
	s.diagnosis(t).fails().has(doctor.OK, "zookeeper", "access", "these credentials may write")

	if _, err := conn.SetACL("/tarry/ns/term", zk.DigestACL(zk.PermRead, "tarry", "a-password"), -1); err != nil {
		t.Fatal(err)
	}
	s.diagnosis(t).fails("zookeeper access").has(doctor.Fail, "zookeeper", "access",
		"/tarry/ns/term (read and write it)")
}

func TestInstances_OfOneNameAndOfUnreachableAddresses(t *testing.T) {
	t.Parallel()
	server := lab.NewZooKeeper(t)
	conn := dialZK(t, server.Addr)
	s := healthy(t)
	s["ZOOKEEPER_SERVERS"], s["NAMESPACE"], s["PEER_ADVERTISE"] = server.Addr, "ns", "127.0.0.1:7070"
	all := zk.WorldACL(zk.PermAll)
	for _, path := range []string{"/tarry", "/tarry/ns", "/tarry/ns/term", "/tarry/ns/instances"} {
		znode(t, conn, path, "0", all)
	}
	register := func(name, address string, healthy bool) {
		t.Helper()
		data, err := json.Marshal(map[string]any{"instance": name, "address": address, "healthy": healthy})
		if err != nil {
			t.Fatal(err)
		}
		znode(t, conn, "/tarry/ns/instances/"+name, string(data), all)
	}
	s.diagnosis(t).fails().has(doctor.OK, "machine", "instances", "none")

	listening, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listening.Close()
	register("one", listening.Addr().String(), true)
	s.diagnosis(t).fails("machine instance").has(doctor.Fail, "machine", "instance",
		"a process at "+listening.Addr().String()+" has registered one,")
	s["PEER_ADVERTISE"] = listening.Addr().String()
	s.diagnosis(t).fails().warns("zookeeper ensemble").has(doctor.OK, "machine", "instance", "one is running").has(
		doctor.OK, "machine", "instances", "1 registered and reached")
	says := func(more string) {
		text := fmt.Sprintf(`{"instance":"one","address":%q,"healthy":true%s}`, listening.Addr(), more)
		if _, err := conn.Set("/tarry/ns/instances/one", []byte(text), -1); err != nil {
			t.Fatal(err)
		}
	}
	says(`,"unready":true,"lacks":"journal, room on the journal's disk","settings":"topics:0","restored":"350 at noon"`)
	s["CLUSTER_INSTANCES"] = "2"
	s.diagnosis(t).fails().has(doctor.Warn, "machine", "settings", "one: topics").has(doctor.Warn, "machine", "instances",
		"one is not ready: journal, room on the journal's disk").has(doctor.Warn, "machine", "losses", "350 at noon")
	says("")
	s.diagnosis(t).fails().has(doctor.Warn, "machine", "instances", "1 of the 2 that cluster.instances names")
	delete(s, "CLUSTER_INSTANCES")
	register("two", nobody(t), true)
	s.diagnosis(t).fails().warns("zookeeper ensemble", "machine peer.advertise", "machine instances").
		has(doctor.Warn, "machine", "peer.advertise", "means those machines").has(doctor.Warn, "machine",
		"instances", "two (127.0.0.1:")
}

// A standby without a link waits for the dead leader's session to expire.
func TestInstances_WithoutALink(t *testing.T) {
	t.Parallel()
	server := lab.NewZooKeeper(t)
	conn := dialZK(t, server.Addr)
	s := healthy(t)
	s["ZOOKEEPER_SERVERS"], s["NAMESPACE"] = server.Addr, "links"
	member := func(name string, linked bool) string {
		return fmt.Sprintf(`{"instance":"%s","address":"127.0.0.1:1","healthy":true,"linked":%t}`, name, linked)
	}
	for _, node := range [][2]string{
		{"/tarry", ""}, {"/tarry/links", ""}, {"/tarry/links/term", "1"}, {"/tarry/links/instances", ""},
		{"/tarry/links/instances/one", member("one", false)}, {"/tarry/links/instances/two", member("two", true)},
		{"/tarry/links/leader", `{"instance":"one"}`},
	} {
		znode(t, conn, node[0], node[1], zk.WorldACL(zk.PermAll))
	}
	s.diagnosis(t).has(doctor.OK, "machine", "links", "every standby", "one, which leads")
	znode(t, conn, "/tarry/links/instances/three", member("three", false), zk.WorldACL(zk.PermAll))
	s.diagnosis(t).has(doctor.Warn, "machine", "links", "no link to one", "three", "peer.listen")
	s["PEER_LISTEN"] = "off"
	s.diagnosis(t).has(doctor.OK, "machine", "links", "off")
}

func TestInstances_OfAnotherRedis(t *testing.T) {
	t.Parallel()
	server := lab.NewZooKeeper(t)
	conn := dialZK(t, server.Addr)
	s := healthy(t)
	s["ZOOKEEPER_SERVERS"], s["NAMESPACE"] = server.Addr, "same"
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listening.Close()
	all := zk.WorldACL(zk.PermAll)
	member := `{"instance":"one","address":"` + listening.Addr().String() + `","healthy":true,"store":"ours"}`
	for _, node := range [][2]string{
		{"/tarry", ""}, {"/tarry/same", ""}, {"/tarry/same/term", "1"}, {"/tarry/same/instances", ""},
		{"/tarry/same/instances/one", member}, {"/tarry/same/leader", `{"instance":"one"}`},
	} {
		znode(t, conn, node[0], node[1], all)
	}
	cfg := s.config(t)
	rdb := timeline.Dial(timeline.DialConfig{Addrs: cfg.Redis.Addrs, CallTimeout: time.Second})
	defer rdb.Close()
	for store, want := range map[string]doctor.Status{"ours": doctor.OK, "theirs": doctor.Fail} {
		err := rdb.HSet(t.Context(), "{same}:meta", "id", store, "buckets", cfg.Buckets, "layout",
			timeline.Layout).Err()
		if err != nil {
			t.Fatal(err)
		}
		s.diagnosis(t).has(want, "redis", "same redis", "one, which leads")
	}
}
