package e2e_test

import (
	"testing"
	"time"
)

func TestARollingRestartUnderLoadLosesNothingAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{})
	a, b := s.start("a"), s.start("b")
	h := newHistory(s.ns)
	s.consume(h)
	l := &load{s: s, h: h, make: maker{seed: 2, spread: 4 * time.Second, burst: time.Second}, least: 3000, rate: 200,
		doors: s.instances}
	l.begin(t)

	term := uint64(0)
	for range 5 {
		var old *instance
		old, term = s.leader(term, a, b)
		moment(t, h, "the next burst", func(x arrival) bool { return x.seq%8 == 0 }) // a batch is in flight
		begun := time.Now()
		old.Stop()
		if code := old.Wait(patience); code != 0 {
			t.Errorf("%s ended with %d", old.name, code)
		}
		moment(t, h, "a delivery by the next leader", anything)
		_, next := s.leader(term, s.others(old)...)
		t.Logf("%s lost term %d to term %d; the pause was %s", old.name, term, next,
			time.Since(begun).Round(time.Millisecond))
		old.Restart()
		s.ready(old)
	}
	l.finish(t)
	l.judge(t) // no window is open: any duplicate is one too many
	s.onceStored()
	s.oneLeader()
}
