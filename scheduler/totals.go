package scheduler

import "github.com/tarry-mq/tarry/scheduler/message"

// Total is what a bucket holds at one moment.
type Total struct {
	InFlight, Dead int
	// Waiting has what waits, by what holds it.
	Waiting [message.Holds]Waiting
}

// Waiting is how much waits, and how much of it is due: all of what a hold keeps aside, which was due when it came
// there.
type Waiting struct {
	Count, Overdue int
	// Oldest is the earliest time at which a message that waits is due; 0 where none waits. One that nothing holds and
	// that NATS refused is due at its next try. What is held counts from its own time, whenever it is probed next.
	Oldest message.Milli
}

// Add adds another bucket's.
func (t *Total) Add(other Total) {
	t.InFlight += other.InFlight
	t.Dead += other.Dead
	for i := range t.Waiting {
		w, o := &t.Waiting[i], other.Waiting[i]
		w.Add(o)
	}
}

// Add adds what waits in another bucket under the same hold.
func (w *Waiting) Add(o Waiting) {
	w.Count += o.Count
	w.Overdue += o.Overdue
	if o.Oldest > 0 && (w.Oldest == 0 || o.Oldest < w.Oldest) {
		w.Oldest = o.Oldest
	}
}

// MaxOverdue is how far a store that has no index of what is due counts it in one order.
const MaxOverdue = 100_000
