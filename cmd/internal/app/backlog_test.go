package app_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// metric waits until a metric, named with its labels, is as wanted.
func (i *instance) metric(name string, is func(float64) bool) {
	i.t.Helper()
	lab.Eventually(i.t, 20*time.Second, func() error {
		text, err := metricsText(i)
		if err != nil {
			return err
		}
		for line := range strings.Lines(text) {
			if value, found := strings.CutPrefix(line, name+" "); found {
				v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				if err == nil && !is(v) {
					err = fmt.Errorf("%s is %v", name, v)
				}
				return err
			}
		}
		return fmt.Errorf("no metric %s", name)
	})
}

func exactly(want float64) func(float64) bool { return func(v float64) bool { return v == want } }
func above(bound float64) func(float64) bool  { return func(v float64) bool { return v > bound } }

// TestBacklog_ShowsTheAgeOfWhatIsParked: a probe does not make a message younger.
func TestBacklog_ShowsTheAgeOfWhatIsParked(t *testing.T) {
	t.Parallel()
	natsSrv, redisSrv, zkSrv := lab.NewNATS(t), lab.SharedRedis(t), lab.SharedZooKeeper(t)
	a := start(t, settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "parkedage", "a"))
	a.ready()
	a.cluster()
	due := time.Now().Add(-7 * time.Minute)
	a.push(fmt.Sprintf(`{"topic":"parkedage.nobody","body":"1","at":%q}`, due.Format(time.RFC3339Nano)))
	for probes := range 5 {
		a.metric(`tarry_publish_failures_total{kind="no_listener"}`, above(float64(probes)+0.5))
		a.metric(`tarry_overdue{held="parked"}`, exactly(1)) // but while a probe is out
		a.metric(`tarry_overdue_seconds{held="parked"}`, func(v float64) bool {
			return v > 419 && v <= time.Since(due).Seconds()
		})
	}
}

// TestBacklog_ShowsWhatIsOverdueWithoutALeader: with ZooKeeper away nobody
// delivers, and every instance says so.
func TestBacklog_ShowsWhatIsOverdueWithoutALeader(t *testing.T) {
	t.Parallel()
	natsSrv, redisSrv, zkSrv := lab.NewNATS(t), lab.SharedRedis(t), lab.SharedZooKeeper(t)
	zk := lab.NewProxy(t, zkSrv.Addr)
	a := start(t, settings(t, natsSrv.URL(), redisSrv.Addr, zk.Addr, "backlog", "a"))
	a.ready()
	a.cluster()
	b := start(t, settings(t, natsSrv.URL(), redisSrv.Addr, zk.Addr, "backlog", "b"))
	b.ready()
	nc, err := nats.Connect(natsSrv.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Request("delayed.backlog.orders", nil, 5*time.Second); err != nil {
		t.Fatal(err) // stored, and rejected: it has no tag
	}
	a.push(`{"topic":"backlog.nobody","body":"1","delay":0}`) // is parked
	for _, i := range []*instance{a, b} {
		i.metric(`tarry_rejects`, exactly(1))
		i.metric(`tarry_intake_backlog`, exactly(0))
		i.metric(`tarry_overdue{held="parked"}`, exactly(1))
		i.metric(`tarry_overdue_seconds{held="none"}`, exactly(0))
	}

	zk.Cut()
	for _, i := range []*instance{a, b} {
		i.metric("tarry_leader", exactly(0))
	}
	a.push(`{"topic":"backlog.orders","body":"2","delay":0}`)
	a.push(`{"topic":"backlog.orders","body":"3","delay":"1h"}`)
	for _, i := range []*instance{a, b} {
		i.metric(`tarry_overdue{held="none"}`, exactly(1))
		i.metric(`tarry_overdue_seconds{held="none"}`, above(0.5))
		// A probe of the parked message may have been under way when the leader was cut off: then it stays in flight.
		probing := 0.0
		i.metric(`tarry_messages{state="in_flight"}`, func(v float64) bool { probing = v; return v == 0 || v == 1 })
		i.metric(`tarry_messages{state="waiting"}`, exactly(3-probing))
		i.metric(`tarry_messages{state="dead"}`, exactly(0))
	}
	zk.Heal()
	a.metric(`tarry_overdue{held="none"}`, exactly(0)) // and parked, since nobody listens
	a.metric(`tarry_overdue{held="parked"}`, exactly(2))
}
