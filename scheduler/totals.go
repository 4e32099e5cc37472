package scheduler

import "github.com/tarry-mq/tarry/scheduler/message"

// Total counts the messages of a bucket at one moment.
type Total struct {
	InFlight, Dead int
	// Waiting counts waiting messages by what holds them back.
	Waiting [message.Holds]Waiting
}

// Waiting is how many messages wait, and how many of them are due. All messages that are held back are due: they were
// due when they were moved aside.
type Waiting struct {
	Count, Overdue int
	// Oldest is the earliest due time of a waiting message, or 0 if none waits. A message that NATS refused and that
	// nothing holds back is due at its next try. A message that is held back counts from its own due time, whenever it
	// is probed next.
	Oldest message.Milli
}

// Add adds the counts of another bucket.
func (t *Total) Add(other Total) {
	t.InFlight += other.InFlight
	t.Dead += other.Dead
	for i := range t.Waiting {
		w, o := &t.Waiting[i], other.Waiting[i]
		w.Add(o)
	}
}

// Add adds the messages that wait in another bucket under the same hold.
func (w *Waiting) Add(o Waiting) {
	w.Count += o.Count
	w.Overdue += o.Overdue
	if o.Oldest > 0 && (w.Oldest == 0 || o.Oldest < w.Oldest) {
		w.Oldest = o.Oldest
	}
}

// MaxOverdue is how many due messages of one order are counted by a store that has no index of them.
const MaxOverdue = 100_000
