package election

import (
	"context"
	"sync"
	"time"
)

// leaseKey is the context key of the lease in a leadership context.
type leaseKey struct{}

// lease is a deadline that moves. A context's own deadline cannot move, so the leadership context carries a lease as a
// value, and the lease's timer cancels the context. Once passed, a lease stays passed: a late extension must not revive
// a leadership that others may already have seen end.
type lease struct {
	mu sync.Mutex

	until time.Time // with its monotonic reading
	timer *time.Timer
	over  bool
	pass  func() // called once, without the lock, when the deadline passes
}

// newLease returns a lease whose clock is running. It calls pass only after start, because pass may need the lease.
func newLease(until time.Time, pass func()) *lease {
	return &lease{until: until, pass: pass}
}

func (l *lease) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(time.Until(l.until), l.fire)
}

// fire runs when the timer fires. If the lease has been extended since, fire waits on.
func (l *lease) fire() {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return
	}
	if left := time.Until(l.until); left > 0 {
		l.timer.Reset(left)
		l.mu.Unlock()
		return
	}
	l.over = true
	l.mu.Unlock()
	l.pass()
}

// extend moves the deadline forward, never back. It returns false if the lease has passed or ended.
func (l *lease) extend(until time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || time.Until(l.until) <= 0 {
		return false
	}
	if until.After(l.until) {
		l.until = until
		if l.timer != nil {
			l.timer.Reset(time.Until(until))
		}
	}
	return true
}

// end ends the lease now. pass is not called any more.
func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.timer != nil {
		l.timer.Stop()
	}
}

// remaining returns the time left, or 0 once the lease has passed or ended.
func (l *lease) remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return 0
	}
	return max(0, time.Until(l.until))
}

// Remaining returns how much of the lease is left under a leadership context, or under any context derived from one.
// Each call to a store or to NATS takes the lesser of its own time-out and this. Renewals extend the lease, so call
// Remaining before every call; 0 means that leadership is over. False means that no lease bounds this context: it is
// not a leadership's, or it belongs to a Solo, whose leadership does not end.
//
// While a leader resigns its context has ended but its lease has not: work in flight may be finished under
// context.WithoutCancel within Remaining.
func Remaining(ctx context.Context) (time.Duration, bool) {
	l, ok := ctx.Value(leaseKey{}).(*lease)
	if !ok {
		return 0, false
	}
	return l.remaining(), true
}
