package timeline_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/timeline"
)

// pair is two servers of which either may follow the other.
type pair struct {
	*testing.T
	first, second *lab.Redis
	a, b          redis.UniversalClient
}

func newPair(t *testing.T) *pair {
	start := func() (*lab.Redis, redis.UniversalClient) {
		srv := lab.NewRedis(t, "--repl-diskless-sync-delay", "0")
		rdb := timeline.Dial(timeline.DialConfig{Addrs: []string{srv.Addr}, CallTimeout: 5 * time.Second})
		t.Cleanup(func() {
			_ = rdb.Close()
			srv.Kill() // one that is asked to stop waits for replicas that are behind
		})
		return srv, rdb
	}
	p := &pair{T: t}
	p.first, p.a = start()
	p.second, p.b = start()
	return p
}

// follow makes a server the replica of another, and waits until it is in sync.
func (p *pair) follow(rdb redis.UniversalClient, of *lab.Redis) {
	p.Helper()
	host, port, err := net.SplitHostPort(of.Addr)
	if err != nil {
		p.Fatal(err)
	}
	if err := rdb.Do(p.Context(), "replicaof", host, port).Err(); err != nil {
		p.Fatal(err)
	}
	lab.Eventually(p, 30*time.Second, func() error {
		info, err := rdb.Info(p.Context(), "replication").Result()
		if err == nil &&
			(!strings.Contains(info, "master_link_status:up") || strings.Contains(info, "sync_in_progress:1")) {
			err = fmt.Errorf("not in step: %s", info)
		}
		return err
	})
}

// lead makes a replica a primary.
func (p *pair) lead(rdb redis.UniversalClient) {
	p.Helper()
	if err := rdb.Do(p.Context(), "replicaof", "no", "one").Err(); err != nil {
		p.Fatal(err)
	}
}

// A primary is demoted without a restart, takes over its replica's data, and is promoted again: the process is the
// same, but its data is not.
func TestRedis_ADemotedPrimaryIsNotCertifiedWhenItComesBack(t *testing.T) {
	t.Parallel()
	ctx, p := t.Context(), newPair(t)
	tl := open(t, p.first, plain(1))
	refused := func(when string, want error) {
		t.Helper()
		_, find := tl.Find(ctx, scheduler.Ref{UID: schedulertest.Message(1).UID})
		_, _, add := tl.Add(ctx, 0, []*message.Message{schedulertest.Message(9)}, schedulertest.Start)
		_, heads := tl.Heads(ctx)
		for name, err := range map[string]error{"find": find, "add": add, "heads": heads} {
			if !errors.Is(err, want) || errors.Is(err, scheduler.ErrOutcomeUnknown) {
				t.Errorf("%s: %s: %v, want %v", when, name, err, want)
			}
		}
	}
	p.follow(p.b, p.first)
	p.lead(p.b)
	if _, _, err := tl.Add(ctx, 0, []*message.Message{schedulertest.Message(1)}, schedulertest.Start); err != nil {
		t.Fatal(err)
	}
	p.follow(p.a, p.second)
	refused("as a replica", scheduler.ErrUnavailable)
	if standings, err := tl.Standings(ctx); !errors.Is(err, scheduler.ErrUnavailable) {
		t.Errorf("a replica stands as %+v, %v; want it away", standings, err)
	}
	p.lead(p.a)
	refused("promoted again", scheduler.ErrUncertified)
	if standings, err := tl.Standings(ctx); err != nil || standings[0].Whole() || standings[0].Number == 0 {
		t.Errorf("promoted again it stands as %+v, %v; want it certified for another data set", standings, err)
	}
	schedulertest.Certify(t, tl)
	if _, _, err := tl.Add(ctx, 0, []*message.Message{schedulertest.Message(2)}, schedulertest.Start); err != nil {
		t.Errorf("certified anew: %v", err)
	}
}

// The first replica changes the id of the primary's history, and so does the last one if it stays away: the data set is
// still the same.
func TestRedis_APrimaryStaysCertifiedWhileReplicasComeAndGo(t *testing.T) {
	t.Parallel()
	ctx, p := t.Context(), newPair(t)
	tl := open(t, p.first, plain(1))
	history := func() string {
		info, err := p.a.Info(ctx, "replication").Result()
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(info, "master_replid:")
		return rest[:40]
	}
	used := func(n int, when string) {
		t.Helper()
		_, _, err := tl.Add(ctx, 0, []*message.Message{schedulertest.Message(n)}, schedulertest.Start)
		if err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if standings, err := tl.Standings(ctx); err != nil || !standings[0].Whole() {
			t.Errorf("%s: it stands as %+v, %v", when, standings, err)
		}
	}
	before := history()
	if err := p.a.ConfigSet(ctx, "repl-backlog-ttl", "1").Err(); err != nil {
		t.Fatal(err)
	}
	p.follow(p.b, p.first)
	came := history()
	used(1, "a replica came")
	p.lead(p.b)
	lab.Eventually(t, 30*time.Second, func() error {
		if history() == came {
			return errors.New("the history has the same id still")
		}
		return nil
	})
	used(2, "the replica is gone")
	if came == before {
		t.Error("the first replica changed nothing: this test shows nothing")
	}
}
