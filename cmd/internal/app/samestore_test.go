package app_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// says calls an instance and returns what it answers.
func (i *instance) says(method, path, body string) (status int, text string) {
	i.t.Helper()
	return i.saysTo("", method, path, body)
}

// saysTo is says with a token. It repeats, as clients do, what stays without an answer in time, and what the instance
// refuses because its journal has not answered another call: a busy machine may keep SQLite from working for a second.
func (i *instance) saysTo(token, method, path, body string) (status int, text string) {
	i.t.Helper()
	lab.Eventually(i.t, 20*time.Second, func() error {
		status, text = i.saysOnce(token, method, path, body)
		if status == http.StatusGatewayTimeout || strings.Contains(text, "the journal has not answered") {
			return errors.New(text)
		}
		return nil
	})
	return status, text
}

func (i *instance) saysOnce(token, method, path, body string) (int, string) {
	i.t.Helper()
	r, err := http.NewRequest(method, "http://"+i.Addr().String()+path, strings.NewReader(body))
	if err != nil {
		i.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		i.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		i.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestOtherStore_TakesNothingAndSaysSo: an instance with another Redis than the
// leader's once led, so its Redis is certified and would take pushes that nobody
// delivers. Both are databases of one server, so their run ids are the same.
func TestOtherStore_TakesNothingAndSaysSo(t *testing.T) {
	t.Parallel()
	natsSrv, redisSrv, zkSrv := lab.NewNATS(t), lab.NewRedis(t), lab.SharedZooKeeper(t)
	of := func(name string, db int) *instance {
		cfg := settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "otherstore", name)
		cfg.Redis.DB = db
		return start(t, cfg)
	}
	before := of("b", 3)
	before.ready()
	before.cluster()
	before.stop()
	a := of("a", 0)
	a.ready()
	a.cluster()
	b := of("b", 3)
	b.readiness(http.StatusServiceUnavailable, "redis")

	const reason = "the store of this instance is not the leader's"
	for _, c := range [][3]string{
		{http.MethodPost, "/v1/messages", `{"topic":"other.x","body":"1","delay":"1h"}`},
		{http.MethodGet, "/v1/messages/some-order", ""},
		{http.MethodDelete, "/v1/messages/some-order", ""},
		{http.MethodGet, "/v1/topics", ""},
		{http.MethodGet, "/v1/dead", ""},
	} {
		if status, text := b.says(c[0], c[1], c[2]); status != http.StatusServiceUnavailable ||
			!strings.Contains(text, reason) {
			t.Errorf("%v: %d %s", c, status, text)
		}
	}
	lab.Eventually(t, 10*time.Second, func() error { // both say which one it is, and that it could not lead
		for _, i := range []*instance{a, b} {
			_, text := i.says(http.MethodGet, "/v1/cluster", "")
			if strings.Count(text, `"other_store":true`) != 1 || !strings.Contains(text, `"instance":"b"`) ||
				!strings.Contains(text, `"role":"standby","ready":false,"lacks":["redis"],"can_lead":false`) {
				return fmt.Errorf("got %s", text)
			}
		}
		return nil
	})
	b.has(ops.LevelStop, ops.CondOtherStore, 0)
	a.lacks(ops.CondOtherStore)
	if _, text := b.says(http.MethodGet, "/v1/cluster", ""); !strings.Contains(text, reason) {
		t.Errorf("got %s", text)
	}

	// What comes by tag goes to the leader's alone.
	nc, err := nats.Connect(natsSrv.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	const pushes = 20
	for range pushes {
		m := &nats.Msg{Subject: "delayed.other.x", Header: nats.Header{"Tarry-Delay": {"1h"}}}
		if _, err := nc.RequestMsg(m, 5*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	a.metric(`tarry_messages{state="waiting"}`, exactly(pushes))

	// The leader goes: the one with the other Redis does not take its place, another with the leader's does.
	c := of("c", 0)
	c.ready()
	a.stop()
	lab.Eventually(t, 20*time.Second, func() error {
		if leader := c.cluster().Leader.Instance; leader != "c" {
			return fmt.Errorf("%s leads", leader)
		}
		return nil
	})
	b.readiness(http.StatusServiceUnavailable, "redis")
	c.metric(`tarry_messages{state="waiting"}`, exactly(pushes))
}
