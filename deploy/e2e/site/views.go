package site

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"
)

// views are what the instances answered about the cluster during a story.
type views struct {
	mu   sync.Mutex
	seen map[string][]view // by the instance that answered
}

type view struct {
	term   uint64
	leader string
}

// Poll asks every instance who leads, several times a second, until the test ends.
func (s *Site) Poll() *views {
	v := &views{seen: map[string][]view{}}
	ctx, stop := context.WithCancel(s.T.Context())
	var wg sync.WaitGroup
	for _, i := range s.Instances {
		wg.Go(func() {
			for ; ctx.Err() == nil; Pause(ctx, 100*time.Millisecond) {
				a, err := i.Call(ctx, http.MethodGet, "/v1/cluster", nil)
				if err != nil || a.Status != http.StatusOK || a.Leader == nil {
					continue
				}
				v.mu.Lock()
				v.seen[i.Name] = append(v.seen[i.Name], view{a.Term, a.Leader.Instance})
				v.mu.Unlock()
			}
		})
	}
	s.T.Cleanup(func() { stop(); wg.Wait() })
	return v
}

// Judge: whoever is asked sees terms that never fall, and all see one leader for a term.
func (v *views) Judge(t *testing.T) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	leaders := map[uint64]string{}
	for name, list := range v.seen {
		before := uint64(0)
		for _, x := range list {
			if x.term < before {
				t.Errorf("%s answered term %d after term %d", name, x.term, before)
			}
			before = x.term
			if known := leaders[x.term]; known != "" && known != x.leader {
				t.Errorf("%s answered that %s leads term %d, others that %s does", name, x.leader, x.term, known)
			}
			leaders[x.term] = x.leader
		}
	}
	if len(leaders) < 2 {
		t.Errorf("the answers name the leaders %v, want at least two", leaders)
	}
}
