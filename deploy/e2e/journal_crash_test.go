package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// dies waits until an instance has killed itself.
func dies(s *site.Site, i *site.Instance) {
	s.T.Helper()
	if code := i.Wait(site.Patience); code != -1 {
		s.T.Fatalf("%s ended with %d, and not by its failpoint", i.Name, code)
	}
}

// A Redis that restarts from its file has lost its last writes: nothing, or a good part when the machine went down too.
func TestARedisThatComesBackIsComparedWithTheJournal(t *testing.T) {
	t.Parallel()
	s, a, b, h := site.Pair(t, "sync", lab.SharedMariaDB(t))
	l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 23, Spread: 4 * time.Second, Burst: time.Second}, Least: 1400,
		Rate:  150,
		Doors: s.Instances}
	l.Begin(t)
	for _, lost := range []float64{0, 0.5} {
		site.Moment(t, h, "a burst", inBurst)
		before := s.Certified()
		closed := h.Begin(site.Window{Why: "kill -9 of redis", From: time.Now(), Recorded: s.Recorded(), Lost: lost > 0})
		s.Redis.Kill()
		truncateAOF(t, s.Redis.Dir(), lost)
		s.Redis.Restart()
		s.Whole(before, a, b)
		s.Settled(0, closed)
	}
	l.Finish(t)
	l.Judge(t)
	s.OnceStored()
	s.Journaled(h)
	s.OneLeader()
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
	s, a, b, h := site.Pair(t, "sync", lab.SharedMariaDB(t))
	l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 24, Spread: 3 * time.Second, Burst: time.Second}, Least: 900,
		Rate:  150,
		Doors: s.Instances, ByHTTP: true}
	l.Begin(t)
	leader, term := s.Leader(0, a, b)
	standby := s.Others(leader)[0]

	site.Moment(t, h, "a burst", inBurst)
	standby.Kill() // no window: it delivers nothing
	site.Moment(t, h, "a burst", inBurst)
	standby.Restart()
	s.Ready(standby)

	site.Moment(t, h, "a burst", inBurst)
	closed := h.Open("kill -9 of the leader", time.Now())
	leader.Kill()
	s.Leader(term, standby)
	site.Moment(t, h, "a delivery by the next leader", site.Anything)
	leader.Restart()
	s.Ready(leader)
	s.Settled(term, closed)

	l.Finish(t)
	l.Judge(t)
	s.OnceStored()
	s.Journaled(h)
	s.OneLeader()
}

// What an operator was about to do on an instance that died is known to the others, and that its outcome is not.
func TestAnActionOfAnInstanceThatDiesIsKnown(t *testing.T) {
	t.Parallel()
	s, a, b, _ := site.Pair(t, "sync", lab.SharedMariaDB(t))
	leader, term := s.Leader(0, a, b)
	standby := s.Others(leader)[0]
	knows := func(want ...string) {
		t.Helper()
		lab.Eventually(t, site.Patience, func() error {
			answer, err := standby.Call(t.Context(), http.MethodGet, "/v1/actions", nil)
			var list struct{ Actions []record.Action }
			if err == nil {
				err = json.Unmarshal([]byte(answer.Raw), &list)
			}
			var got []string
			for _, one := range list.Actions {
				got = append(got, fmt.Sprintf("%s of %v at %s by %s, ended: %t", one.What, one.On["topic"], one.Instance,
					one.Who, one.Ended))
			}
			if got = slices.Compact(got); !slices.Equal(got, want) { // a careful client may ask twice
				return fmt.Errorf("%d, it knows %q, %w", answer.Status, got, err)
			}
			return nil
		})
	}
	began := "pause of mail.> at " + leader.Name + " by token, ended: false"
	s.Redis.Pause()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_, _ = leader.Call(t.Context(), http.MethodPost, "/v1/topics/mail.%3E/pause", nil) // it dies meanwhile
	}()
	knows(began)
	leader.Kill()
	<-asked
	s.Redis.Resume()
	s.Leader(term, standby)
	s.Must(standby, http.MethodPost, "/v1/topics/mail.%3E/pause", nil)
	knows("pause of mail.> at "+standby.Name+" by token, ended: true", began)
}

// Instances die at the two worst moments of a commit, leading and not.
func TestTheJournalMissesNothingOfABatchThatIsBrokenOff(t *testing.T) {
	t.Parallel()
	for _, points := range [][2]string{
		{"after-redis-before-sql", "after-commit-before-delete"},
		{"after-commit-before-delete", "after-redis-before-sql"},
	} {
		t.Run("leader "+points[0], func(t *testing.T) {
			s := site.New(t, site.Options{})
			s.Journal("sync", lab.SharedMariaDB(t))
			a := s.Start("a", "FAILPOINT="+points[0]+":150")
			b := s.Start("b", "FAILPOINT="+points[1]+":60")
			c := s.Start("c")
			leader, term := s.Leader(0, a, b, c)
			if leader != a {
				t.Fatalf("%s leads", leader.Name)
			}
			h := site.NewHistory(s.Ns)
			s.Consume(h)
			s.Explain(h)
			// by tag, NATS sends again after half a minute what died with an instance
			l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 25, Spread: 2 * time.Second, Burst: time.Second}, Least: 500,
				Rate: 120, Doors: s.Instances, ByHTTP: true}
			l.Begin(t)
			closed := h.Open("the leader dies", time.Now())
			dies(s, b)
			dies(s, a)
			s.Leader(term, c)
			s.Settled(term, closed)
			l.Finish(t)
			l.Judge(t)
			s.OnceStored()
			s.Journaled(h)
		})
	}
}

// Two leaders die one after the other while they make an empty Redis whole; the third finishes it.
func TestWhatALeaderBeganToRestoreTheNextOneFinishes(t *testing.T) {
	t.Parallel()
	for mode, spread := range map[string]time.Duration{"sync": 8 * time.Second, "async": 20 * time.Second} {
		t.Run(mode, func(t *testing.T) {
			s := site.New(t, site.Options{})
			s.Journal(mode, lab.SharedMariaDB(t))
			a := s.Start("a", "FAILPOINT=mid-restore")
			b := s.Start("b", "FAILPOINT=before-certify:3")
			c := s.Start("c")
			c.Stop()
			h := site.NewHistory(s.Ns)
			s.Consume(h)
			s.Explain(h)
			l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 26, Spread: spread}, Least: 700, Rate: 150,
				Doors: s.Instances, ByHTTP: true}
			l.Begin(t)
			if mode == "async" { // what is answered is in the journal only a little later
				for range 40 { // the load may be over by then: there must be something to restore
					s.Push(a, map[string]any{"topic": "quiet.later", "delay": "1h"})
				}
				l.Wait()
				s.Emptied()
			} else {
				site.Moment(t, h, "a delivery", site.Anything)
			}
			before := s.Certified()
			closed := s.Loses(h, "FLUSHALL")
			if err := s.Client().FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			dies(s, a)
			dies(s, b)
			if mode == "sync" { // a bucket may be used, another may not
				halfCertified(s)
			}
			c.Restart()
			s.Ready(c)
			s.Leader(2, c)
			s.Whole(before, c)
			s.Settled(0, closed)
			if mode == "async" {
				l.Over = make(chan struct{}) // it has ended
				s.Must(c, http.MethodPost, "/v1/messages/cancel", map[string]any{"topic": "quiet.later"})
			}
			l.Finish(t)
			l.Judge(t)
			s.OnceStored()
			s.Journaled(h)
		})
	}
}

// halfCertified waits until some buckets are certified and some are not.
func halfCertified(s *site.Site) {
	s.T.Helper()
	rdb := s.Client()
	lab.Eventually(s.T, site.Patience, func() error {
		n := 0
		for bucket := range 4 {
			gen, err := rdb.Get(s.T.Context(), fmt.Sprintf("{%s:%d}:gen", s.Ns, bucket)).Result()
			if err == nil && strings.Contains(gen, " whole ") {
				n++
			}
		}
		if n != 2 {
			return fmt.Errorf("%d buckets are certified", n)
		}
		return nil
	})
}
