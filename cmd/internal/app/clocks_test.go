package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// A nats-server 2.9 shows no time, so the machine and Redis vote alone: the instance is ready, and says so.
func TestCluster_TellsThatTwoClocksVote(t *testing.T) {
	t.Parallel()
	redisSrv, zkSrv := lab.SharedRedis(t), lab.SharedZooKeeper(t)
	for name, c := range map[string]struct {
		options []lab.NATSOption
		says    string
	}{"two": {[]lab.NATSOption{lab.NATS29()}, "2 of 3"}, "three": {nil, ""}} {
		a := start(t, settings(t, lab.NewNATS(t, c.options...).URL(), redisSrv.Addr, zkSrv.Addr, name+"clocks", "a"))
		a.readiness(http.StatusOK)
		lab.Eventually(t, 20*time.Second, func() error {
			var info ops.Cluster
			if _, err := a.get("/v1/cluster", &info); err != nil {
				return err
			}
			if !strings.HasPrefix(info.Clocks, c.says) || (info.Clocks == "") != (c.says == "") {
				return fmt.Errorf("%s: it says %q", name, info.Clocks)
			}
			return nil
		})
		if c.says != "" {
			a.has(ops.LevelWarn, ops.CondClocks, 0)
		} else {
			a.lacks(ops.CondClocks)
		}
		a.metric(`tarry_overdue_seconds{held="clock"}`, exactly(0))
	}
}
