package bridge

import (
	"context"
	"sync"
)

// room bounds what is under way by number and by bytes. One item always fits,
// however large.
type room struct {
	count int
	bytes int64

	mu        sync.Mutex
	usedCount int
	usedBytes int64
	changed   chan struct{} // closed and replaced when there is more room and somebody waits
	waiting   bool
}

func newRoom(count int, bytes int64) *room {
	return &room{count: count, bytes: bytes, changed: make(chan struct{})}
}

// enter takes room for one item and waits for it as long as ctx allows.
func (r *room) enter(ctx context.Context, size int) error {
	return r.until(ctx, func() bool { return r.takeLocked(size) })
}

// try takes room for one item if there is some now.
func (r *room) try(size int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.takeLocked(size)
}

func (r *room) takeLocked(size int) bool {
	if r.usedCount > 0 && (r.usedCount >= r.count || r.usedBytes+int64(size) > r.bytes) {
		return false
	}
	r.usedCount++
	r.usedBytes += int64(size)
	return true
}

// leave gives back the room of n items of that size together.
func (r *room) leave(n int, size int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.usedCount -= n
	r.usedBytes -= size
	if r.waiting {
		r.waiting = false
		close(r.changed)
		r.changed = make(chan struct{})
	}
}

// empty waits until nothing is under way, or ctx ends.
func (r *room) empty(ctx context.Context) {
	_ = r.until(ctx, func() bool { return r.usedCount == 0 }) // what is left then is left
}

func (r *room) until(ctx context.Context, fits func() bool) error {
	for {
		r.mu.Lock()
		if fits() {
			r.mu.Unlock()
			return nil
		}
		r.waiting = true
		changed := r.changed
		r.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
