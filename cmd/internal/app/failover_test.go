package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/cmd/internal/app"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// settings are those of one instance of a test's own namespace.
func settings(t *testing.T, natsURL, redisAddr, zkAddr, namespace, instance string) config.Serve {
	t.Helper()
	cfg, err := config.LoadServe(nil, []string{
		"TARRY_NAMESPACE=" + namespace, "TARRY_INSTANCE=" + instance, "TARRY_HTTP_LISTEN=127.0.0.1:0",
		"TARRY_PEER_LISTEN=127.0.0.1:0",
		"TARRY_NATS_URL=" + natsURL, "TARRY_REDIS_ADDRS=" + redisAddr, "TARRY_ZOOKEEPER_SERVERS=" + zkAddr,
		"TARRY_ZOOKEEPER_SESSION=4s",
	})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// instance runs an App; stop ends it as SIGTERM would.
type instance struct {
	*app.App
	t    *testing.T
	stop func()
}

func start(t *testing.T, cfg config.Serve) *instance {
	t.Helper()
	return startLogging(t, cfg, zerolog.New(zerolog.NewTestWriter(t)).With().Timestamp().Logger())
}

func startLogging(t *testing.T, cfg config.Serve, log zerolog.Logger) *instance {
	t.Helper()
	a, err := app.New(t.Context(), cfg, app.Options{Version: "test", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	var once sync.Once
	i := &instance{App: a, t: t, stop: func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("instance %s ended with %v", cfg.Instance, err)
			}
		})
	}}
	t.Cleanup(i.stop)
	return i
}

func (i *instance) get(path string, into any) (int, error) {
	resp, err := http.Get("http://" + i.Addr().String() + path)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if into == nil {
		return resp.StatusCode, nil
	}
	return resp.StatusCode, json.NewDecoder(resp.Body).Decode(into)
}

func (i *instance) ready() {
	i.t.Helper()
	lab.Eventually(i.t, 20*time.Second, func() error {
		var answer map[string]any
		if status, err := i.get("/readyz", &answer); err != nil || status != http.StatusOK ||
			answer["degraded"] != nil {
			return fmt.Errorf("readyz: %d %v %w", status, answer, err)
		}
		return nil
	})
}

// push pushes a message. Where the outcome is unknown, as a busy machine has it, the same one is pushed again.
func (i *instance) push(body string) map[string]any {
	i.t.Helper()
	for again := false; ; again = true {
		status, text := i.says(http.MethodPost, "/v1/messages", body)
		var answer map[string]any
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			i.t.Fatal(err)
		}
		switch {
		case status == http.StatusCreated, status == http.StatusOK && again:
			return answer
		case answer["error"] != "outcome_unknown":
			i.t.Fatalf("push: %d %v", status, answer)
		}
		if !strings.Contains(body, `"id":`) {
			body = fmt.Sprintf(`{"id":%q,%s`, answer["id"], body[1:])
		}
	}
}

// cancel cancels a message, and asks again where the outcome is unknown.
func (i *instance) cancel(path string) {
	i.t.Helper()
	for again := false; ; again = true {
		switch status, text := i.says(http.MethodDelete, path, ""); {
		case status == http.StatusOK, again && strings.Contains(text, "already_canceled"):
			return
		case !strings.Contains(text, "outcome_unknown"):
			i.t.Fatalf("cancel: %d %s", status, text)
		}
	}
}

type clusterView struct {
	Term   uint64
	Leader *struct{ Instance string }
}

func (i *instance) cluster() clusterView {
	i.t.Helper()
	var v clusterView
	lab.Eventually(i.t, 20*time.Second, func() error {
		if status, err := i.get("/v1/cluster", &v); err != nil || status != http.StatusOK || v.Leader == nil {
			return fmt.Errorf("cluster: %d %+v %w", status, v, err)
		}
		return nil
	})
	return v
}

func TestServe_AStandbyDeliversWhatTheLeaderLeft(t *testing.T) {
	t.Parallel()
	natsSrv, redisSrv, zkSrv := lab.SharedNATS(t), lab.SharedRedis(t), lab.SharedZooKeeper(t)
	nc, err := nats.Connect(natsSrv.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	got := make(chan *nats.Msg, 100)
	if _, err := nc.ChanSubscribe("app.orders", got); err != nil {
		t.Fatal(err)
	}
	a := start(t, settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "failover", "a"))
	a.ready()
	first := a.cluster()
	if first.Leader.Instance != "a" {
		t.Fatalf("leader %q, want a", first.Leader.Instance)
	}
	b := start(t, settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "failover", "b"))
	b.ready() // a healthy standby is ready too

	pushed := b.push(`{"topic":"app.orders","body":"one","delay":"300ms","id":"order-1"}`)
	due, err := time.Parse(time.RFC3339, pushed["due"].(string))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, got, "one", "order-1", due)

	pushed = b.push(`{"topic":"app.orders","body":"two","delay":"1500ms","id":"order-2"}`)
	due, _ = time.Parse(time.RFC3339, pushed["due"].(string))
	a.stop()
	expect(t, got, "two", "order-2", due)
	lab.Eventually(t, 10*time.Second, func() error {
		if v := b.cluster(); v.Leader.Instance != "b" || v.Term <= first.Term {
			return fmt.Errorf("cluster %+v after term %d", v, first.Term)
		}
		return nil
	})
}

func TestServe_AStandbyPassesAResignOn(t *testing.T) {
	t.Parallel()
	// A server of its own: two intakes of one prefix cannot stand on one.
	natsURL, redisAddr, zkAddr := lab.NewNATS(t).URL(), lab.SharedRedis(t).Addr, lab.SharedZooKeeper(t).Addr
	a := start(t, settings(t, natsURL, redisAddr, zkAddr, "resign", "a"))
	a.ready()
	first := a.cluster()
	b := start(t, settings(t, natsURL, redisAddr, zkAddr, "resign", "b"))
	b.ready()
	lab.Eventually(t, 20*time.Second, func() error { // until b is known as one that could take over
		resp, err := http.Post("http://"+b.Addr().String()+"/v1/cluster/resign", "application/json",
			strings.NewReader(`{"reason":"an upgrade"}`))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(resp.Body)
			return fmt.Errorf("resign: %d %s", resp.StatusCode, text)
		}
		return nil
	})
	lab.Eventually(t, 20*time.Second, func() error {
		if v := b.cluster(); v.Leader.Instance != "b" || v.Term <= first.Term {
			return fmt.Errorf("cluster %+v after term %d", v, first.Term)
		}
		return nil
	})
}

func expect(t *testing.T, got <-chan *nats.Msg, body, id string, due time.Time) {
	t.Helper()
	select {
	case m := <-got:
		if string(m.Data) != body || m.Header.Get("Tarry-Id") != id {
			t.Fatalf("got %q with %v, want %q", m.Data, m.Header, body)
		}
		if early := time.Until(due); early > 0 {
			t.Fatalf("%q arrived %s early", body, early)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("%q did not arrive", body)
	}
}
