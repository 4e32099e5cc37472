package e2e_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
)

// moment waits for the next arrival that matches.
func moment(t *testing.T, h *history, what string, match func(arrival) bool) arrival {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	a, err := h.next(ctx, match)
	if err != nil {
		t.Fatalf("wait for %s: %v", what, err)
	}
	return a
}

func anything(arrival) bool { return true }

// oneLeader holds all instances of a site at rest to one view: one leader, all there and healthy.
func (s *site) oneLeader() {
	s.t.Helper()
	leader, term := s.leader(0, s.instances...)
	for _, i := range s.instances {
		a := s.must(i, http.MethodGet, "/v1/cluster", nil)
		leaders := 0
		for _, other := range a.Instances {
			if other.Role == "leader" {
				leaders++
			}
			if !other.Healthy ||
				!slices.ContainsFunc(s.instances, func(k *instance) bool { return k.name == other.Instance }) {
				s.t.Errorf("%s says: %s", i.name, a.raw)
			}
		}
		if leaders != 1 || len(a.Instances) != len(s.instances) || a.Leader.Instance != leader.name || a.Term != term {
			s.t.Errorf("%s says: %s", i.name, a.raw)
		}
	}
}
