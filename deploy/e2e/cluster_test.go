package e2e_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// onCluster puts a site on a Redis Cluster of three masters.
func onCluster(s *site.Site, options ...lab.RedisClusterOption) *lab.RedisCluster {
	s.T.Helper()
	c := lab.NewRedisCluster(s.T, 3, options...)
	s.RedisAddr = strings.Join(c.Addrs(), ",")
	s.Settings = append(s.Settings, "TARRY_REDIS_PASSWORD=", "TARRY_BUCKETS=8")
	return c
}

const clusterBuckets = 8

// lies are the messages in Redis that lie with a node.
func lies(s *site.Site, c *lab.RedisCluster, node *lab.Redis) map[string]bool {
	s.T.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: node.Addr})
	defer rdb.Close()
	found := map[string]bool{}
	for bucket := range clusterBuckets {
		tag := fmt.Sprintf("{%s:%d}", s.Ns, bucket)
		if c.Owner(tag) != node {
			continue
		}
		uids, err := rdb.HKeys(s.T.Context(), tag+":msg").Result()
		if err != nil {
			s.T.Fatal(err)
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

// watchArrivals watches a subject, which a stream holds.
func watchArrivals(s *site.Site, subject string) *arrivals {
	s.T.Helper()
	a := &arrivals{first: map[string]time.Time{}}
	nc := s.Connect("watcher of " + subject)
	if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if uid := m.Header.Get("Tarry-Id"); a.first[uid].IsZero() {
			a.first[uid] = time.Now()
		}
	}); err != nil {
		s.T.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		s.T.Fatal(err)
	}
	return a
}

// all waits for every one of the messages.
func (a *arrivals) all(t *testing.T, uids []string) {
	t.Helper()
	lab.Eventually(t, site.Patience, func() error {
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
func spread(s *site.Site, i *site.Instance, topic string, n int, from time.Time, over time.Duration) (uids []string) {
	s.T.Helper()
	for first := 0; first < n; first += 1000 {
		var batch []map[string]any
		for seq := first; seq < min(first+1000, n); seq++ {
			batch = append(batch, map[string]any{"topic": topic, "body": strconv.Itoa(seq), "key": fmt.Sprint("k", seq),
				"at": from.Add(over * time.Duration(seq) / time.Duration(n)).UnixMilli()})
		}
		uids = append(uids, s.Batch(i, batch)...)
	}
	return uids
}

// A master dies under load; its messages are served by its replica.
func TestAClusterLosesAMasterAndGoesOnFromItsReplica(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	c := onCluster(s, lab.RedisReplicas(1), lab.RedisNodeTimeout(500*time.Millisecond))
	s.Stream("ORDERS", "orders.>")
	a := s.Start("a")
	s.Start("b")
	came := watchArrivals(s, "orders.>")
	victim := c.Owner(fmt.Sprintf("{%s:0}", s.Ns))
	uids := spread(s, a, "orders.late", 3000, time.Now().Add(5*time.Second), 6*time.Second)
	lost := lies(s, c, victim)
	lab.Eventually(t, site.Patience, func() error {
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
	s := site.New(t, site.Options{})
	c := onCluster(s, lab.RedisNodeTimeout(500*time.Millisecond))
	s.Stream("ORDERS", "orders.>")
	a, b := s.Start("a"), s.Start("b")
	leader, term := s.Leader(0, a, b)
	next := s.Others(leader)[0]
	came := watchArrivals(s, "orders.>")
	if answer := s.Must(a, http.MethodPost, "/v1/topics/orders.held/pause", nil); answer.Status != http.StatusOK {
		t.Fatalf("pause: %d %s", answer.Status, answer.Raw)
	}
	victim := c.Owner(fmt.Sprintf("{%s:0}", s.Ns)) // which keeps the pauses
	begun := time.Now()
	uids := spread(s, a, "orders.late", 1500, begun.Add(2*time.Second), 8*time.Second)
	var lost, others []string
	lostKey, otherKey, there := "", "", lies(s, c, victim)
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

	push := func(topic, key string) site.Answer {
		body := map[string]any{"topic": topic, "delay": "10ms", "body": "x"}
		if key != "" {
			body["key"] = key
		}
		return s.Must(next, http.MethodPost, "/v1/messages", body)
	}
	lab.Eventually(t, site.Patience, func() error {
		answer, err := next.Call(t.Context(), http.MethodPost, "/v1/messages",
			map[string]any{"topic": "orders.late", "delay": "1s", "key": lostKey})
		if err != nil ||
			answer.Status != http.StatusServiceUnavailable || answer.Error != "bucket_unavailable" {
			return fmt.Errorf("a push to a bucket of the node: %d %s %w", answer.Status, answer.Raw, err)
		}
		return nil
	})
	for range 10 {
		if answer := push("orders.late", ""); answer.Status != http.StatusCreated {
			t.Errorf("a push without a key: %d %s", answer.Status, answer.Raw)
		} else {
			others = append(others, answer.UID)
		}
	}
	if answer := s.Must(next, http.MethodGet, "/readyz", nil); answer.Status != http.StatusOK ||
		!strings.Contains(answer.Raw, "degraded") {
		t.Errorf("readyz of an instance that takes some pushes: %d %s", answer.Status, answer.Raw)
	}
	tells := func(away bool) {
		t.Helper()
		lab.Eventually(t, site.Patience, func() error {
			answer, err := next.Call(t.Context(), http.MethodGet, "/v1/overview", nil)
			for _, word := range []string{`"word":"bucket_away","level":"stop"`, `"word":"set_aside","level":"warn"`} {
				if answer.Status != http.StatusOK || strings.Contains(answer.Raw, word) != away {
					return fmt.Errorf("the overview is %s, %w, want %s: %t", answer.Raw, err, word, away)
				}
			}
			return nil
		})
	}
	site.PublishStored(t, s.Connect("by tag"), &nats.Msg{Subject: "delayed.orders.late",
		Header: nats.Header{"Tarry-Delay": {"1s"}, "Tarry-Key": {lostKey}}})
	tells(true)
	if answer := s.Must(next, http.MethodGet, "/v1/messages/nobody-knows-this",
		nil); answer.Status == http.StatusNotFound {
		t.Errorf("an id that may lie with the node: %d %s", answer.Status, answer.Raw)
	}
	leader.Kill()
	s.Leader(term, next)
	held := push("orders.held", otherKey)
	if held.Status != http.StatusCreated {
		t.Errorf("a push to a paused topic: %d %s", held.Status, held.Raw)
	}
	if answer := push("orders.late", otherKey); answer.Status != http.StatusCreated {
		t.Errorf("a push under the next leader: %d %s", answer.Status, answer.Raw)
	} else {
		others = append(others, answer.UID)
	}
	came.all(t, others)
	came.mu.Lock()
	if !came.first[held.UID].IsZero() {
		t.Error("a message of a paused topic came, while the node that keeps the pauses is away")
	}
	came.mu.Unlock()
	if now, led := s.Leader(term, next); now != next || led == term {
		t.Errorf("%s leads under term %d", now.Name, led)
	}

	victim.Resume()
	came.all(t, lost)
	lab.Eventually(t, site.Patience, func() error {
		answer, err := next.Call(t.Context(), http.MethodPost, "/v1/messages",
			map[string]any{"topic": "orders.late", "delay": "1s", "key": lostKey})
		if err != nil || answer.Status != http.StatusCreated {
			return fmt.Errorf("a push to a bucket of the node: %d %s %w", answer.Status, answer.Raw, err)
		}
		return nil
	})
	tells(false)
}
