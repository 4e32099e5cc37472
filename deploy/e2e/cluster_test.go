package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// onCluster puts a site on a Redis Cluster of three masters.
func (s *site) onCluster(options ...lab.RedisClusterOption) *lab.RedisCluster {
	s.t.Helper()
	c := lab.NewRedisCluster(s.t, 3, options...)
	s.redisAddr = strings.Join(c.Addrs(), ",")
	s.settings = append(s.settings, "TARRY_REDIS_PASSWORD=", "TARRY_BUCKETS=8")
	return c
}

const clusterBuckets = 8

// lies are the messages in Redis that lie with a node.
func (s *site) lies(c *lab.RedisCluster, node *lab.Redis) map[string]bool {
	s.t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: node.Addr})
	defer rdb.Close()
	found := map[string]bool{}
	for bucket := range clusterBuckets {
		tag := fmt.Sprintf("{%s:%d}", s.ns, bucket)
		if c.Owner(tag) != node {
			continue
		}
		uids, err := rdb.HKeys(s.t.Context(), tag+":msg").Result()
		if err != nil {
			s.t.Fatal(err)
		}
		for _, uid := range uids {
			found[uid] = true
		}
	}
	return found
}

// arrivals keep when each message of a stream came first.
type arrivals struct {
	mu    sync.Mutex
	first map[string]time.Time // by uid
}

// arrivals watches a subject, which a stream holds.
func (s *site) arrivals(subject string) *arrivals {
	s.t.Helper()
	a := &arrivals{first: map[string]time.Time{}}
	nc := s.connect("watcher of " + subject)
	if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if uid := m.Header.Get("Tarry-Id"); a.first[uid].IsZero() {
			a.first[uid] = time.Now()
		}
	}); err != nil {
		s.t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		s.t.Fatal(err)
	}
	return a
}

// all waits for every one of the messages.
func (a *arrivals) all(t *testing.T, uids []string) {
	t.Helper()
	lab.Eventually(t, patience, func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		missing := 0
		for _, uid := range uids {
			if a.first[uid].IsZero() {
				missing++
			}
		}
		if missing > 0 {
			return fmt.Errorf("%d of %d messages have not come", missing, len(uids))
		}
		return nil
	})
}

// spread pushes n messages that fall due one after the other, and returns their
// uids.
func (s *site) spread(i *instance, topic string, n int, from time.Time, over time.Duration) (uids []string) {
	s.t.Helper()
	for first := 0; first < n; first += 1000 {
		var text strings.Builder
		text.WriteString(`{"messages":[`)
		for seq := first; seq < min(first+1000, n); seq++ {
			if seq > first {
				text.WriteByte(',')
			}
			fmt.Fprintf(&text, `{"topic":%q,"at":%d,"body":"%d","key":"k%d"}`, topic,
				from.Add(over*time.Duration(seq)/time.Duration(n)).UnixMilli(), seq, seq)
		}
		text.WriteString(`]}`)
		answer := s.must(i, http.MethodPost, "/v1/messages/batch", text.String())
		if answer.status != http.StatusOK || len(answer.Results) != min(1000, n-first) {
			s.t.Fatalf("a batch: %d %.300s", answer.status, answer.raw)
		}
		for _, r := range answer.Results {
			if r.Error != "" {
				s.t.Fatalf("a push: %+v", r)
			}
			uids = append(uids, r.UID)
		}
	}
	return uids
}

// A master dies under load; its messages are served by its replica.
func TestAClusterLosesAMasterAndGoesOnFromItsReplica(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{})
	c := s.onCluster(lab.RedisReplicas(1), lab.RedisNodeTimeout(500*time.Millisecond))
	s.stream("ORDERS", "orders.>")
	a := s.start("a")
	s.start("b")
	came := s.arrivals("orders.>")
	victim := c.Owner(fmt.Sprintf("{%s:0}", s.ns))
	uids := s.spread(a, "orders.late", 3000, time.Now().Add(2*time.Second), 6*time.Second)
	lost := s.lies(c, victim)
	lab.Eventually(t, patience, func() error {
		came.mu.Lock()
		defer came.mu.Unlock()
		if len(came.first) < 300 {
			return fmt.Errorf("%d have come", len(came.first))
		}
		return nil
	})
	victim.Kill()
	c.WaitMaster(c.Replica(victim))
	promoted := time.Now()
	came.all(t, uids)
	first := time.Time{}
	came.mu.Lock()
	for uid, at := range came.first {
		if at.After(promoted) && lost[uid] && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	came.mu.Unlock()
	if first.IsZero() {
		t.Fatal("nothing came from the promoted replica")
	}
	t.Logf("first delivery from the promoted replica after %s", first.Sub(promoted))
	if first.Sub(promoted) > 10*time.Second { // it took a minute when nobody asked who serves the slots
		t.Errorf("first delivery from the promoted replica after %s", first.Sub(promoted))
	}
}

// A master without a replica freezes. Only what lies with it stops: for the leader
// that was there, and for the next one.
func TestAClusterNodeThatFreezesStopsOnlyItsBuckets(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{})
	c := s.onCluster(lab.RedisNodeTimeout(500 * time.Millisecond))
	s.stream("ORDERS", "orders.>")
	a, b := s.start("a"), s.start("b")
	leader, term := s.leader(0, a, b)
	next := s.others(leader)[0]
	came := s.arrivals("orders.>")
	if answer := s.must(a, http.MethodPost, "/v1/topics/orders.held/pause", nil); answer.status != http.StatusOK {
		t.Fatalf("pause: %d %s", answer.status, answer.raw)
	}
	victim := c.Owner(fmt.Sprintf("{%s:0}", s.ns)) // which keeps the pauses
	begun := time.Now()
	uids := s.spread(a, "orders.late", 1500, begun.Add(2*time.Second), 8*time.Second)
	var lost, others []string
	lostKey, otherKey, there := "", "", s.lies(c, victim)
	for seq, uid := range uids {
		if key := fmt.Sprint("k", seq); there[uid] {
			lost, lostKey = append(lost, uid), key
		} else {
			others, otherKey = append(others, uid), key
		}
	}
	if len(lost) == 0 || len(others) == 0 {
		t.Fatalf("%d messages are on the node, %d on others", len(lost), len(others))
	}
	victim.Pause()

	push := func(topic, key string) answer {
		body := map[string]any{"topic": topic, "delay": "10ms", "body": "x"}
		if key != "" {
			body["key"] = key
		}
		return s.must(next, http.MethodPost, "/v1/messages", body)
	}
	lab.Eventually(t, patience, func() error {
		answer, err := next.call(t.Context(), http.MethodPost, "/v1/messages",
			map[string]any{"topic": "orders.late", "delay": "1s", "key": lostKey})
		if err != nil ||
			answer.status != http.StatusServiceUnavailable || answer.Error != "bucket_unavailable" {
			return fmt.Errorf("a push to a bucket of the node: %d %s %w", answer.status, answer.raw, err)
		}
		return nil
	})
	for range 10 {
		if answer := push("orders.late", ""); answer.status != http.StatusCreated {
			t.Errorf("a push without a key: %d %s", answer.status, answer.raw)
		} else {
			others = append(others, answer.UID)
		}
	}
	if answer := s.must(next, http.MethodGet, "/readyz", nil); answer.status != http.StatusOK ||
		!strings.Contains(answer.raw, "degraded") {
		t.Errorf("readyz of an instance that takes some pushes: %d %s", answer.status, answer.raw)
	}
	if answer := s.must(next, http.MethodGet, "/v1/messages/nobody-knows-this",
		nil); answer.status == http.StatusNotFound {
		t.Errorf("an id that may lie with the node: %d %s", answer.status, answer.raw)
	}
	leader.Kill()
	s.leader(term, next)
	held := push("orders.held", otherKey)
	if held.status != http.StatusCreated {
		t.Errorf("a push to a paused topic: %d %s", held.status, held.raw)
	}
	if answer := push("orders.late", otherKey); answer.status != http.StatusCreated {
		t.Errorf("a push under the next leader: %d %s", answer.status, answer.raw)
	} else {
		others = append(others, answer.UID)
	}
	came.all(t, others)
	came.mu.Lock()
	if !came.first[held.UID].IsZero() {
		t.Error("a message of a paused topic came, while the node that keeps the pauses is away")
	}
	came.mu.Unlock()
	if now, led := s.leader(term, next); now != next || led == term {
		t.Errorf("%s leads under term %d", now.name, led)
	}

	victim.Resume()
	came.all(t, lost)
	lab.Eventually(t, patience, func() error {
		answer, err := next.call(t.Context(), http.MethodPost, "/v1/messages",
			map[string]any{"topic": "orders.late", "delay": "1s", "key": lostKey})
		if err != nil || answer.status != http.StatusCreated {
			return fmt.Errorf("a push to a bucket of the node: %d %s %w", answer.status, answer.raw, err)
		}
		return nil
	})
}
