package site

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
	all []Got
}

type Got struct {
	*nats.Msg
	At time.Time
}

// Inbox subscribes to a subject.
func (s *Site) Inbox(subject string) *inbox {
	s.T.Helper()
	in := &inbox{}
	nc := s.Connect("inbox of " + subject)
	if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.all = append(in.all, Got{m, time.Now()})
	}); err != nil {
		s.T.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		s.T.Fatal(err)
	}
	return in
}

func (in *inbox) Snapshot() []Got {
	in.mu.Lock()
	defer in.mu.Unlock()
	return append([]Got(nil), in.all...)
}

// Bodies waits for n messages and returns their bodies; more than n fails the test.
func (in *inbox) Bodies(t *testing.T, n int) []string {
	t.Helper()
	var bodies []string
	lab.Eventually(t, Patience, func() error {
		all := in.Snapshot()
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
