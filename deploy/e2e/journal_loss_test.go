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

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// loses opens the window of a loss of Redis: what the journal has not yet recorded as delivered may be delivered again.
func loses(s *site.Site, h *site.History, why string) (closed func()) {
	s.T.Helper()
	return h.Begin(site.Window{Why: why, From: time.Now(), Recorded: s.Recorded(), Lost: true})
}

// certified counts how often leaders have certified Redis.
func certified(s *site.Site) int {
	s.T.Helper()
	n := 0
	for _, i := range s.Instances {
		n += bytes.Count(i.History(), []byte(`"message":"the store is certified"`))
	}
	return n
}

// whole waits until Redis has been certified more often than before, in every bucket, and every instance accepts. One
// recovery may certify some buckets, and a second one the rest, because their scanners notice a loss one by one.
func whole(s *site.Site, before int, doors ...*site.Instance) {
	s.T.Helper()
	begun := time.Now()
	lab.Eventually(s.T, site.Patience, func() error {
		if n := certified(s); n <= before {
			return fmt.Errorf("redis has been certified %d times", n)
		}
		return nil
	})
	rdb := s.Client()
	lab.Eventually(s.T, site.Patience, func() error {
		info, err := rdb.Info(s.T.Context(), "replication").Result()
		if err != nil {
			return err
		}
		_, history, _ := strings.Cut(info, "master_replid:")
		for bucket := range 4 {
			gen, err := rdb.Get(s.T.Context(), fmt.Sprintf("{%s:%d}:gen", s.Ns, bucket)).Result()
			if err != nil || !strings.Contains(gen, " whole ") || !strings.Contains(gen, history[:16]) {
				return fmt.Errorf("bucket %d is certified as %q, the history is %.16s: %w", bucket, gen, history, err)
			}
		}
		return nil
	})
	certified := time.Since(begun)
	for _, i := range doors {
		accepts(s, i)
	}
	s.T.Logf("certified after %s, every instance accepted pushes after %s", certified.Round(time.Millisecond),
		time.Since(begun).Round(time.Millisecond))
}

// accepts waits until an instance takes a push, and takes it back.
func accepts(s *site.Site, i *site.Instance) {
	s.T.Helper()
	var pushed site.Answer
	id := fmt.Sprintf("probe %d", time.Now().UnixNano())
	lab.Eventually(s.T, site.Patience, func() error {
		a, err := i.Call(s.T.Context(), http.MethodPost, "/v1/messages",
			map[string]any{"topic": "quiet.probe", "delay": "1h", "id": id})
		if err == nil && a.Status != http.StatusCreated && a.Status != http.StatusOK {
			err = fmt.Errorf("%s does not accept: %d %s", i.Name, a.Status, a.Raw)
		}
		pushed = a
		return err
	})
	lab.Eventually(s.T, site.Patience, func() error {
		a, err := i.Call(s.T.Context(), http.MethodDelete, "/v1/messages/"+pushed.UID, nil)
		if err == nil && a.State != "canceled" {
			err = fmt.Errorf("%s does not cancel: %d %s", i.Name, a.Status, a.Raw)
		}
		return err
	})
}

func TestAFlushedRedisIsRebuiltFromTheJournal(t *testing.T) {
	t.Parallel()
	s, a, b, h := site.Pair(t, "sync", lab.SharedMariaDB(t))
	l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 21, Spread: 4 * time.Second, Burst: time.Second}, Least: 1000,
		Rate:  120,
		Doors: s.Instances}
	l.Begin(t)
	owed := h.Owed(t)
	rdb := s.Client()
	held := s.Inbox("quiet.held")
	aside := func(step string) {
		lab.Eventually(t, site.Patience, func() error {
			lanes, err := rdb.Keys(t.Context(), "*:parked:paused.quiet.held").Result()
			if err == nil && len(lanes) != 1 {
				err = fmt.Errorf("%s: the leader holds nothing aside: %d lanes", step, len(lanes))
			}
			return err
		})
	}
	var outages []time.Time
	for n := range 2 {
		s.Says(a, 0, "", "topics", "pause", "quiet.held")
		s.Push(b, map[string]any{"topic": "quiet.held", "delay": "10ms", "body": "held"})
		site.Moment(t, h, "a burst", inBurst)
		aside("before")
		before := certified(s)
		outages = append(outages, time.Now())
		closed := loses(s, h, "FLUSHALL")
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		whole(s, before, a, b)
		outages = append(outages, time.Now())
		aside("after") // it was overdue when the leader began again
		if came := len(held.Snapshot()); came > n {
			t.Errorf("%d messages of a paused topic came after redis had lost the pause", came-n)
		}
		s.Says(b, 0, "", "topics", "resume", "quiet.held")
		held.Bodies(t, n+1)
		settled(s, 0, closed)
	}
	l.Finish(t)
	l.Judge(t)
	prompt(h, t, owed, outages...)
	s.OnceStored()
	s.Journaled(h)
	s.OneLeader()
}

func TestARedisThatComesBackEmptyIsRebuiltFromTheJournal(t *testing.T) {
	t.Parallel()
	s, a, b, h := site.Pair(t, "sync", lab.SharedMariaDB(t))
	l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 22, Spread: 4 * time.Second, Burst: time.Second}, Least: 1000,
		Rate:  120,
		Doors: s.Instances}
	l.Begin(t)
	site.Moment(t, h, "a burst", inBurst)
	owed := h.Owed(t)
	before := certified(s)
	gone := time.Now()
	closed := loses(s, h, "redis comes back empty")
	s.Redis.Kill()
	for _, name := range []string{"appendonlydir", "appendonly.aof"} { // by version of redis
		if err := os.RemoveAll(filepath.Join(s.Redis.Dir(), name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range s.Instances {
		s.Missing(i, "redis")
		refuses(s, i)
	}
	s.Redis.Restart()
	if n := s.Client().DBSize(t.Context()).Val(); n > 20 {
		t.Fatalf("redis came back with %d keys", n)
	}
	whole(s, before, a, b)
	certified := time.Now()
	settled(s, 0, closed)
	l.Finish(t)
	l.Judge(t)
	prompt(h, t, owed, gone, certified)
	s.OnceStored()
	s.Journaled(h)
	s.OneLeader()
}

// prompt holds what instances had taken before Redis was whole again to the later of that moment and its due time:
// nothing waits for an audit. The outages are times by pairs: from when until when.
func prompt(h *site.History, t *testing.T, owed time.Duration, outages ...time.Time) {
	t.Helper()
	h.Mu.Lock()
	defer h.Mu.Unlock()
	first := map[int]time.Time{}
	for _, a := range h.Arrivals {
		if _, seen := first[a.Seq]; !seen {
			first[a.Seq] = a.At
		}
	}
	most, n, which := time.Duration(0), 0, 0
	for seq, s := range h.Sent {
		at, came := first[seq]
		if !came || !s.Kept || s.Uid == "" { // by tag, it may wait in the intake until an instance tries again
			continue
		}
		from := time.UnixMilli(s.Due) // a delay counts from when it was taken, not from the first try
		for i := 0; i < len(outages); i += 2 {
			if gone, whole := outages[i], outages[i+1]; s.KeptAt.Before(whole) && from.Before(whole) && at.After(gone) {
				from, n = whole, n+1
			}
		}
		if late := at.Sub(from); late > most {
			most, which = late, seq
		}
	}
	if most > promptly+owed {
		s := h.Sent[which]
		t.Errorf("message %d came %s later than it could: taken as %s at %s, due %s, seen %s", which, most, s.Uid,
			site.Stamp(s.KeptAt), site.Stamp(time.UnixMilli(s.Due)), site.Stamp(first[which]))
	}
	t.Logf("%d messages were overdue when redis was whole again; the latest came %s after it could", n, most)
}

// promptly is below the ten seconds after which an audit would bring what a recovery had missed.
const promptly = 8 * time.Second
