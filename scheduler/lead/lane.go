package lead

import (
	"sync"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// A lane is where the messages of one destination, a stream or a core subject, wait together while the destination does
// not accept them. Three failures in a row park the lane. Its due messages then move aside in the store, newly due ones
// join them, and one probe goes out per backoff. The first success opens the lane, and its messages are claimed
// straight from it, in turn with the bucket. So the backlog of one topic never blocks another.
//
// The book holds only lanes that failed recently, never one per topic. Beyond maxCoreLanes parked subjects, the rest
// share one lane. Every message of the shared lane is its own probe: after a failure it moves to the lane's end, or to
// the lane of its destination once there is one.
//
// In the store a lane keeps the name under which its messages were parked, and the next leader reads it there. Streams
// and settings may change meanwhile, so a lane may hold strays: messages that now leave for another destination. The
// outcome of a stray counts for the lane of its own destination. While that lane is parked, the stray moves there. It
// proves nothing about the lane that it was in. A parked lane in which a stray is met is sorted in batches: the
// destination of the messages ahead of it may not answer for a long time.
type laneBook struct {
	mu    sync.Mutex
	lanes map[message.Lane]*lane
}

type lane struct {
	failures int // in a row
	parked   bool
	probing  bool
	prober   message.Bucket // whose message the probe is
	backoff  time.Duration
	probeAt  time.Time
	parkedIn int    // buckets that hold messages of this lane
	gone     bool   // nobody listened at the last failure
	why      string // what the last failure said
}

// sharedLane is the lane that the parked subjects beyond maxCoreLanes share.
const sharedLane message.Lane = "core:*"

const (
	failuresToPark = 3
	firstBackoff   = 100 * time.Millisecond
	lastBackoff    = 5 * time.Second
	maxCoreLanes   = 1000
	// sharedBatch is how many messages of the shared lane are tried per round.
	sharedBatch = 100
	// laneBatch is how many messages of an opened lane are sent per turn.
	laneBatch = 256
)

func newLaneBook() *laneBook { return &laneBook{lanes: map[message.Lane]*lane{}} }

// parked returns the lane in which messages of a lane must wait, or the empty lane while it is open.
func (b *laneBook) parked(name message.Lane) message.Lane {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.lanes[name]; l != nil && l.parked {
		return name
	}
	return ""
}

// failed records that a lane did not accept a message, and returns where the message waits next: in the lane if that is
// parked, else in its bucket. gone says that nobody listens, which parks a core subject at once; why is the error text
// of NATS.
func (b *laneBook) failed(name message.Lane, gone bool, why string, now time.Time) (to message.Lane, parkedNow bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if name.Kind() == message.LaneShared {
		return sharedLane, false
	}
	l := b.lanes[name]
	if l == nil {
		if name.Kind() == message.LaneCore && len(b.lanes) >= maxCoreLanes {
			return sharedLane, false
		}
		l = &lane{backoff: firstBackoff}
		b.lanes[name] = l
	}
	l.failures++
	l.gone, l.why = gone, why
	if l.parked {
		if l.probing {
			l.probing = false
			l.backoff = min(l.backoff*2, lastBackoff)
			l.probeAt = now.Add(l.backoff)
		}
		return name, false
	}
	if l.failures < failuresToPark && !gone {
		return "", false
	}
	l.parked, l.probing, l.probeAt = true, false, now.Add(l.backoff)
	return name, true
}

// succeeded records that a lane accepted a message. opened reports whether that ended its parking.
func (b *laneBook) succeeded(name message.Lane) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lanes[name]
	if l == nil {
		return false
	}
	opened = l.parked
	l.parked, l.probing, l.failures, l.backoff = false, false, 0, firstBackoff
	if l.parkedIn == 0 {
		delete(b.lanes, name)
	}
	return opened
}

// holds records that one more bucket holds (or no longer holds) messages of the lane.
func (b *laneBook) holds(name message.Lane, yes bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lanes[name]
	if l == nil {
		if !yes {
			return
		}
		l = &lane{backoff: firstBackoff}
		b.lanes[name] = l
	}
	if yes {
		l.parkedIn++
		return
	}
	if l.parkedIn--; l.parkedIn > 0 {
		return
	}
	l.parkedIn = 0
	if l.parked || l.failures == 0 {
		// No message is left to probe with, so the next message of the topic is the probe.
		delete(b.lanes, name)
	}
}

// turn returns what a bucket that holds messages of the lane may do now: claim up to n, or wait until the given time.
func (b *laneBook) turn(name message.Lane, bucket message.Bucket, now time.Time) (n int, wait time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lanes[name]
	switch {
	case l == nil || name.Kind() == message.LaneShared:
		return sharedBatch, time.Time{}
	case !l.parked:
		return laneBatch, time.Time{}
	case l.probing:
		return 0, now.Add(l.backoff)
	case now.Before(l.probeAt):
		return 0, l.probeAt
	}
	l.probing, l.prober = true, bucket
	return 1, time.Time{}
}

// unprobe takes back a probe for which there was no message.
func (b *laneBook) unprobe(name message.Lane, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.lanes[name]; l != nil && l.probing {
		l.probing = false
		l.probeAt = now.Add(l.backoff)
	}
}

// skip takes back a probe whose message did not have to be sent after all. The next one is tried at once.
func (b *laneBook) skip(name message.Lane) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.lanes[name]; l != nil {
		l.probing = false
	}
}

// leave takes back the probes of a bucket whose scanner has ended, since nobody judges their outcomes any more, and
// what it said of the lanes that hold messages of the bucket.
func (b *laneBook) leave(bucket message.Bucket, held map[message.Lane]bool) {
	b.mu.Lock()
	for _, l := range b.lanes {
		l.probing = l.probing && l.prober != bucket
	}
	b.mu.Unlock()
	for name := range held {
		if !name.Holds() {
			b.holds(name, false)
		}
	}
}

// laneState is the state of a lane.
type laneState struct {
	parked bool
	wait   time.Duration // until the next probe, 0 while one is out
	gone   bool          // nobody listens
	why    string
}

// state returns the current state of a lane.
func (b *laneBook) state(name message.Lane, now time.Time) laneState {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lanes[name]
	if l == nil {
		return laneState{}
	}
	s := laneState{parked: l.parked, gone: l.gone, why: l.why}
	if !l.probing {
		s.wait = max(l.probeAt.Sub(now), 0)
	}
	return s
}

// empty reports whether no lane failed recently.
func (b *laneBook) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.lanes) == 0
}

// count returns how many lanes are parked.
func (b *laneBook) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, l := range b.lanes {
		if l.parked {
			n++
		}
	}
	return n
}
