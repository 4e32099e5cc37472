package election

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestProbe_TriesEveryServerAndReads(t *testing.T) {
	t.Parallel()
	nobody := fmt.Sprintf("127.0.0.1:%d", lab.FreePort(t))
	cfg := NodeConfig{Servers: []string{nobody, lab.SharedZooKeeper(t).Addr}, Namespace: "probe", Instance: "a",
		Session: 6 * time.Second}
	for range 6 { // it begins with either
		p, err := OpenProbe(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if p.Granted() != cfg.Session {
			t.Errorf("granted %s", p.Granted())
		}
		if names, err := p.Children(t.Context(), "/"); err != nil || len(names) == 0 {
			t.Errorf("the root has %q, %v", names, err)
		}
		if acl, err := p.ACL(t.Context(), "/"); err != nil || len(acl) == 0 || acl[0].Scheme != "world" {
			t.Errorf("its rights are %v, %v", acl, err)
		}
		if _, err := p.Get(t.Context(), "/nothing"); !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("what is not there: %v", err)
		}
		p.Close()
	}
	cfg.Servers = []string{nobody}
	if _, err := OpenProbe(t.Context(), cfg); !errors.Is(err, errNotUp) {
		t.Errorf("nobody there: %v", err)
	}
}
