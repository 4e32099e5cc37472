package e2e_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// A master that Sentinel watches dies under load; its replica takes over.
func TestSentinelPromotesAReplicaAndEverythingComes(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	master, replica := lab.NewRedis(t), lab.NewRedis(t)
	rdb := redis.NewClient(&redis.Options{Addr: replica.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	host, port, err := net.SplitHostPort(master.Addr)
	if err == nil {
		err = rdb.ReplicaOf(t.Context(), host, port).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	role := func(want string) {
		t.Helper()
		lab.Eventually(t, site.Patience, func() error {
			info, err := rdb.Info(t.Context(), "replication").Result()
			if err == nil && !strings.Contains(info, want) {
				err = fmt.Errorf("the replica is not %s yet", want)
			}
			return err
		})
	}
	role("master_link_status:up")
	sentinel := lab.NewSentinel(t, "orders", master, time.Second)
	watched := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr})
	t.Cleanup(func() { _ = watched.Close() })
	lab.Eventually(t, site.Patience, func() error {
		replicas, err := watched.Replicas(t.Context(), "orders").Result()
		if err == nil && len(replicas) != 1 {
			err = fmt.Errorf("sentinel knows %d replicas", len(replicas))
		}
		return err
	})
	s.RedisAddr = sentinel.Addr
	s.Settings = append(s.Settings, "TARRY_REDIS_PASSWORD=", "TARRY_REDIS_MASTER=orders")
	s.Stream("ORDERS", "orders.>")
	a := s.Start("a")
	came := watchArrivals(s, "orders.>")
	uids := spread(s, a, "orders.late", 3000, time.Now().Add(2*time.Second), 6*time.Second)
	lab.Eventually(t, site.Patience, func() error {
		came.mu.Lock()
		defer came.mu.Unlock()
		if len(came.first) < 300 {
			return fmt.Errorf("%d have come", len(came.first))
		}
		return nil
	})
	master.Kill()
	role("role:master")
	came.all(t, uids)
}
