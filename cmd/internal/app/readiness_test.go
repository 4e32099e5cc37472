package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// readiness is what /readyz answers.
type readiness struct {
	Ready    bool
	Degraded []string
	Checks   []struct {
		Name, Detail string
		OK           bool
		Buckets      []int
	}
}

// readiness waits until /readyz answers status with exactly these checks failing.
func (i *instance) readiness(status int, failing ...string) {
	i.t.Helper()
	lab.Eventually(i.t, 20*time.Second, func() error {
		var a readiness
		got, err := i.get("/readyz", &a)
		if err != nil {
			return err
		}
		var bad []string
		for _, c := range a.Checks {
			if c.Detail != "" {
				i.t.Errorf("/readyz, which anybody may ask, gives away %q", c.Detail)
			}
			if !c.OK {
				bad = append(bad, c.Name)
			}
		}
		if got != status || a.Ready != (status == http.StatusOK) || !slices.Equal(bad, failing) ||
			(a.Ready && !slices.Equal(a.Degraded, failing)) {
			return fmt.Errorf("got %d %+v, want %d with %v failing", got, a, status, failing)
		}
		// The metrics say the same.
		text, err := metricsText(i)
		ready := map[bool]int{true: 1}[status == http.StatusOK]
		if err != nil || !strings.Contains(text, fmt.Sprintf("\ntarry_ready %d\n", ready)) ||
			strings.Count(text, "\ntarry_check{") != len(a.Checks) {
			return fmt.Errorf("ready %d and %d checks are no metrics: %v", ready, len(a.Checks), err)
		}
		for _, c := range a.Checks {
			one := map[bool]int{true: 1}[c.OK]
			if !strings.Contains(text, fmt.Sprintf("\ntarry_check{check=%q} %d\n", c.Name, one)) {
				return fmt.Errorf("check %s, %t, is no metric", c.Name, c.OK)
			}
		}
		return nil
	})
}

// journaled are the settings of an instance with a journal at the far side of a proxy.
func journaled(cfg config.Serve, mode, dsn string) config.Serve {
	cfg.Journal.Mode, cfg.Journal.DSN, cfg.Journal.Migrate = mode, config.Secret(dsn), true
	cfg.Journal.Outbox, cfg.Journal.Keep = 1<<20, time.Hour
	cfg.Journal.Window, cfg.Journal.Audit = time.Minute, time.Hour
	return cfg
}

// TestReadiness_SQLAwayCostsPushesAndNobodyTheLeadership: in sync an instance
// without SQL takes no push, so it is not ready. It still leads, and a standby
// still takes over and delivers.
func TestReadiness_SQLAwayCostsPushesAndNobodyTheLeadership(t *testing.T) {
	t.Parallel()
	natsSrv, redisSrv, zkSrv := lab.NewNATS(t), lab.SharedRedis(t), lab.SharedZooKeeper(t)
	db := lab.SharedMariaDB(t)
	proxy := lab.NewProxy(t, db.Addr)
	dsn := strings.Replace(db.Database(t), db.Addr, proxy.Addr, 1)
	nc, err := nats.Connect(natsSrv.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	got := make(chan *nats.Msg, 10)
	if _, err := nc.ChanSubscribe("ready.orders", got); err != nil {
		t.Fatal(err)
	}
	a := start(t, journaled(settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "ready", "a"), "sync", dsn))
	a.readiness(http.StatusOK)
	first := a.cluster()
	b := start(t, journaled(settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "ready", "b"), "sync", dsn))
	b.readiness(http.StatusOK)
	a.push(`{"topic":"ready.orders","body":"1","delay":"6s"}`)

	proxy.Cut()
	proxy.Stall()
	for _, i := range []*instance{a, b} {
		i.readiness(http.StatusServiceUnavailable, "journal")
		var v struct {
			Instances []struct {
				Instance string
				CanLead  bool `json:"can_lead"`
				Ready    bool
				Lacks    []string
			}
			Checks []struct{ Name, Detail string }
		}
		if status, err := i.get("/v1/cluster", &v); err != nil || status != http.StatusOK {
			t.Fatalf("cluster: %d, %v", status, err)
		}
		if len(v.Instances) != 2 || !v.Instances[0].CanLead || !v.Instances[1].CanLead {
			t.Errorf("without SQL somebody could not lead: %+v", v.Instances)
		}
		explained := func(c struct{ Name, Detail string }) bool { return c.Name == "journal" && c.Detail != "" }
		if !slices.ContainsFunc(v.Checks, explained) {
			t.Errorf("cluster does not say what is wrong: %+v", v.Checks)
		}
	}
	a.stop()
	second := b.cluster()
	if second.Leader.Instance != "b" || second.Term <= first.Term {
		t.Errorf("got %+v after %+v, want b to lead in a later term", second, first)
	}
	select {
	case m := <-got:
		if string(m.Data) != "1" {
			t.Errorf("got %q", m.Data)
		}
	case <-time.After(20 * time.Second):
		t.Error("without SQL what was due did not come")
	}
	proxy.Heal()
	b.readiness(http.StatusOK)
}

// TestReadiness_WhatStopsNoPushLeavesItReady: in async SQL may be away, and in
// any mode NATS.
func TestReadiness_WhatStopsNoPushLeavesItReady(t *testing.T) {
	t.Parallel()
	natsSrv, redisSrv, zkSrv := lab.NewNATS(t), lab.SharedRedis(t), lab.SharedZooKeeper(t)
	db := lab.SharedMariaDB(t)
	proxy := lab.NewProxy(t, db.Addr)
	dsn := strings.Replace(db.Database(t), db.Addr, proxy.Addr, 1)
	cfg := journaled(settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "readyasync", "a"), "async", dsn)
	cfg.Journal.Outbox = 4 << 10 // a few changes in each bucket
	a := start(t, cfg)
	a.readiness(http.StatusOK)
	proxy.Cut()
	proxy.Stall()
	a.readiness(http.StatusOK, "journal")
	a.push(`{"topic":"ready.async","body":"1","delay":"1h"}`)
	natsSrv.Pause()
	a.readiness(http.StatusOK, "nats", "journal")
	a.push(`{"topic":"ready.async","body":"1","delay":"1h"}`)
	for _, path := range []string{"/v1/rejects", "/v1/rejects/1"} { // these stand in NATS
		if status, text := a.says(http.MethodGet, path, ""); status != http.StatusServiceUnavailable ||
			!strings.Contains(text, `"error":"unavailable"`) || !strings.Contains(text, "nats does not answer") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	natsSrv.Resume()
	a.readiness(http.StatusOK, "journal")

	// Where no bucket has room for another change, none takes a push.
	lab.Eventually(t, 20*time.Second, func() error {
		resp, err := http.Post("http://"+a.Addr().String()+"/v1/messages", "application/json",
			strings.NewReader(`{"topic":"ready.async","body":"`+strings.Repeat("x", 500)+`","delay":"1h"}`))
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		var v readiness
		if status, err := a.get("/readyz", &v); err != nil || status != http.StatusServiceUnavailable {
			return fmt.Errorf("%d %+v, %w", status, v, err)
		}
		return nil
	})
	proxy.Heal()
	a.readiness(http.StatusOK)
}
