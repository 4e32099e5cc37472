package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/election"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/store/timeline"
)

// distant is a store of which one instance does not reach the first buckets, so many of them.
type distant struct {
	*timeline.Redis
	away  atomic.Int64
	asked atomic.Int64 // looks since that changed
}

func (d *distant) reach(bucket message.Bucket) error {
	if int64(bucket) < d.away.Load() {
		return fmt.Errorf("%w: a test keeps bucket %d away", scheduler.ErrUnavailable, bucket)
	}
	return nil
}

func (d *distant) Standings(ctx context.Context) ([]record.Standing, error) {
	all, err := d.Redis.Standings(ctx)
	for i := range all {
		bucket := message.Bucket(i)
		if away := d.reach(bucket); away != nil {
			all[bucket] = record.Standing{Err: away}
			if bucket == d.Buckets()-1 {
				return all, away
			}
		}
	}
	d.asked.Add(1)
	return all, err
}

func (d *distant) Heads(ctx context.Context) ([]scheduler.Head, error) {
	all, err := d.Redis.Heads(ctx)
	for i := range all {
		bucket := message.Bucket(i)
		if away := d.reach(bucket); away != nil {
			all[bucket] = scheduler.Head{Err: away}
			if bucket == d.Buckets()-1 {
				return all, away
			}
		}
	}
	return all, err
}

func (d *distant) Claim(ctx context.Context, bucket message.Bucket, req scheduler.Claim) (scheduler.Claimed, error) {
	if err := d.reach(bucket); err != nil {
		return scheduler.Claimed{}, err
	}
	return d.Redis.Claim(ctx, bucket, req)
}

func (d *distant) Add(ctx context.Context, bucket message.Bucket, batch []*message.Message, now message.Milli) (
	[]scheduler.AddResult, []scheduler.Earlier, error) {
	if err := d.reach(bucket); err != nil {
		return nil, nil, err
	}
	return d.Redis.Add(ctx, bucket, batch, now)
}

// serveDistant runs an instance whose store the test takes away from it, and from it alone.
func serveDistant(t *testing.T, natsURL, redisAddr, zkAddr, instance string) (*App, *distant) {
	t.Helper()
	cfg, err := config.LoadServe(nil, []string{
		"TARRY_NAMESPACE=distant", "TARRY_INSTANCE=" + instance, "TARRY_HTTP_LISTEN=127.0.0.1:0",
		"TARRY_NATS_URL=" + natsURL,
		"TARRY_REDIS_ADDRS=" + redisAddr, "TARRY_ZOOKEEPER_SERVERS=" + zkAddr, "TARRY_ZOOKEEPER_SESSION=3s",
		"TARRY_PUBLISH_TIMEOUT=1s",
	})
	if err != nil {
		t.Fatal(err)
	}
	o, err := open(t.Context(), cfg, Options{Version: "test", Log: zerolog.New(zerolog.NewTestWriter(t))})
	if err != nil {
		t.Fatal(err)
	}
	d := &distant{Redis: o.store.(*timeline.Redis)}
	o.store = d
	a, err := join(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("instance %s ended with %v", instance, err)
		}
	})
	return a, d
}

// A leader that reaches a part of the store goes on for that part, though a standby reaches all of it. Without any of
// it, it gives way.
func TestLeader_ResignsOnlyWhenNoBucketAnswersIt(t *testing.T) {
	t.Parallel()
	natsURL, redisAddr, zkAddr := lab.NewNATS(t).URL(), lab.SharedRedis(t).Addr, lab.SharedZooKeeper(t).Addr
	a, d := serveDistant(t, natsURL, redisAddr, zkAddr, "a")
	leads := func(who *App) func() error {
		return func() error {
			if s := who.race.State(); s.Role != election.Leading {
				return fmt.Errorf("%s is %s", who.cfg.Instance, s.Role)
			}
			return nil
		}
	}
	lab.Eventually(t, 20*time.Second, leads(a))
	first := a.race.State().Term
	b, _ := serveDistant(t, natsURL, redisAddr, zkAddr, "b")
	lab.Eventually(t, 20*time.Second, func() error { return b.health.fit() })
	away := d.Buckets() - 1
	d.away.Store(int64(away))
	d.asked.Store(0)
	// By looks: after two sessions of 3 s without an answer it would resign.
	lab.Eventually(t, 30*time.Second, func() error {
		if n := d.asked.Load(); n < int64(8*time.Second/healthPause) {
			return fmt.Errorf("the store was looked at %d times", n)
		}
		return nil
	})
	if err := leads(a)(); err != nil || a.race.State().Term != first {
		t.Fatalf("with %d of %d buckets away: %v, in term %d after %d", away, d.Buckets(), err,
			a.race.State().Term, first)
	}
	if err := a.health.fit(); err != nil {
		t.Errorf("with %d of %d buckets away it is not fit to lead: %v", away, d.Buckets(), err)
	}
	d.away.Store(int64(d.Buckets()))
	lab.Eventually(t, 20*time.Second, leads(b))
	if term := b.race.State().Term; term <= first {
		t.Errorf("b leads in term %d after %d", term, first)
	}
	if err := a.health.fit(); err == nil {
		t.Error("without the store it is fit to lead")
	}
}
