package lab_test

import (
	"sync"
	"testing"

	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestFreePort_GivesEachPortOnce(t *testing.T) {
	t.Parallel()
	const each, users = 50, 8
	got := make([][each]int, users)
	var group sync.WaitGroup
	for u := range users {
		group.Go(func() {
			for i := range each {
				got[u][i] = lab.FreePort(t)
			}
		})
	}
	group.Wait()
	seen := make(map[int]bool)
	for _, ports := range got {
		for _, p := range ports {
			if seen[p] || p < 1024 || p >= 32768 {
				t.Errorf("port %d: given twice or outside the range", p)
			}
			seen[p] = true
		}
	}
}

func TestServers_StartedTogetherDoNotCollide(t *testing.T) {
	t.Parallel()
	lab.Needs(t, "redis-server and nats-server")
	const each = 8
	addrs := make(chan string, 2*each)
	var group sync.WaitGroup
	for range each {
		group.Go(func() { addrs <- lab.NewRedis(t).Addr })
		group.Go(func() { addrs <- lab.NewNATS(t).Addr })
	}
	group.Wait()
	close(addrs)
	seen := make(map[string]bool)
	for a := range addrs {
		if seen[a] {
			t.Errorf("two servers have %s", a)
		}
		seen[a] = true
	}
	if len(seen) != 2*each {
		t.Errorf("got %d servers, want %d", len(seen), 2*each)
	}
}
