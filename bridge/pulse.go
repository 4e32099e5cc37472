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
	start time.Time
	last  atomic.Int64 // nanoseconds since start
}

func newPulse(limit time.Duration) *pulse { return &pulse{limit: limit, start: time.Now()} }

const pulseEvery = time.Second

// beat is called every second; it answers false, from then on for good, when
// the beat before is longer ago than the limit.
func (p *pulse) beat() bool {
	if p.stoodStill() {
		return false
	}
	p.last.Store(int64(time.Since(p.start)))
	return true
}

// stoodStill may be asked by anybody at any time.
func (p *pulse) stoodStill() bool {
	return time.Since(p.start)-time.Duration(p.last.Load()) > p.limit
}
