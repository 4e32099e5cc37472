package app_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// A Redis that is lost in sync is filled under one leadership, also where that takes longer than the looks which the
// leader takes once a second.
func TestRestore_OfManyIsOneLeaderships(t *testing.T) {
	t.Parallel()
	natsSrv, redisSrv, zkSrv := lab.NewNATS(t), lab.NewRedis(t), lab.SharedZooKeeper(t)
	cfg := journaled(settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "filled-long", "a"), "sync",
		"sqlite:"+filepath.Join(t.TempDir(), "journal.db"))
	log := &lines{}
	i := startLogging(t, cfg, zerolog.New(log).Level(zerolog.InfoLevel))
	i.ready()
	var b strings.Builder
	for n := range 1000 {
		if n > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"topic":"filled.x","delay":"1h","body":"%s"}`, strings.Repeat("x", 256))
	}
	for range 15 { // seconds of filling with the race detector, which all test commands have
		i.says("POST", "/v1/messages/batch", `{"messages":[`+b.String()+`]}`)
	}
	c := redis.NewClient(&redis.Options{Addr: redisSrv.Addr})
	defer c.Close()
	if err := c.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, time.Minute, func() error {
		if n := bytes.Count(log.bytes(), []byte("the store is certified")); n < 2 {
			return fmt.Errorf("the store was certified %d times", n)
		}
		return nil
	})
	i.sees(func(c wire.Cluster) bool { return strings.HasPrefix(c.Instances[0].Restored, "15000 at ") })
	i.metric("tarry_store_lost_total", func(v float64) bool { return v == 15_000 })
	if bytes.Contains(log.bytes(), []byte("no longer leading")) {
		t.Error("the fill was broken off")
	}
}
