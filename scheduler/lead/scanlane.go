package lead

import (
	"context"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// addLane remembers that this bucket holds messages of a lane.
func (sc *scanner) addLane(name message.Lane) {
	if _, known := sc.lanes[name]; known {
		return
	}
	sc.lanes[name] = false
	sc.laneWait = time.Time{}
	if !name.Holds() {
		sc.l.lanes.holds(name, true)
	}
}

// adoptLanes takes over the lanes that the settler has parked messages in.
func (sc *scanner) adoptLanes() {
	parked, opened := sc.inbox.lanes()
	if opened {
		sc.laneWait = time.Time{}
	}
	for name, n := range parked {
		sc.addLane(name)
		if sc.joining[name] -= n; sc.joining[name] <= 0 {
			delete(sc.joining, name)
		}
	}
}

// stepLane gives one lane its turn: a probe while it is parked, a batch once it is open, and a batch to sort while it
// is parked and holds strays.
func (sc *scanner) stepLane(ctx context.Context, room int) (bool, error) {
	now := time.Now()
	if len(sc.lanes) == 0 || now.Before(sc.laneWait) {
		return false, nil
	}
	earliest := now.Add(lastBackoff)
	for name := range sc.lanes { // in random order, so that no lane waits for ever
		n, until := sc.turn(name, now)
		if n == 0 {
			if until.Before(earliest) {
				earliest = until
			}
			continue
		}
		probe := n == 1 && name.Destination()
		claimed, err := sc.claim(ctx, name, min(n, room))
		if err != nil {
			if probe {
				sc.l.lanes.unprobe(name, now)
			}
			sc.l.holds.giveBack(name, n)
			return false, err
		}
		sc.l.holds.giveBack(name, n-len(claimed.Messages))
		if len(claimed.Messages) > 0 {
			sent, strays := sc.dispatch(ctx, claimed.Messages, origin{lane: name, probe: probe})
			sc.lanes[name] = strays > 0
			if probe && sent == 0 {
				sc.l.lanes.skip(name) // it ended, or went aside: the probe is still to be made
			}
			return true, nil
		}
		sc.lanes[name] = false
		if probe {
			sc.l.lanes.unprobe(name, now)
		}
		switch {
		case claimed.Head == 0 && sc.joining[name] > 0 && sc.l.lanes.parked(name) != "":
			// Its messages are on their way back, so it must not be taken for empty and open.
			if until := now.Add(firstBackoff); until.Before(earliest) {
				earliest = until
			}
		case claimed.Head == 0: // empty
			delete(sc.lanes, name)
			if !name.Holds() {
				sc.l.lanes.holds(name, false)
			}
		default: // its messages wait for a later try
			if until := now.Add(claimed.Head.Time().Sub(sc.l.cfg.Clock.Now())); until.Before(earliest) {
				earliest = until
			}
		}
	}
	sc.laneWait = earliest
	return false, nil
}

// turn returns how many messages of a lane may be claimed now, or when to ask again.
func (sc *scanner) turn(name message.Lane, now time.Time) (n int, wait time.Time) {
	switch {
	case name.Holds():
		return sc.l.holds.turn(name, now)
	case sc.lanes[name]:
		return laneBatch, time.Time{}
	}
	return sc.l.lanes.turn(name, sc.bucket, now)
}
