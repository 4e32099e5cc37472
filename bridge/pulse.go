package bridge

import (
	"sync/atomic"
	"time"
)

// pulse notices that this process stood still: stopped, or its machine
// suspended. What NATS had sent before belongs to other instances once AckWait
// is over; they may have accepted, ended and forgotten it, and to accept it
// here would bring back what was canceled.
type pulse struct {
	limit time.Duration
	last  atomic.Pointer[time.Time]
}

func newPulse(limit time.Duration) *pulse {
	p := &pulse{limit: limit}
	now := time.Now()
	p.last.Store(&now)
	return p
}

const pulseEvery = time.Second

// beat is called every second; it answers false, from then on for good, when
// the beat before is longer ago than the limit.
func (p *pulse) beat() bool {
	if p.stoodStill() {
		return false
	}
	now := time.Now()
	p.last.Store(&now)
	return true
}

// stoodStill may be asked by anybody at any time. The wall clock is asked too:
// while a machine is suspended the monotonic one stands.
func (p *pulse) stoodStill() bool {
	last := *p.last.Load()
	return time.Since(last) > p.limit || time.Now().Round(0).Sub(last.Round(0)) > p.limit
}
