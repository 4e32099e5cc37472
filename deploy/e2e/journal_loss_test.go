package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// unrecorded is how old a delivery may be that the journal does not have yet: what an instance did not commit in time
// is left to the drainer, which takes what is a second old.
const unrecorded = 2 * time.Second

// loses opens the window of a loss of Redis: what the journal had not yet recorded as delivered may be delivered again.
func (h *history) loses(why string) (closed func()) {
	now := time.Now()
	return h.begin(window{why: why, from: now, since: now.Add(-unrecorded)})
}

// certified counts how often leaders have certified Redis.
func (s *site) certified() int {
	s.t.Helper()
	n := 0
	for _, i := range s.instances {
		n += bytes.Count(i.history(), []byte(`"message":"the store is certified"`))
	}
	return n
}

// whole waits until Redis has been certified more often than before, in every bucket, and every instance accepts. One
// recovery may certify some buckets, and a second one the rest, because their scanners notice a loss one by one.
func (s *site) whole(before int, doors ...*instance) {
	s.t.Helper()
	begun := time.Now()
	lab.Eventually(s.t, patience, func() error {
		if n := s.certified(); n <= before {
			return fmt.Errorf("redis has been certified %d times", n)
		}
		return nil
	})
	rdb := s.client()
	lab.Eventually(s.t, patience, func() error {
		info, err := rdb.Info(s.t.Context(), "replication").Result()
		if err != nil {
			return err
		}
		_, history, _ := strings.Cut(info, "master_replid:")
		for bucket := range 4 {
			gen, err := rdb.Get(s.t.Context(), fmt.Sprintf("{%s:%d}:gen", s.ns, bucket)).Result()
			if err != nil || !strings.HasSuffix(gen, " whole") || !strings.Contains(gen, history[:16]) {
				return fmt.Errorf("bucket %d is certified as %q, the history is %.16s: %w", bucket, gen, history, err)
			}
		}
		return nil
	})
	certified := time.Since(begun)
	for _, i := range doors {
		s.accepts(i)
	}
	s.t.Logf("certified after %s, every instance accepted pushes after %s", certified.Round(time.Millisecond),
		time.Since(begun).Round(time.Millisecond))
}

// accepts waits until an instance takes a push, and takes it back.
func (s *site) accepts(i *instance) {
	s.t.Helper()
	var pushed answer
	id := fmt.Sprintf("probe %d", time.Now().UnixNano())
	lab.Eventually(s.t, patience, func() error {
		a, err := i.call(s.t.Context(), http.MethodPost, "/v1/messages",
			map[string]any{"topic": "quiet.probe", "delay": "1h", "id": id})
		if err == nil && a.status != http.StatusCreated && a.status != http.StatusOK {
			err = fmt.Errorf("%s does not accept: %d %s", i.name, a.status, a.raw)
		}
		pushed = a
		return err
	})
	lab.Eventually(s.t, patience, func() error {
		a, err := i.call(s.t.Context(), http.MethodDelete, "/v1/messages/"+pushed.UID, nil)
		if err == nil && a.State != "canceled" {
			err = fmt.Errorf("%s does not cancel: %d %s", i.name, a.status, a.raw)
		}
		return err
	})
}

func TestAFlushedRedisIsRebuiltFromTheJournal(t *testing.T) {
	t.Parallel()
	s, a, b, h := pair(t, "sync", lab.SharedMariaDB(t))
	l := &load{s: s, h: h, make: maker{seed: 21, spread: 4 * time.Second, burst: time.Second}, least: 1000, rate: 120,
		doors: s.instances}
	l.begin(t)
	rdb := s.client()
	held := s.inbox("quiet.held")
	aside := func(step string) {
		lab.Eventually(t, patience, func() error {
			lanes, err := rdb.Keys(t.Context(), "*:parked:paused.quiet.held").Result()
			if err == nil && len(lanes) != 1 {
				err = fmt.Errorf("%s: the leader holds nothing aside: %d lanes", step, len(lanes))
			}
			return err
		})
	}
	var outages []time.Time
	for n := range 2 {
		s.says(a, 0, "", "topics", "pause", "quiet.held")
		s.push(b, map[string]any{"topic": "quiet.held", "delay": "10ms", "body": "held"})
		moment(t, h, "a burst", inBurst)
		aside("before")
		before := s.certified()
		outages = append(outages, time.Now())
		closed := h.loses("FLUSHALL")
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		s.whole(before, a, b)
		outages = append(outages, time.Now())
		aside("after") // it was overdue when the leader began again
		if came := len(held.snapshot()); came > n {
			t.Errorf("%d messages of a paused topic came after redis had lost the pause", came-n)
		}
		s.says(b, 0, "", "topics", "resume", "quiet.held")
		held.bodies(t, n+1)
		s.settled(0, closed)
	}
	l.finish(t)
	l.judge(t)
	h.prompt(t, outages...)
	s.onceStored()
	s.journaled(h)
	s.oneLeader()
}

func TestARedisThatComesBackEmptyIsRebuiltFromTheJournal(t *testing.T) {
	t.Parallel()
	s, a, b, h := pair(t, "sync", lab.SharedMariaDB(t))
	l := &load{s: s, h: h, make: maker{seed: 22, spread: 4 * time.Second, burst: time.Second}, least: 1000, rate: 120,
		doors: s.instances}
	l.begin(t)
	moment(t, h, "a burst", inBurst)
	before := s.certified()
	gone := time.Now()
	closed := h.loses("redis comes back empty")
	s.redis.Kill()
	for _, name := range []string{"appendonlydir", "appendonly.aof"} { // by version of redis
		if err := os.RemoveAll(filepath.Join(s.redis.Dir(), name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range s.instances {
		s.missing(i, "redis")
		s.refuses(i)
	}
	s.redis.Restart()
	if n := s.client().DBSize(t.Context()).Val(); n > 20 {
		t.Fatalf("redis came back with %d keys", n)
	}
	s.whole(before, a, b)
	certified := time.Now()
	s.settled(0, closed)
	l.finish(t)
	l.judge(t)
	h.prompt(t, gone, certified)
	s.onceStored()
	s.journaled(h)
	s.oneLeader()
}

// prompt holds what instances had taken before Redis was whole again to the later of that moment and its due time:
// nothing waits for an audit. The outages are times by pairs: from when until when.
func (h *history) prompt(t *testing.T, outages ...time.Time) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	first := map[int]time.Time{}
	for _, a := range h.arrivals {
		if _, seen := first[a.seq]; !seen {
			first[a.seq] = a.at
		}
	}
	most, n, which := time.Duration(0), 0, 0
	for seq, s := range h.sent {
		at, came := first[seq]
		if !came || !s.kept || s.uid == "" { // by tag, it may wait in the intake until an instance tries again
			continue
		}
		from := time.UnixMilli(s.due) // a delay counts from when it was taken, not from the first try
		for i := 0; i < len(outages); i += 2 {
			if gone, whole := outages[i], outages[i+1]; s.keptAt.Before(whole) && from.Before(whole) && at.After(gone) {
				from, n = whole, n+1
			}
		}
		if late := at.Sub(from); late > most {
			most, which = late, seq
		}
	}
	if most > promptly {
		s := h.sent[which]
		t.Errorf("message %d came %s later than it could: taken as %s at %s, due %s, seen %s", which, most, s.uid,
			stamp(s.keptAt), stamp(time.UnixMilli(s.due)), stamp(first[which]))
	}
	t.Logf("%d messages were overdue when redis was whole again; the latest came %s after it could", n, most)
}

// promptly is below the ten seconds after which an audit would bring what a recovery had missed.
const promptly = 8 * time.Second
