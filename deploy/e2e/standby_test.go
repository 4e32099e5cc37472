package e2e_test

import (
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
)

func TestAStandbySendsRedisNoClaim(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	seen := s.Watch()
	a, b := s.Start("a"), s.Start("b")
	h := site.NewHistory(s.Ns)
	s.Consume(h)
	leader, term := s.Leader(0, a, b)
	standby := s.Others(leader)[0]
	// Everything is accepted by the standby, and everything is delivered by the leader.
	l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 9, Spread: time.Second}, Least: 300, Rate: 150,
		Doors: []*site.Instance{standby}, ByHTTP: true}
	l.Begin(t)
	l.Finish(t)
	l.Judge(t)
	seen.Judge(t, h.Leaders)
	byLeader := seen.Count(func(x site.Script) bool { return x.Name == "tarry-"+leader.Name && x.Claimed })
	byStandby := seen.Count(func(x site.Script) bool { return x.Name == "tarry-"+standby.Name })
	if byLeader == 0 || byStandby > 0 {
		t.Errorf("%d claims by the leader; %d scripts under a term by the standby", byLeader, byStandby)
	}
	if n := seen.Pushes("tarry-" + standby.Name); n == 0 {
		t.Error("the standby stored nothing: MONITOR was not read right")
	}
	if _, now := s.Leader(0, a, b); now != term {
		t.Errorf("the leader changed: term %d, then %d", term, now)
	}
}
