package link

import (
	"sync/atomic"
	"time"
)

// Pulse detects that this process was stopped for a while, or its machine suspended. What NATS had sent it before may
// since have been done, ended and forgotten by other instances, and must not be done here once more.
type Pulse struct {
	limit time.Duration
	last  atomic.Pointer[time.Time]
}

// NewPulse returns a pulse that begins now.
func NewPulse(limit time.Duration) *Pulse {
	p := &Pulse{limit: limit}
	now := time.Now()
	p.last.Store(&now)
	return p
}

// PulseEvery is how often Beat is to be called.
const PulseEvery = time.Second

// Beat returns false, permanently, once the previous beat is longer ago than the limit.
func (p *Pulse) Beat() bool {
	if p.StoodStill() {
		return false
	}
	now := time.Now()
	p.last.Store(&now)
	return true
}

// StoodStill may be called at any time, from any goroutine. It also reads the wall clock, because the monotonic clock
// stops while a machine is suspended.
func (p *Pulse) StoodStill() bool {
	last := *p.last.Load()
	return time.Since(last) > p.limit || time.Now().Round(0).Sub(last.Round(0)) > p.limit
}
