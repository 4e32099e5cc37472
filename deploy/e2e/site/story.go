package site

import (
	"context"
	"net/http"
	"slices"
	"testing"
)

// Moment waits for the next arrival that matches.
func Moment(t *testing.T, h *History, what string, match func(Arrival) bool) Arrival {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), Patience)
	defer stop()
	a, err := h.next(ctx, match)
	if err != nil {
		t.Fatalf("wait for %s: %v", what, err)
	}
	return a
}

func Anything(Arrival) bool { return true }

// OneLeader holds all instances of a site at rest to one view: one leader, all there and able to lead.
func (s *Site) OneLeader() {
	s.T.Helper()
	leader, term := s.Leader(0, s.Instances...)
	for _, i := range s.Instances {
		a := s.Must(i, http.MethodGet, "/v1/cluster", nil)
		leaders := 0
		for _, other := range a.Instances {
			if other.Role == "leader" {
				leaders++
			}
			if !other.CanLead ||
				!slices.ContainsFunc(s.Instances, func(k *Instance) bool { return k.Name == other.Instance }) {
				s.T.Errorf("%s says: %s", i.Name, a.Raw)
			}
		}
		if leaders != 1 || len(a.Instances) != len(s.Instances) || a.Leader.Instance != leader.Name || a.Term != term {
			s.T.Errorf("%s says: %s", i.Name, a.Raw)
		}
	}
}
