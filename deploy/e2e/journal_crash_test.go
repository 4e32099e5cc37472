package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// failpoints is the site's binary with failpoints: an instance that is started with FAILPOINT=point:n kills itself when
// it passes that point for the n-th time.
func (s *site) failpoints() {
	s.t.Helper()
	s.binary = lab.Binary(s.t, "./cmd/tarry", append(lab.Race(), "-tags=failpoints")...)
}

// dies waits until an instance has killed itself.
func (s *site) dies(i *instance) {
	s.t.Helper()
	if code := i.Wait(patience); code != -1 {
		s.t.Fatalf("%s ended with %d, and not by its failpoint", i.name, code)
	}
}

// A Redis that restarts from its file has lost its last writes: nothing, or a good part when the machine went down too.
func TestARedisThatComesBackIsComparedWithTheJournal(t *testing.T) {
	t.Parallel()
	s, a, b, h := pair(t, "sync", lab.SharedMariaDB(t))
	l := &load{s: s, h: h, make: maker{seed: 23, spread: 4 * time.Second, burst: time.Second}, least: 1400, rate: 150,
		doors: s.instances}
	l.begin(t)
	for _, lost := range []float64{0, 0.5} {
		moment(t, h, "a burst", inBurst)
		before := s.certified()
		closed := h.begin(window{why: "kill -9 of redis", from: time.Now(), since: time.Now().Add(-unrecorded)})
		s.redis.Kill()
		truncateAOF(t, s.redis.Dir(), lost)
		s.redis.Restart()
		s.whole(before, a, b)
		s.settled(0, closed)
	}
	l.finish(t)
	l.judge(t)
	s.onceStored()
	s.journaled(h)
	s.oneLeader()
}

// truncateAOF cuts the end off the append-only file, as a loss of power does with what was not yet on the disk.
func truncateAOF(t *testing.T, dir string, part float64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.incr.aof"))
	if err == nil && len(files) == 0 {
		files = []string{filepath.Join(dir, "appendonly.aof")} // before redis 7
	}
	if err != nil || len(files) != 1 {
		t.Fatalf("the append-only files are %v: %v", files, err)
	}
	info, err := os.Stat(files[0])
	if err == nil {
		err = os.Truncate(files[0], info.Size()-int64(part*float64(info.Size())))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("redis loses the last %.0f %% of %d bytes", 100*part, info.Size())
}

func TestTheJournalMissesNothingOfInstancesThatDie(t *testing.T) {
	t.Parallel()
	s, a, b, h := pair(t, "sync", lab.SharedMariaDB(t))
	l := &load{s: s, h: h, make: maker{seed: 24, spread: 3 * time.Second, burst: time.Second}, least: 900, rate: 150,
		doors: s.instances, byHTTP: true}
	l.begin(t)
	leader, term := s.leader(0, a, b)
	standby := s.others(leader)[0]

	moment(t, h, "a burst", inBurst)
	standby.Kill() // no window: it delivers nothing
	moment(t, h, "a burst", inBurst)
	standby.Restart()
	s.ready(standby)

	moment(t, h, "a burst", inBurst)
	closed := h.open("kill -9 of the leader", time.Now())
	leader.Kill()
	s.leader(term, standby)
	moment(t, h, "a delivery by the next leader", anything)
	leader.Restart()
	s.ready(leader)
	s.settled(term, closed)

	l.finish(t)
	l.judge(t)
	s.onceStored()
	s.journaled(h)
	s.oneLeader()
}

// Instances die at the two worst moments of a commit, leading and not.
func TestTheJournalMissesNothingOfABatchThatIsBrokenOff(t *testing.T) {
	t.Parallel()
	for _, points := range [][2]string{
		{"after-redis-before-sql", "after-commit-before-delete"},
		{"after-commit-before-delete", "after-redis-before-sql"},
	} {
		t.Run("leader "+points[0], func(t *testing.T) {
			s := newSite(t, siteOptions{})
			s.journal("sync", lab.SharedMariaDB(t))
			s.failpoints()
			a := s.start("a", "FAILPOINT="+points[0]+":150")
			b := s.start("b", "FAILPOINT="+points[1]+":60")
			c := s.start("c")
			leader, term := s.leader(0, a, b, c)
			if leader != a {
				t.Fatalf("%s leads", leader.name)
			}
			h := newHistory(s.ns)
			s.consume(h)
			s.explain(h)
			// by tag, NATS sends again after half a minute what died with an instance
			l := &load{s: s, h: h, make: maker{seed: 25, spread: 2 * time.Second, burst: time.Second}, least: 500,
				rate: 120, doors: s.instances, byHTTP: true}
			l.begin(t)
			closed := h.open("the leader dies", time.Now())
			s.dies(b)
			s.dies(a)
			s.leader(term, c)
			s.settled(term, closed)
			l.finish(t)
			l.judge(t)
			s.onceStored()
			s.journaled(h)
		})
	}
}

// Two leaders die one after the other while they make an empty Redis whole; the third finishes it.
func TestWhatALeaderBeganToRestoreTheNextOneFinishes(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"sync", "async"} {
		t.Run(mode, func(t *testing.T) {
			s := newSite(t, siteOptions{})
			s.journal(mode, lab.SharedMariaDB(t))
			s.failpoints()
			a := s.start("a", "FAILPOINT=mid-restore")
			// In async the buckets are certified as filling before, once each.
			b := s.start("b", "FAILPOINT=before-certify:"+map[string]string{"sync": "3", "async": "7"}[mode])
			c := s.start("c")
			c.Stop()
			h := newHistory(s.ns)
			s.consume(h)
			s.explain(h)
			l := &load{s: s, h: h, make: maker{seed: 26, spread: 8 * time.Second}, least: 700, rate: 150,
				doors: s.instances, byHTTP: true}
			l.begin(t)
			if mode == "async" { // what is answered is in the journal only a little later
				l.wait()
				s.emptied()
			} else {
				moment(t, h, "a delivery", anything)
			}
			before := s.certified()
			closed := h.loses("FLUSHALL")
			if err := s.client().FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			s.dies(a)
			s.dies(b)
			if mode == "sync" { // a bucket may be used, another may not
				s.halfCertified()
			}
			c.Restart()
			s.ready(c)
			s.leader(2, c)
			s.whole(before, c)
			s.settled(0, closed)
			if mode == "async" {
				l.over = make(chan struct{}) // it has ended
			}
			l.finish(t)
			l.judge(t)
			s.onceStored()
			s.journaled(h)
		})
	}
}

// halfCertified waits until some buckets are certified and some are not.
func (s *site) halfCertified() {
	s.t.Helper()
	rdb := s.client()
	lab.Eventually(s.t, patience, func() error {
		n := 0
		for bucket := range 4 {
			gen, err := rdb.Get(s.t.Context(), fmt.Sprintf("{%s:%d}:gen", s.ns, bucket)).Result()
			if err == nil && strings.HasSuffix(gen, "whole") {
				n++
			}
		}
		if n != 2 {
			return fmt.Errorf("%d buckets are certified", n)
		}
		return nil
	})
}
