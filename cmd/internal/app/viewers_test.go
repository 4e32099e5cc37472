package app_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// Ten viewers of the console cost Redis what one costs: they share its readings.
func TestViewers_ShareTheirReadings(t *testing.T) {
	t.Parallel()
	natsSrv, redisSrv, zkSrv := lab.NewNATS(t), lab.NewRedis(t), lab.SharedZooKeeper(t)
	i := start(t, settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "viewed", "a"))
	i.ready()
	i.push(`{"topic":"viewed.x","delay":"1h"}`)
	rdb := redis.NewClient(&redis.Options{Addr: redisSrv.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	scripts := func() (n int) {
		t.Helper()
		stats, err := rdb.InfoMap(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"evalsha", "evalsha_ro", "eval", "fcall"} {
			calls := 0
			if of := stats["Commandstats"]["cmdstat_"+name]; of != "" {
				if _, err := fmt.Sscanf(of, "calls=%d", &calls); err != nil {
					t.Fatal(of, err)
				}
			}
			n += calls
		}
		return n
	}
	const window = 4 * time.Second
	looked := func(viewers int) (cost int) {
		t.Helper()
		before, until := scripts(), time.Now().Add(window)
		var looking sync.WaitGroup
		for range viewers {
			looking.Go(func() {
				for time.Now().Before(until) {
					for _, path := range []string{"overview", "held", "forecast?by=topic&top=5", "dead/groups", "series", "events"} {
						if status, err := i.get("/v1/"+path, new(any)); err != nil || status != http.StatusOK {
							t.Errorf("%s: %d, %v", path, status, err)
						}
					}
				}
			})
		}
		looking.Wait()
		lab.Eventually(t, time.Minute, func() error { // nobody looks for the rest of it
			if time.Now().Before(until) {
				return fmt.Errorf("%s are left", time.Until(until))
			}
			return nil
		})
		return scripts() - before
	}
	idle, one, ten := looked(0), looked(1), looked(10)
	t.Logf("scripts of Redis in %s: %d without a viewer, %d with one, %d with ten", window, idle, one, ten)
	if one <= idle || ten-idle > 2*(one-idle) {
		t.Errorf("in %s Redis runs %d scripts without a viewer, %d with one and %d with ten", window, idle, one, ten)
	}
}
