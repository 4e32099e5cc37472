package e2e_test

import (
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
)

func TestARollingRestartUnderLoadLosesNothingAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	a, b := s.Start("a"), s.Start("b")
	h := site.NewHistory(s.Ns)
	s.Consume(h)
	l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 2, Spread: 4 * time.Second, Burst: time.Second}, Least: 3000,
		Rate:  200,
		Doors: s.Instances}
	l.Begin(t)

	term := uint64(0)
	for range 5 {
		var old *site.Instance
		old, term = s.Leader(term, a, b)
		site.Moment(t, h, "the next burst", func(x site.Arrival) bool { return x.Seq%8 == 0 }) // a batch is in flight
		begun := time.Now()
		old.Stop()
		if code := old.Wait(site.Patience); code != 0 {
			t.Errorf("%s ended with %d", old.Name, code)
		}
		site.Moment(t, h, "a delivery by the next leader", site.Anything)
		_, next := s.Leader(term, s.Others(old)...)
		t.Logf("%s lost term %d to term %d; the pause was %s", old.Name, term, next,
			time.Since(begun).Round(time.Millisecond))
		old.Restart()
		s.Ready(old)
	}
	l.Finish(t)
	l.Judge(t) // no window is open: any duplicate is one too many
	s.OnceStored()
	s.OneLeader()
}
