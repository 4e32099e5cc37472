package election

import (
	"context"
	"errors"
	"sync"
	"time"
)

var (
	errUnchecked = errors.New("health not checked yet")
	errHangs     = errors.New("health check hangs")
)

// health remembers the last answer of the caller's check, so that nobody waits for it.
type health struct {
	check func() error

	mu sync.Mutex

	err     error
	since   time.Time // when err turned from nil to not nil, or back
	checked time.Time
	every   time.Duration

	changed chan struct{} // one flag for the member: healthy turned to unhealthy or back
	better  chan struct{} // one flag for the standby: turned to healthy
}

func newHealth(check func() error) *health {
	return &health{check: check, err: errUnchecked, changed: make(chan struct{}, 1), better: make(chan struct{}, 1)}
}

// watch runs the check until ctx ends, the first time at once.
func (h *health) watch(ctx context.Context, every time.Duration) {
	every = min(max(every, 20*time.Millisecond), time.Second)
	h.note(errUnchecked, every)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		h.note(h.check(), every)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (h *health) note(err error, every time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	turned := (err == nil) != (h.err == nil) || h.checked.IsZero()
	h.err, h.checked, h.every = err, now, every
	if !turned {
		return
	}
	h.since = now
	raise(h.changed)
	if err == nil {
		raise(h.better)
	}
}

// now is the last answer, or that there has been none for 12 rounds, which is S.
func (h *health) now() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.nowLocked()
}

func (h *health) nowLocked() error {
	if h.err == nil && time.Since(h.checked) > 12*h.every {
		return errHangs
	}
	return h.err
}

// badFor is for how long the answer has been bad, and what it is; 0 and nil while it is good.
func (h *health) badFor() (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.nowLocked()
	switch {
	case err == nil:
		return 0, nil
	case h.err == nil: // it hangs: since the last answer
		return time.Since(h.checked), err
	}
	return time.Since(h.since), err
}
