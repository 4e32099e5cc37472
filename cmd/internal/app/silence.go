package app

import (
	"context"
	"sync"
)

// silence ends the questions to a server when a look at it gets no answer, and those asked from then on until one does:
// nobody should wait for what the instance knows. Pushes and pauses ask without it: a few seconds' patience may still
// save them.
type silence struct {
	mu    sync.Mutex
	heard context.Context // until a look gets no answer; nil before the first look
	end   context.CancelFunc
}

// note takes what a look found.
func (s *silence) note(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard == nil || !silent && s.heard.Err() != nil {
		s.heard, s.end = context.WithCancel(context.Background())
	}
	if silent {
		s.end()
	}
}

// during returns a context that ends with ctx, or when a look gets no answer. The caller calls stop.
func (s *silence) during(ctx context.Context) (bound context.Context, stop func()) {
	bound, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard == nil {
		return bound, cancel
	}
	release := context.AfterFunc(s.heard, cancel)
	return bound, func() { release(); cancel() }
}
