package e2e_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// The main story: all three ways to lose a leader, one after the other, while 10,000 messages pass through.
func TestNothingIsLostEarlyOrTwiceWhileLeadersDieStopAndFreeze(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{Redis: []string{"--appendfsync", "always"}})
	seen := s.Watch()
	a, b, c := s.Start("a"), s.Start("b"), s.Start("c")
	h := site.NewHistory(s.Ns)
	s.Consume(h)
	views := s.Poll()
	l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 1, Spread: 8 * time.Second, Burst: 2 * time.Second}, Least: 10_000,
		Rate: 200, Doors: s.Instances}
	l.Begin(t)

	leader, term := s.Leader(0, a, b, c)
	site.Moment(t, h, "a burst", inBurst)
	close := h.Open("kill -9 of the leader", time.Now())
	leader.Kill()
	next, higher := s.Leader(term, s.Others(leader)...)
	site.Moment(t, h, "a delivery by the next leader", site.Anything)
	t.Logf("killed %s of term %d; %s leads term %d", leader.Name, term, next.Name, higher)
	leader.Restart()
	s.Ready(leader)
	s.Settled(term, close)

	leader, term = s.Leader(term, a, b, c)
	site.Moment(t, h, "a burst", inBurst)
	leader.Stop() // no window: this one may repeat nothing
	if code := leader.Wait(site.Patience); code != 0 {
		t.Errorf("%s ended with %d", leader.Name, code)
	}
	next, higher = s.Leader(term, s.Others(leader)...)
	site.Moment(t, h, "a delivery by the next leader", site.Anything)
	t.Logf("stopped %s of term %d; %s leads term %d", leader.Name, term, next.Name, higher)
	leader.Restart()
	s.Ready(leader)

	leader, term = s.Leader(term, a, b, c)
	site.Moment(t, h, "a burst", inBurst)
	close = h.Open("SIGSTOP of the leader", time.Now())
	leader.Pause()
	next, higher = s.Leader(term, s.Others(leader)...) // its session is over
	site.Moment(t, h, "a delivery by the next leader", site.Anything)
	before := seen.Count(func(x site.Script) bool { return x.Term == term && x.Wrote })
	leader.Resume()
	stepsDown(s, leader, term)
	s.Leader(term, a, b, c)
	if after := seen.Count(func(x site.Script) bool { return x.Term == term && x.Wrote }); after != before {
		t.Errorf("%s woke and wrote %d times under term %d, though %s leads term %d", leader.Name, after-before, term,
			next.Name, higher)
	}
	t.Logf("froze and woke %s of term %d; %s leads term %d", leader.Name, term, next.Name, higher)
	s.Settled(term, close)

	l.Finish(t)
	l.Judge(t)
	seen.Judge(t, h.Leaders)
	views.Judge(t)
	s.OnceStored()
	s.OneLeader()
	if len(h.Leaders) < 4 {
		t.Errorf("leaderships %v, want one more than the faults", h.Leaders)
	}
}

// inBurst reports whether a message is one of many that are due at the same instant.
func inBurst(a site.Arrival) bool { return a.Seq%8 == 0 }

// stepsDown waits until the log of a woken leader says that it leads no more.
func stepsDown(s *site.Site, i *site.Instance, term uint64) {
	s.T.Helper()
	lab.Eventually(s.T, site.Patience, func() error {
		for _, l := range site.Lines(s.T, i) {
			if l.Message == "no longer leading" && l.Term == term {
				s.T.Logf("%s, %s: %s", i.Name, l.Message, l.Why)
				return nil
			}
		}
		return errors.New(i.Name + " does not say that it leads no more")
	})
}
