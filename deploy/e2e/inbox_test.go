package e2e_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// inbox is a plain consumer of core NATS that keeps what it gets.
type inbox struct {
	mu  sync.Mutex
	all []got
}

type got struct {
	*nats.Msg
	at time.Time
}

// inbox subscribes to a subject.
func (s *site) inbox(subject string) *inbox {
	s.t.Helper()
	in := &inbox{}
	nc := s.connect("inbox of " + subject)
	if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.all = append(in.all, got{m, time.Now()})
	}); err != nil {
		s.t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		s.t.Fatal(err)
	}
	return in
}

func (in *inbox) snapshot() []got {
	in.mu.Lock()
	defer in.mu.Unlock()
	return append([]got(nil), in.all...)
}

// bodies waits for n messages and returns their bodies; more than n fails the test.
func (in *inbox) bodies(t *testing.T, n int) []string {
	t.Helper()
	var bodies []string
	lab.Eventually(t, patience, func() error {
		all := in.snapshot()
		if len(all) < n {
			return fmt.Errorf("%d messages arrived, want %d", len(all), n)
		}
		bodies = nil
		for _, m := range all {
			bodies = append(bodies, string(m.Data))
		}
		return nil
	})
	if len(bodies) > n {
		t.Errorf("%d messages arrived, want %d: %q", len(bodies), n, bodies)
	}
	return bodies
}
