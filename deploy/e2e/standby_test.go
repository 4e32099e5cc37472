package e2e_test

import (
	"testing"
	"time"
)

func TestAStandbySendsRedisNoClaim(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{})
	seen := s.watch()
	a, b := s.start("a"), s.start("b")
	h := newHistory(s.ns)
	s.consume(h)
	leader, term := s.leader(0, a, b)
	standby := s.others(leader)[0]
	// Everything is accepted by the standby, and everything is delivered by the leader.
	l := &load{s: s, h: h, make: maker{seed: 9, spread: time.Second}, least: 300, rate: 150,
		doors: []*instance{standby}, byHTTP: true}
	l.begin(t)
	l.finish(t)
	l.judge(t)
	seen.judge(t, h.leaders)
	byLeader := seen.count(func(x script) bool { return x.name == "tarry-"+leader.name && x.claimed })
	byStandby := seen.count(func(x script) bool { return x.name == "tarry-"+standby.name })
	if byLeader == 0 || byStandby > 0 {
		t.Errorf("%d claims by the leader; %d scripts under a term by the standby", byLeader, byStandby)
	}
	if n := seen.pushes("tarry-" + standby.name); n == 0 {
		t.Error("the standby stored nothing: MONITOR was not read right")
	}
	if _, now := s.leader(0, a, b); now != term {
		t.Errorf("the leader changed: term %d, then %d", term, now)
	}
}
