//go:build lab

package nemesis_test

import (
	"fmt"
	"net"
	"time"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// pair is a primary and its replica, each with a clock that can step. The proxies of the instances lead to the primary,
// as a name in DNS does.
type pair struct {
	p              *plant
	primary, other *lab.SteppedRedis
	link           *lab.Proxy // between them
}

func newRedis(p *plant) *lab.SteppedRedis {
	return lab.NewSteppedRedis(p.t, "--requirepass", site.RedisPassword, "--masterauth", site.RedisPassword,
		"--appendfsync", "always")
}

func newPair(p *plant) *pair {
	r := &pair{p: p, primary: newRedis(p)}
	p.s.Redis, p.s.RedisAddr = r.primary.Redis, r.primary.Addr
	return r
}

// follow starts a replica, and returns when it follows.
func (r *pair) follow() {
	t := r.p.t
	r.other, r.link = newRedis(r.p), lab.NewProxy(t, r.primary.Addr)
	host, port, err := net.SplitHostPort(r.link.Addr)
	if err != nil {
		t.Fatal(err)
	}
	replica := r.p.s.ClientOf(r.other.Redis)
	if err := replica.ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, site.Patience, func() error {
		info, err := replica.InfoMap(t.Context(), "replication").Result()
		if err == nil && info["Replication"]["master_link_status"] != "up" {
			err = fmt.Errorf("the replica does not follow: %v", info["Replication"])
		}
		return err
	})
}

// promote makes a primary of the replica, which missed the last writes.
func (r *pair) promote() {
	t, old := r.p.t, r.primary
	r.link.Stall()
	site.Pause(t.Context(), 300*time.Millisecond+time.Duration(r.p.rnd.IntN(1000))*time.Millisecond)
	if err := r.p.s.ClientOf(r.other.Redis).ReplicaOf(t.Context(), "no", "one").Err(); err != nil {
		t.Error(err)
	}
	r.link.Cut()
	for _, way := range r.p.ways {
		way.Redis.Retarget(r.other.Addr)
	}
	r.primary, r.p.s.Redis = r.other, r.other.Redis
	old.Kill()
}
