package lab_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestRedisCluster_PromotesAReplicaThatHasTheData(t *testing.T) {
	t.Parallel()
	c := lab.NewRedisCluster(t, 3, lab.RedisReplicas(1))
	owner := c.Owner("{a}")
	rdb := redisClient(t, owner.Addr)
	if err := rdb.Set(context.Background(), "{a}kept", "value", 0).Err(); err != nil {
		t.Fatalf("set at the owner of the slot: %v", err)
	}
	if n := rdb.Wait(context.Background(), 1, soon).Val(); n != 1 {
		t.Fatalf("replicas that have it: got %d, want 1", n)
	}
	owner.Kill()
	next := c.Replica(owner)
	c.WaitMaster(next)
	if got, err := redisClient(t, next.Addr).Get(context.Background(), "{a}kept").Result(); err != nil ||
		got != "value" {
		t.Errorf("at the promoted replica: got %q, %v", got, err)
	}
	for _, n := range c.Nodes[:3] {
		if n == owner {
			continue
		}
		lab.Eventually(t, soon, func() error {
			if err := redisClient(t, n.Addr).Get(context.Background(), "{a}kept").Err(); err == nil ||
				!strings.HasSuffix(err.Error(), next.Addr) {
				return fmt.Errorf("another master: got %v, want that it moved to %s", err, next.Addr)
			}
			return nil
		})
	}
}

func TestRedisCluster_OfOneNodeNamesItsProxy(t *testing.T) {
	t.Parallel()
	proxy := lab.NewProxy(t, "127.0.0.1:1")
	c := lab.NewRedisCluster(t, 1, lab.RedisAnnounce(proxy))
	//lint:ignore SA1019 CLUSTER SLOTS is what clients ask, also that of tarry
	slots, err := redisClient(t, proxy.Addr).ClusterSlots(context.Background()).Result()
	if err != nil {
		t.Fatal(err)
	}
	if len(slots) != 1 || slots[0].Nodes[0].Addr != proxy.Addr {
		t.Errorf("slots: got %v, want one range at %s", slots, proxy.Addr)
	}
	c.Nodes[0].Kill()
	if err := redisClient(t, proxy.Addr).Ping(context.Background()).Err(); err == nil || errors.Is(err, redis.Nil) {
		t.Errorf("a killed node: got %v", err)
	}
}
