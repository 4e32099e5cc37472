package app_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/cmd/internal/app"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/store/timeline"
)

// A rebucket finds nobody registered, since the only instance is cut off from ZooKeeper. That one takes no push into a
// bucket of old, and ends.
func TestRebucket_EndsAnInstanceThatZooKeeperDoesNotSee(t *testing.T) {
	t.Parallel()
	natsSrv, zkSrv, redis := lab.NewNATS(t), lab.SharedZooKeeper(t), lab.NewRedis(t)
	proxy := lab.NewProxy(t, zkSrv.Addr)
	options := app.Options{Version: "test", Log: zerolog.Nop()}
	a, err := app.New(t.Context(), settings(t, natsSrv.URL(), redis.Addr, proxy.Addr, "sleeps", "a"), options)
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
		_, err := app.Rebucket(t.Context(), settings(t, natsSrv.URL(), redis.Addr, zkSrv.Addr, "sleeps", "c"), 7, options,
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
