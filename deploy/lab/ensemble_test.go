package lab_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestEnsemble_ElectsAnotherLeaderAndTakesTheOldOneBack(t *testing.T) {
	t.Parallel()
	e := lab.NewZooKeeperEnsemble(t, 3)
	var modes []string
	for _, n := range e.Nodes {
		modes = append(modes, n.Mode())
	}
	slices.Sort(modes)
	if want := []string{"follower", "follower", "leader"}; !slices.Equal(modes, want) {
		t.Fatalf("modes: got %v, want %v", modes, want)
	}
	conn := zkConnect(t, e.Addrs()...)
	zkCreate(t, conn, "/kept", "value")

	old := e.Leader()
	old.Kill()
	lab.Eventually(t, soon, func() error {
		if now := e.Leader(); now == nil || now == old {
			return errors.New("no new leader")
		}
		return nil
	})
	old.Restart()
	e.WaitServing()
	if got := old.Mode(); got != "follower" {
		t.Errorf("the old leader is now %q, want follower", got)
	}
	zkWants(t, zkConnect(t, old.Addr), "/kept", "value")
}

func TestEnsemble_ServesAgainAfterAllNodesWereKilled(t *testing.T) {
	t.Parallel()
	e := lab.NewZooKeeperEnsemble(t, 3, lab.ZooKeeperTick(300*time.Millisecond))
	zkCreate(t, zkConnect(t, e.Addrs()...), "/kept", "value")
	for _, n := range e.Nodes {
		n.Kill()
	}
	if e.Leader() != nil {
		t.Error("dead nodes have a leader")
	}
	for _, n := range e.Nodes {
		n.Restart()
	}
	e.WaitServing()
	zkWants(t, zkConnect(t, e.Addrs()...), "/kept", "value")
}

func zkConnect(t *testing.T, addrs ...string) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect(addrs, 4*time.Second, zk.WithLogger(quietLog{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

type quietLog struct{}

func (quietLog) Printf(string, ...any) {}

func zkCreate(t *testing.T, conn *zk.Conn, path, value string) {
	t.Helper()
	if _, err := conn.Create(path, []byte(value), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatalf("create %s: %v", path, err)
	}
}

func zkWants(t *testing.T, conn *zk.Conn, path, want string) {
	t.Helper()
	lab.Eventually(t, soon, func() error {
		got, _, err := conn.Get(path)
		if err == nil && string(got) != want {
			t.Fatalf("%s: got %q, want %q", path, got, want)
		}
		return err
	})
}
