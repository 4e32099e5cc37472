package bridge

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// queue hands its entries to its own goroutines: a goroutine that has the outcome of a push or of a request must not
// wait for a slow link to NATS. The room that the entries hold bounds the queue.
type queue[T any] struct {
	wake chan struct{}

	mu      sync.Mutex
	waiting []T
}

// newQueue returns a queue that is run by this number of goroutines.
func newQueue[T any](workers int) *queue[T] {
	return &queue[T]{wake: make(chan struct{}, workers)}
}

// put adds an entry. It never blocks.
func (q *queue[T]) put(entry T) {
	q.mu.Lock()
	q.waiting = append(q.waiting, entry)
	q.mu.Unlock()
	signal(q.wake)
}

// signal sends on a buffered channel unless the buffer is full.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// run passes entries to do in their order, up to the given number at once, until ctx ends. do may use the slice until
// it returns.
func (q *queue[T]) run(ctx context.Context, most int, do func([]T)) {
	var spare []T
	for {
		for taken := q.take(most, spare); len(taken) > 0; taken = q.take(most, spare) {
			do(taken)
			clear(taken)
			spare = taken[:0]
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return
		}
	}
}

// publish runs do, which publishes the entries, until ctx ends. It then publishes the remaining entries and flushes the
// connection. NATS redelivers, or a client requests again, what a lost connection drops.
func (q *queue[T]) publish(ctx context.Context, nc *nats.Conn, do func([]T)) {
	q.run(ctx, math.MaxInt, do)
	do(q.take(math.MaxInt, nil))
	_ = nc.FlushTimeout(time.Second)
}

// take takes the first entries, up to the given number. If it takes all, the queue continues in the memory of spare.
func (q *queue[T]) take(most int, spare []T) []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := q.waiting
	switch {
	case len(taken) == 0:
		return nil
	case len(taken) <= most:
		q.waiting = spare
	default:
		taken, q.waiting = taken[:most:most], taken[most:]
	}
	return taken
}

// room bounds the items in progress by number and by bytes. A single item always fits, however large.
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

// enter reserves room for one item, waiting for it until ctx ends.
func (r *room) enter(ctx context.Context, size int) error {
	return r.until(ctx, func() bool { return r.takeLocked(size) })
}

// try reserves room for one item if there is some now.
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

// leave releases the room of n items of that size in total.
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

// empty waits until no item is in progress, or ctx ends.
func (r *room) empty(ctx context.Context) {
	_ = r.until(ctx, func() bool { return r.usedCount == 0 }) // remaining items are abandoned
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
