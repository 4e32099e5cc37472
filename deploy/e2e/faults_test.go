package e2e_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// The main story: all three ways to lose a leader, one after the other, while 10,000 messages pass through.
func TestNothingIsLostEarlyOrTwiceWhileLeadersDieStopAndFreeze(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{redis: []string{"--appendfsync", "always"}})
	seen := s.watch()
	a, b, c := s.start("a"), s.start("b"), s.start("c")
	h := newHistory(s.ns)
	s.consume(h)
	views := s.poll()
	l := &load{s: s, h: h, make: maker{seed: 1, spread: 8 * time.Second, burst: 2 * time.Second}, least: 10_000,
		rate: 200, doors: s.instances}
	l.begin(t)

	leader, term := s.leader(0, a, b, c)
	moment(t, h, "a burst", inBurst)
	close := h.open("kill -9 of the leader", time.Now())
	leader.Kill()
	next, higher := s.leader(term, s.others(leader)...)
	moment(t, h, "a delivery by the next leader", anything)
	t.Logf("killed %s of term %d; %s leads term %d", leader.name, term, next.name, higher)
	leader.Restart()
	s.ready(leader)
	s.settled(term, close)

	leader, term = s.leader(term, a, b, c)
	moment(t, h, "a burst", inBurst)
	leader.Stop() // no window: this one may repeat nothing
	if code := leader.Wait(patience); code != 0 {
		t.Errorf("%s ended with %d", leader.name, code)
	}
	next, higher = s.leader(term, s.others(leader)...)
	moment(t, h, "a delivery by the next leader", anything)
	t.Logf("stopped %s of term %d; %s leads term %d", leader.name, term, next.name, higher)
	leader.Restart()
	s.ready(leader)

	leader, term = s.leader(term, a, b, c)
	moment(t, h, "a burst", inBurst)
	close = h.open("SIGSTOP of the leader", time.Now())
	leader.Pause()
	next, higher = s.leader(term, s.others(leader)...) // its session is over
	moment(t, h, "a delivery by the next leader", anything)
	before := seen.count(func(x script) bool { return x.term == term && x.wrote })
	leader.Resume()
	s.stepsDown(leader, term)
	s.leader(term, a, b, c)
	if after := seen.count(func(x script) bool { return x.term == term && x.wrote }); after != before {
		t.Errorf("%s woke and wrote %d times under term %d, though %s leads term %d", leader.name, after-before, term,
			next.name, higher)
	}
	t.Logf("froze and woke %s of term %d; %s leads term %d", leader.name, term, next.name, higher)
	s.settled(term, close)

	l.finish(t)
	l.judge(t)
	seen.judge(t, h.leaders)
	views.judge(t)
	s.onceStored()
	s.oneLeader()
	if len(h.leaders) < 4 {
		t.Errorf("leaderships %v, want one more than the faults", h.leaders)
	}
}

// inBurst reports whether a message is one of many that are due at the same instant.
func inBurst(a arrival) bool { return a.seq%8 == 0 }

// settled closes the window of a fault: nothing is claimed under the lost term any more, what is due has gone out, what
// was on its way then has ended too (the next leader claims again what the lost one had sent), and consumers have seen
// it. So nothing can be delivered again.
func (s *site) settled(term uint64, close func()) {
	s.t.Helper()
	rdb := s.client()
	lab.Eventually(s.t, patience, func() error {
		_, overdue, claimed, err := s.held(s.t.Context(), rdb, time.Now().Add(-300*time.Millisecond), term)
		if err == nil && overdue+claimed > 0 {
			err = fmt.Errorf("%d messages are overdue, %d claimed under a term up to %d", overdue, claimed, term)
		}
		return err
	})
	before, err := s.claims(s.t.Context(), rdb)
	if err != nil {
		s.t.Fatal(err)
	}
	lab.Eventually(s.t, patience, func() error {
		now, err := s.claims(s.t.Context(), rdb)
		maps.DeleteFunc(before, func(uid, under string) bool { return now[uid] != under })
		if err == nil && len(before) > 0 {
			err = fmt.Errorf("%d messages are still on their way", len(before))
		}
		return err
	})
	s.caughtUp()
	close()
}

// stepsDown waits until the log of a woken leader says that it leads no more.
func (s *site) stepsDown(i *instance, term uint64) {
	s.t.Helper()
	lab.Eventually(s.t, patience, func() error {
		for _, l := range lines(s.t, i) {
			if l.Message == "no longer leading" && l.Term == term {
				s.t.Logf("%s, %s: %s", i.name, l.Message, l.Why)
				return nil
			}
		}
		return errors.New(i.name + " does not say that it leads no more")
	})
}
