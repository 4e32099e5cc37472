package timeline_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/scheduler/steer"
	"github.com/tarry-mq/tarry/store/timeline"
)

// clustered is a timeline on a Redis Cluster.
func clustered(t *testing.T, buckets message.Bucket, addrs ...string) (tl *timeline.Redis, namespace string) {
	t.Helper()
	rdb := timeline.Dial(timeline.DialConfig{Addrs: append(addrs, addrs[0]), CallTimeout: time.Second})
	t.Cleanup(func() { _ = rdb.Close() })
	namespace = "t" + strings.ToLower(rand.Text())
	tl, err := timeline.New(timeline.Config{Client: rdb, Namespace: namespace, Buckets: buckets,
		EndedKeep: time.Minute, TombstoneKeep: time.Minute, TombstoneLimit: 10})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tl.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	schedulertest.Certify(t, tl)
	return tl, namespace
}

type firstMachine struct{}

func (firstMachine) ID() (int, bool) { return 1, true }

// The script of a push runs, and its answer is lost with the connection: the caller's repeat must find that it ran.
func TestCluster_APushWhoseAnswerIsLostStaysOneMessage(t *testing.T) {
	t.Parallel()
	proxy := lab.NewProxy(t, "127.0.0.1:1")
	node := lab.NewRedisCluster(t, 1, lab.RedisAnnounce(proxy)).Nodes[0]
	tl, _ := clustered(t, 1, proxy.Addr)
	direct := redis.NewClient(&redis.Options{Addr: node.Addr})
	t.Cleanup(func() { _ = direct.Close() })
	clock := scheduler.NewClock(scheduler.System())
	s, err := steer.New(scheduler.Config{
		Timeline: tl, Clock: clock, IDs: scheduler.NewIDs(firstMachine{}, time.Now),
		MaxDelay: time.Hour, EndedKeep: time.Minute,
		CallTimeout: 2 * time.Second, StopTimeout: time.Second, Log: zerolog.New(zerolog.NewTestWriter(t)),
	})
	if err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(serving) }()
	t.Cleanup(func() { stop(); <-served })
	messages := func() int64 {
		keys, err := direct.Keys(t.Context(), "*:due").Result()
		if err != nil || len(keys) == 0 {
			return 0
		}
		return direct.ZCard(t.Context(), keys[0]).Val()
	}
	push := func(uid message.UID) scheduler.Accepted {
		return s.AcceptAll(t.Context(),
			[]*scheduler.Push{{UID: uid, Topic: "orders.late", Delay: time.Hour, Body: []byte("x")}})[0]
	}
	if a := push(""); a.Err != nil { // the script is known, and a connection open
		t.Fatal(a.Err)
	}
	proxy.StallReplies()
	answered := make(chan scheduler.Accepted, 1)
	go func() { answered <- push("") }()
	lab.Eventually(t, 5*time.Second, func() error {
		if n := messages(); n != 2 {
			return fmt.Errorf("%d messages, want 2", n)
		}
		return nil
	})
	proxy.Cut()
	proxy.Heal()
	a := <-answered
	if errors.Is(a.Err, scheduler.ErrOutcomeUnknown) { // each repeat met the refusal: who pushes repeats it by its uid
		a = push(a.UID)
	}
	if a.Err != nil {
		t.Errorf("the push whose answer was lost: %v", a.Err)
	}
	if n := messages(); n != 2 {
		t.Errorf("after two pushes, one of them sent again: %d messages", n)
	}
}

// A master dies and its replica takes over; no server answers at the old address.
func TestCluster_CallsReachThePromotedReplica(t *testing.T) {
	t.Parallel()
	c := lab.NewRedisCluster(t, 3, lab.RedisReplicas(1))
	tl, namespace := clustered(t, 2, c.Addrs()[:3]...)
	master := c.Owner("{" + namespace + ":0}")
	master.Kill()
	c.WaitMaster(c.Replica(master))
	promoted := time.Now()
	lab.Eventually(t, 20*time.Second, func() error {
		_, err := tl.Lanes(t.Context(), 0)
		if err != nil && strings.Contains(err.Error(), "UNCERTIFIED") {
			return nil // the promoted one answers
		}
		return err
	})
	t.Logf("the promoted replica was reached after %s", time.Since(promoted))
}

// A slot that is moving to another node, and then has moved.
func TestCluster_CallsGoWhereTheSlotIs(t *testing.T) {
	t.Parallel()
	c := lab.NewRedisCluster(t, 2)
	rdb := timeline.Dial(timeline.DialConfig{Addrs: c.Addrs(), CallTimeout: time.Second})
	t.Cleanup(func() { _ = rdb.Close() })
	from, to := redis.NewClient(&redis.Options{Addr: c.Nodes[0].Addr}),
		redis.NewClient(&redis.Options{Addr: c.Nodes[1].Addr})
	t.Cleanup(func() { _, _ = from.Close(), to.Close() })
	ctx := t.Context()
	slot := from.ClusterKeySlot(ctx, "{a}").Val()
	if c.Owner("{a}") != c.Nodes[0] {
		from, to = to, from
	}
	if err := rdb.Set(ctx, "{a}before", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	ids := map[*redis.Client]string{}
	for _, node := range []*redis.Client{from, to} {
		id, err := node.Do(ctx, "CLUSTER", "MYID").Text()
		if err != nil {
			t.Fatal(err)
		}
		ids[node] = id
	}
	set := func(node *redis.Client, words ...any) {
		t.Helper()
		if err := node.Do(ctx, append([]any{"CLUSTER", "SETSLOT", slot}, words...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set(to, "IMPORTING", ids[from])
	set(from, "MIGRATING", ids[to])
	script := redis.NewScript("redis.call('SET', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[1])")
	if got, err := script.Run(ctx, rdb, []string{"{a}asked"}, "yes").Text(); err != nil || got != "yes" {
		t.Errorf("a key that is not there any more: got %q, %v", got, err)
	}
	if got, err := rdb.Get(ctx, "{a}before").Result(); err != nil || got != "1" {
		t.Errorf("a key that is still there: got %q, %v", got, err)
	}
	both := redis.NewScript("return redis.call('EXISTS', KEYS[1], KEYS[2])")
	if err := both.Run(ctx, rdb, []string{"{a}asked", "{a}before"}).Err(); err == nil ||
		!strings.HasPrefix(err.Error(), "TRYAGAIN") {
		t.Errorf("keys at two nodes: got %v", err)
	}
	if err := from.Migrate(ctx, "127.0.0.1", strings.TrimPrefix(to.Options().Addr, "127.0.0.1:"), "{a}before", 0,
		time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	set(to, "NODE", ids[to])
	set(from, "NODE", ids[to])
	if got, err := rdb.Get(ctx, "{a}before").Result(); err != nil || got != "1" {
		t.Errorf("after the slot has moved: got %q, %v", got, err)
	}
	pipe := rdb.Pipeline()
	asked := pipe.Get(ctx, "{a}asked")
	if _, err := pipe.Exec(ctx); err != nil || asked.Val() != "yes" {
		t.Errorf("in a pipeline: got %q, %v", asked.Val(), err)
	}
}

// One of three nodes is lost for good: the buckets of the others keep working, and an instance can start.
func TestCluster_ANodeThatIsAwayStopsOnlyItsBuckets(t *testing.T) {
	t.Parallel()
	const buckets message.Bucket = 12
	c := lab.NewRedisCluster(t, 3)
	tl, namespace := clustered(t, buckets, c.Addrs()...)
	ctx := t.Context()
	at := func(bucket message.Bucket) *lab.Redis { return c.Owner(fmt.Sprintf("{%s:%d}", namespace, bucket)) }
	for b := range buckets {
		if err := tl.Begin(ctx, b, uint64(10+b)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tl.Pause(ctx, scheduler.Pause{Pattern: "orders.>", By: "a", At: 1}); err != nil {
		t.Fatal(err)
	}
	lost := at(scheduler.PausesBucket) // which keeps the pauses
	lost.Kill()

	heads, err := tl.Heads(ctx)
	standings, err2 := tl.Standings(ctx)
	lags, err3 := tl.Lags(ctx)
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	highest, answering := uint64(0), 0
	for b := range buckets {
		away := at(b) == lost
		if (heads[b].Err != nil) != away || (standings[b].Err != nil) != away || (lags[b].Err != nil) != away ||
			standings[b].Whole() == away {
			t.Errorf("bucket %d, away %v: head %v, standing %+v, lag %v", b, away, heads[b].Err,
				standings[b], lags[b].Err)
		}
		if !away {
			answering++
			highest = max(highest, uint64(10+b))
		}
	}
	if answering == 0 || answering == int(buckets) {
		t.Fatalf("%d of %d buckets answer", answering, buckets)
	}
	if term, err := tl.MaxTerm(ctx); err != nil || term != highest {
		t.Errorf("the highest term: got %d, %v; want %d", term, err, highest)
	}
	if pauses, _, err := tl.Pauses(ctx); err != nil || len(pauses) != 1 || pauses[0].Pattern != "orders.>" ||
		pauses[0].By != "a" {
		t.Errorf("what is paused: got %+v, %v", pauses, err)
	}
	if _, err := tl.Find(ctx, scheduler.Ref{ID: "some-order"}); !errors.Is(err, scheduler.ErrUnavailable) &&
		!errors.Is(err, scheduler.ErrOutcomeUnknown) {
		t.Errorf("an id that no answering bucket knows: got %v, want unavailable", err)
	}
	clock := scheduler.NewClock(scheduler.System())
	lab.Eventually(t, 10*time.Second, func() error { return tl.SampleClock(ctx, clock) })

	// An instance that starts now.
	rdb := timeline.Dial(timeline.DialConfig{Addrs: c.Addrs(), CallTimeout: time.Second})
	t.Cleanup(func() { _ = rdb.Close() })
	config := timeline.Config{Client: rdb, Namespace: namespace, Buckets: buckets, EndedKeep: time.Minute,
		TombstoneKeep: time.Minute, TombstoneLimit: 10}
	late, err := timeline.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := late.Prepare(ctx); err != nil {
		t.Errorf("prepare: %v", err)
	}
	config.Buckets = buckets + 1
	other, err := timeline.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Prepare(ctx); !errors.Is(err, timeline.ErrUnfit) {
		t.Errorf("prepare with another number of buckets: %v", err)
	}
	m, err := timeline.NewMachine(
		timeline.MachineConfig{Client: rdb, Namespace: namespace, Instance: "late", Local: scheduler.System()})
	if err != nil {
		t.Fatal(err)
	}
	leasing, stop := context.WithCancel(ctx)
	leased := make(chan error, 1)
	go func() { leased <- m.Run(leasing) }()
	slotOf(t, m)
	stop()
	<-leased
}
