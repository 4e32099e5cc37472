package app_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
)

// sees waits until an instance's view of the cluster is as wanted.
func (i *instance) sees(want func(ops.Cluster) bool) {
	i.t.Helper()
	lab.Eventually(i.t, 30*time.Second, func() error {
		var c ops.Cluster
		if status, err := i.get("/v1/cluster", &c); err != nil || status != http.StatusOK || !want(c) {
			return fmt.Errorf("cluster: %d %+v %w", status, c, err)
		}
		return nil
	})
}

// An instance with other settings says so, and all others see it, until a reload makes them the same. One that is gone
// is listed until it is forgotten, and the others miss it if they were told how many there should be.
func TestRoster_TellsWhoDiffersAndWhoIsMissing(t *testing.T) {
	t.Parallel()
	natsURL, redisAddr, zkAddr := lab.NewNATS(t).URL(), lab.SharedRedis(t).Addr, lab.SharedZooKeeper(t).Addr
	of := func(name string) config.Serve {
		cfg := settings(t, natsURL, redisAddr, zkAddr, "roster", name)
		cfg.Cluster.Instances = 2
		return cfg
	}
	cfg := of("a")
	cfg.Topics = []config.Topic{{Pattern: "mail.>", Rate: 50}}
	a := start(t, cfg)
	a.cluster()
	b := start(t, of("b"))
	two := func(c ops.Cluster) *ops.Instance {
		at := slices.IndexFunc(c.Instances, func(i ops.Instance) bool { return i.Instance == "b" })
		if at < 0 {
			return &ops.Instance{}
		}
		return &c.Instances[at]
	}
	a.sees(func(c ops.Cluster) bool {
		return slices.Equal(two(c).Differs, []string{"topics"}) && two(c).Ready && slices.Contains(two(c).Lacks, "settings")
	})
	b.readiness(http.StatusOK, "settings")
	a.readiness(http.StatusOK)

	refused := errors.New("topics[0].rate: is below 1")
	if err := b.Reload(func() (config.Serve, error) { return config.Serve{}, refused }); !errors.Is(err, refused) {
		t.Errorf("the reload: %v", err)
	}
	b.sees(func(c ops.Cluster) bool {
		return slices.ContainsFunc(c.Checks, func(k ops.Check) bool {
			return k.Name == "settings" && strings.Contains(k.Detail, "the last reload was refused: topics[0].rate: is below 1")
		})
	})
	// What only the webhooks refuse changes nothing either.
	bad := of("b")
	bad.Topics = []config.Topic{{Pattern: "hook.>", Deliver: config.DeliverWebhook,
		Webhook: config.Webhook{URL: "https://example.com", Headers: []string{"webhook-id"}}}}
	if err := b.Reload(func() (config.Serve, error) { return bad, nil }); err == nil {
		t.Error("a webhook with a header of tarry's own was taken")
	}
	b.push(`{"topic":"hook.a","id":"hook","delay":"1h"}`)
	if _, text := b.says(http.MethodGet, "/v1/messages/hook", ""); strings.Contains(text, `"deliver":"pull"`) {
		t.Errorf("half of a refused reload applies: %s", text)
	}
	same := of("b")
	same.Topics = cfg.Topics
	if err := b.Reload(func() (config.Serve, error) { return same, nil }); err != nil {
		t.Fatal(err)
	}
	a.sees(func(c ops.Cluster) bool { return two(c).Differs == nil && two(c).Lacks == nil })

	if status, text := a.says(http.MethodDelete, "/v1/cluster/instances/b", ""); status != http.StatusNotFound {
		t.Errorf("an instance that is there was forgotten: %d %s", status, text)
	}
	b.stop()
	a.sees(func(c ops.Cluster) bool { return two(c).Role == ops.RoleGone && two(c).Seen != "" })
	a.happens(scheduler.EventInstance, "b is gone")
	if o := a.overview(ops.LevelWarn, "warn no_standby", "note journal_off"); o.Instances != 1 || o.Gone != 1 {
		t.Errorf("%d are there, and %d gone", o.Instances, o.Gone)
	}
	a.readiness(http.StatusOK, "instances")
	if status, text := a.says(http.MethodDelete, "/v1/cluster/instances/b", ""); status != http.StatusOK {
		t.Errorf("it was not forgotten: %d %s", status, text)
	}
	a.sees(func(c ops.Cluster) bool { return two(c).Instance == "" })
	start(t, same)
	a.sees(func(c ops.Cluster) bool { return two(c).Role == ops.RoleStandby })
	a.readiness(http.StatusOK)
	a.happens(scheduler.EventInstance, "b has come")
}
