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

// health caches the last answer of the caller's check, so that nobody waits for it.
type health struct {
	check func() error

	mu sync.Mutex

	err     error
	since   time.Time // when err changed between nil and not nil
	checked time.Time
	every   time.Duration

	turned func() // called when the answer changes between good and bad; it never blocks
}

func newHealth(check func() error, turned func()) *health {
	return &health{check: check, err: errUnchecked, turned: turned}
}

// watch runs the check until ctx ends, the first time at once.
func (h *health) watch(ctx context.Context, every time.Duration) {
	every = min(max(every, 20*time.Millisecond), time.Second)
	h.note(errUnchecked, every)
	tick := time.Tick(every)
	for {
		h.note(h.check(), every)
		select {
		case <-tick:
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
	if turned {
		h.since = now
		h.turned()
	}
}

// now returns the last answer, or an error if there has been none for 12 rounds, which is S.
func (h *health) now() error {
	_, err := h.badFor()
	return err
}

// badFor returns how long the answer has been bad, and the answer; 0 and nil while it is good.
func (h *health) badFor() (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	silent := time.Since(h.checked)
	switch {
	case h.err != nil:
		return time.Since(h.since), h.err
	case silent > 12*h.every:
		return silent, errHangs
	}
	return 0, nil
}
