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

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
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
	// Seconds of filling with the race detector, which all test commands have. The batches are small, and their repeats
	// are no new messages: a busy machine may keep SQLite from a large one for longer than a push waits.
	for batch := range 150 {
		var messages []string
		for n := range 100 {
			messages = append(messages, fmt.Sprintf(`{"topic":"filled.x","id":"f%d-%d","delay_ms":3600000,"body":"%s"}`,
				batch, n, strings.Repeat("x", 256)))
		}
		i.says("POST", "/v1/messages/batch", `{"messages":[`+strings.Join(messages, ",")+`]}`)
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
	i.sees(func(c ops.Cluster) bool { return strings.HasPrefix(c.Instances[0].Restored, "15000, the last at ") })
	i.metric("tarry_store_lost_total", func(v float64) bool { return v == 15_000 })
	i.happens(scheduler.EventFilled, "the store lacked 15000 messages that the journal had")
	if bytes.Contains(log.bytes(), []byte("no longer leading")) {
		t.Error("the fill was broken off")
	}
}
