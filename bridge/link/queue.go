package link

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/scheduler"
)

// Queue hands its entries to its own goroutines: a goroutine that has the outcome of a push or of a request must not
// wait for a slow link to NATS. The room that the entries hold bounds the queue.
type Queue[T any] struct {
	wake chan struct{}

	mu      sync.Mutex
	waiting []T
}

// NewQueue returns a queue that is run by this number of goroutines.
func NewQueue[T any](workers int) *Queue[T] {
	return &Queue[T]{wake: make(chan struct{}, workers)}
}

// Put adds an entry. It never blocks.
func (q *Queue[T]) Put(entry T) {
	q.mu.Lock()
	q.waiting = append(q.waiting, entry)
	q.mu.Unlock()
	scheduler.Signal(q.wake)
}

// Run passes entries to do in their order, up to the given number at once, until ctx ends. do may use the slice until
// it returns.
func (q *Queue[T]) Run(ctx context.Context, most int, do func([]T)) {
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

// Publish runs do, which publishes the entries, until ctx ends. It then publishes the remaining entries and flushes the
// connection. NATS redelivers, or a client requests again, what a lost connection drops.
func (q *Queue[T]) Publish(ctx context.Context, nc *nats.Conn, do func([]T)) {
	q.Run(ctx, math.MaxInt, do)
	do(q.Take())
	_ = nc.FlushTimeout(time.Second)
}

// Take takes all entries.
func (q *Queue[T]) Take() []T { return q.take(math.MaxInt, nil) }

// take takes the first entries, up to the given number. If it takes all, the queue continues in the memory of spare.
func (q *Queue[T]) take(most int, spare []T) []T {
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

// Room bounds the items in progress by number and by bytes. A single item always fits, however large.
type Room struct {
	count int
	bytes int64

	mu        sync.Mutex
	usedCount int
	usedBytes int64
	changed   chan struct{} // closed and replaced when there is more room and somebody waits
	waiting   bool
}

func NewRoom(count int, bytes int64) *Room {
	return &Room{count: count, bytes: bytes, changed: make(chan struct{})}
}

// Enter reserves room for one item, waiting for it until ctx ends.
func (r *Room) Enter(ctx context.Context, size int) error {
	return r.until(ctx, func() bool { return r.takeLocked(size) })
}

// Try reserves room for one item if there is some now.
func (r *Room) Try(size int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.takeLocked(size)
}

func (r *Room) takeLocked(size int) bool {
	if r.usedCount > 0 && (r.usedCount >= r.count || r.usedBytes+int64(size) > r.bytes) {
		return false
	}
	r.usedCount++
	r.usedBytes += int64(size)
	return true
}

// Leave releases the room of n items of that size in total.
func (r *Room) Leave(n int, size int64) {
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

// Empty waits until no item is in progress, or ctx ends.
func (r *Room) Empty(ctx context.Context) {
	_ = r.until(ctx, func() bool { return r.usedCount == 0 }) // remaining items are abandoned
}

func (r *Room) until(ctx context.Context, fits func() bool) error {
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

// PassRoom is how many calls may wait at once until the intake has passed what it holds.
const PassRoom = 1000
