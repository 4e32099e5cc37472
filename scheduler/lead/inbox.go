package lead

import (
	"sync"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// inbox holds what other goroutines report to the scanner of a bucket: earlier due times, messages that wait again, and
// lanes that were opened.
type inbox struct {
	wake chan struct{} // capacity 1

	mu       sync.Mutex
	head     message.Milli        // earliest due time known, or 0
	nudged   message.Milli        // earliest due time nudged since the last claim began, or 0
	parked   map[message.Lane]int // how many messages the settler has parked in a lane
	laneOpen bool                 // a lane was opened and has its turn now
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1), parked: map[message.Lane]int{}} }

// rouse wakes the scanner once.
func (in *inbox) rouse() { scheduler.Signal(in.wake) }

// nudge informs the scanner of a message due at the given time.
func (in *inbox) nudge(due message.Milli) {
	in.mu.Lock()
	earlier := in.nudged == 0 || due < in.nudged
	if earlier {
		in.nudged = due
	}
	earlier = earlier && (in.head == 0 || due < in.head)
	in.mu.Unlock()
	if earlier {
		in.rouse()
	}
}

// next returns the earliest due time known, or 0 if there is none.
func (in *inbox) next() message.Milli {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.head == 0 || (in.nudged != 0 && in.nudged < in.head) {
		return in.nudged
	}
	return in.head
}

// claiming forgets the nudges: the claim that begins now finds the messages that they announced.
func (in *inbox) claiming() {
	in.mu.Lock()
	in.nudged = 0
	in.mu.Unlock()
}

// claimed records the head that a claim left.
func (in *inbox) claimed(head message.Milli) {
	in.mu.Lock()
	in.head = head
	in.mu.Unlock()
}

// returned informs the scanner of messages that wait again, in lanes or in the bucket.
func (in *inbox) returned(back []scheduler.Back) {
	var head message.Milli
	in.mu.Lock()
	for i := range back {
		b := &back[i]
		if b.Mark.Lane != "" {
			in.parked[b.Mark.Lane]++
		} else if due := message.ScoreDue(b.Score); head == 0 || due < head {
			head = due
		}
	}
	in.mu.Unlock()
	if head > 0 {
		in.nudge(head)
	}
}

// openLane ends the scanner's wait for a lane's turn.
func (in *inbox) openLane() {
	in.mu.Lock()
	in.laneOpen = true
	in.mu.Unlock()
	in.rouse()
}

// lanes returns, once, how many messages were parked in which lanes, and whether a lane was opened.
func (in *inbox) lanes() (parked map[message.Lane]int, opened bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.parked) > 0 { // the settler continues with the new map
		parked, in.parked = in.parked, map[message.Lane]int{}
	}
	opened, in.laneOpen = in.laneOpen, false
	return parked, opened
}
