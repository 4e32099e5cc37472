package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

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
		before := s.Certified()
		outages = append(outages, time.Now())
		closed := s.Loses(h, "FLUSHALL")
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		s.Whole(before, a, b)
		outages = append(outages, time.Now())
		aside("after") // it was overdue when the leader began again
		if came := len(held.Snapshot()); came > n {
			t.Errorf("%d messages of a paused topic came after redis had lost the pause", came-n)
		}
		s.Says(b, 0, "", "topics", "resume", "quiet.held")
		held.Bodies(t, n+1)
		s.Settled(0, closed)
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
	before := s.Certified()
	gone := time.Now()
	closed := s.Loses(h, "redis comes back empty")
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
	s.Whole(before, a, b)
	certified := time.Now()
	s.Settled(0, closed)
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
