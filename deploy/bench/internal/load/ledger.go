package load

import (
	"fmt"
	"sync"
	"time"
)

// Ledger holds what was received against what was sent. Messages are numbered from 0.
type Ledger struct {
	bodies *Bodies
	want   int
	due    func(n int) time.Time
	all    chan struct{} // closed when each message was received once

	mu          sync.Mutex
	seen        []uint64
	late        []time.Duration // in the order of arrival
	unique      int
	again       int
	strange     int
	early       int
	earliest    time.Duration
	first, last time.Time
}

// NewLedger expects messages 0 to want-1. due returns the earliest time at which each may arrive.
func NewLedger(bodies *Bodies, want int, due func(n int) time.Time) *Ledger {
	return &Ledger{bodies: bodies, want: want, due: due, all: make(chan struct{}),
		seen: make([]uint64, (want+63)/64), late: make([]time.Duration, 0, want)}
}

// Receive enters one received message.
func (l *Ledger) Receive(body []byte, at time.Time) {
	n, ok := l.bodies.Number(body)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch bit := uint64(1) << (n % 64); {
	case !ok || n >= l.want:
		l.strange++
		return
	case l.seen[n/64]&bit != 0:
		l.again++
		return
	default:
		l.seen[n/64] |= bit
	}
	late := at.Sub(l.due(n))
	l.late = append(l.late, late)
	if late < 0 {
		l.early++
		l.earliest = min(l.earliest, late)
	}
	if l.unique == 0 {
		l.first = at
	}
	l.last = at
	l.unique++
	if l.unique == l.want {
		close(l.all)
	}
}

// Want is how many messages are expected.
func (l *Ledger) Want() int { return l.want }

// All is closed when every message was received.
func (l *Ledger) All() <-chan struct{} { return l.all }

// Received is how many different messages have arrived.
func (l *Ledger) Received() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unique
}

// Span is when the first and the last message came.
func (l *Ledger) Span() (first, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first, l.last
}

// Lateness is how late each message came, received minus due.
func (l *Ledger) Lateness() Lateness {
	l.mu.Lock()
	defer l.mu.Unlock()
	return newLateness(l.late)
}

// Faults lists what must not happen.
func (l *Ledger) Faults() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var faults []string
	add := func(n int, what string) {
		if n > 0 {
			faults = append(faults, fmt.Sprintf("%d of %d %s", n, l.want, what))
		}
	}
	add(l.want-l.unique, "messages lost")
	add(l.again, "messages repeated")
	add(l.strange, "bodies changed")
	add(l.early, fmt.Sprintf("messages early, by up to %s", -l.earliest))
	return faults
}
