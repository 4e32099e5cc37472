package scheduler

// Hold says what keeps a waiting message from being claimed although it may be
// due.
type Hold uint8

// The holds. A message that nothing holds is claimed as soon as it is due, by
// the leader.
const (
	HoldNone   Hold = iota
	HoldParked      // its destination takes nothing for now
	HoldPaused      // its topic is paused
	HoldRate        // its topic's rate has no room
	Holds           // how many there are
)

func (h Hold) String() string { return [...]string{"none", "parked", "paused", "rate"}[h] }

// HoldPrefixes are what the names of the lanes of a hold begin with. Every other
// lane is a destination's: HoldParked.
func HoldPrefixes() map[Hold][]string {
	return map[Hold][]string{HoldPaused: {pausedLane}, HoldRate: {rateLane, lateLane}}
}

// Total is what a bucket holds at one moment.
type Total struct {
	InFlight, Dead int
	// Waiting has what waits, by what holds it.
	Waiting [Holds]Waiting
}

// Waiting is how much waits, and how much of it is due: all of what a hold keeps aside,
// which was due when it came there.
type Waiting struct {
	Count, Overdue int
	// Oldest is the earliest time at which a message that waits is due; 0 where none
	// waits. One that nothing holds and that NATS refused is due at its next try.
	// What is held counts from its own time, whenever it is probed next.
	Oldest Milli
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

// MaxOverdue is how far a store that has no index of what is due counts it in one
// order.
const MaxOverdue = 100_000
