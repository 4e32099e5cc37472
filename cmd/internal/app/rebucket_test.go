package app_test

import (
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/cmd/internal/app"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/store/timeline"
)

// A rebucket finds nobody registered, since the only instance is cut off from ZooKeeper. That one takes no push into a
// bucket of old, and ends.
func TestRebucket_EndsAnInstanceThatZooKeeperDoesNotSee(t *testing.T) {
	t.Parallel()
	natsSrv, zkSrv, server := lab.NewNATS(t), lab.SharedZooKeeper(t), lab.NewRedis(t)
	proxy := lab.NewProxy(t, zkSrv.Addr)
	options := app.Options{Version: "test", Log: zerolog.Nop()}
	a, err := app.New(t.Context(), settings(t, natsSrv.URL(), server.Addr, proxy.Addr, "sleeps", "a"), options)
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- a.Run(t.Context()) }()
	i := &instance{App: a, t: t}
	i.ready()
	push := func() int {
		answer, err := http.Post("http://"+i.Addr().String()+"/v1/messages", "application/json",
			strings.NewReader(`{"topic":"orders","delay":"1h"}`))
		if err != nil { // it has ended
			return 0
		}
		defer answer.Body.Close()
		return answer.StatusCode
	}
	if status := push(); status != http.StatusCreated {
		t.Fatalf("a push before: %d", status)
	}
	proxy.Cut()
	lab.Eventually(t, 30*time.Second, func() error { // its session must be over
		_, err := app.Rebucket(t.Context(), settings(t, natsSrv.URL(), server.Addr, zkSrv.Addr, "sleeps", "c"), 7, options,
			func(int) {})
		return err
	})
	for taken := 0; ; taken++ {
		if status := push(); status == http.StatusCreated {
			t.Fatal("a push is accepted")
		}
		select {
		case err := <-over:
			if !errors.Is(err, timeline.ErrUnfit) || !strings.Contains(err.Error(), "set buckets to 7") {
				t.Errorf("it ended with %v", err)
			}
			return
		case <-time.After(20 * time.Millisecond):
			if taken > 1000 {
				t.Fatal("it goes on")
			}
		}
	}
}

// A rebucket that is killed at its end has certified the new buckets, and not recorded their number. It can be run
// again, to another number too, and the instances start with that.
func TestRebucket_GoesOnAfterItWasKilledAtItsEnd(t *testing.T) {
	t.Parallel()
	natsSrv, zkSrv, server := lab.NewNATS(t), lab.SharedZooKeeper(t), lab.NewRedis(t)
	options := app.Options{Version: "test", Log: zerolog.Nop()}
	cfg := journaled(settings(t, natsSrv.URL(), server.Addr, zkSrv.Addr, "killed-late", "a"), "async",
		"sqlite:"+filepath.Join(t.TempDir(), "journal.db"))
	a := start(t, cfg)
	a.ready()
	a.push(`{"topic":"orders","delay":"1h","id":"kept"}`)
	a.stop()
	rebucket := func(to int) {
		t.Helper()
		lab.Eventually(t, 30*time.Second, func() error { // its registration must be over
			_, err := app.Rebucket(t.Context(), cfg, to, options, func(int) {})
			return err
		})
	}
	rebucket(8)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	for _, key := range rdb.Keys(t.Context(), "{killed-late*}:meta").Val() {
		if err := rdb.HSet(t.Context(), key, "buckets", "8 to 8").Err(); err != nil {
			t.Fatal(err)
		}
	}
	rebucket(7)
	cfg.Buckets = 7
	b := start(t, cfg)
	b.ready()
	if status, text := b.says(http.MethodGet, "/v1/messages/kept", ""); status != http.StatusOK {
		t.Errorf("what it held: %d %s", status, text)
	}
}
