package app_test

import (
	"net/http"
	"testing"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// A nats-server 2.9 shows no time, so the machine and Redis vote alone: the instance is ready, and says so.
func TestReadiness_TellsThatTwoClocksVote(t *testing.T) {
	t.Parallel()
	redisSrv, zkSrv := lab.SharedRedis(t), lab.SharedZooKeeper(t)
	a := start(t, settings(t, lab.NewNATS(t, lab.NATS29()).URL(), redisSrv.Addr, zkSrv.Addr, "twoclocks", "a"))
	a.readiness(http.StatusOK, "clocks")
	b := start(t, settings(t, lab.NewNATS(t).URL(), redisSrv.Addr, zkSrv.Addr, "threeclocks", "b"))
	b.readiness(http.StatusOK)
	b.metric(`tarry_overdue_seconds{held="clock"}`, exactly(0))
}
