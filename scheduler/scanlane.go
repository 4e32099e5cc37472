package scheduler

import (
	"context"
	"time"
)

// addLane remembers that this bucket holds messages of a lane.
func (sc *scanner) addLane(name string) {
	if _, known := sc.lanes[name]; known {
		return
	}
	sc.lanes[name] = struct{}{}
	sc.laneWait = time.Time{}
	sc.l.lanes.holds(name, true)
}

// adoptLanes takes over the lanes that the settler has parked messages in.
func (sc *scanner) adoptLanes() {
	sc.mu.Lock()
	adopt := sc.adopt
	sc.adopt = nil
	if sc.laneOpen {
		sc.laneOpen = false
		sc.laneWait = time.Time{}
	}
	sc.mu.Unlock()
	for _, name := range adopt {
		sc.addLane(name)
	}
}

// stepLane gives one lane its turn: a probe while it is parked, a batch once it
// is open.
func (sc *scanner) stepLane(ctx context.Context, room int) (bool, error) {
	now := time.Now()
	if len(sc.lanes) == 0 || now.Before(sc.laneWait) {
		return false, nil
	}
	earliest := now.Add(lastBackoff)
	for name := range sc.lanes { // in random order, so that no lane waits for ever
		n, until := sc.l.lanes.turn(name, now)
		if n == 0 {
			if until.Before(earliest) {
				earliest = until
			}
			continue
		}
		claimed, err := sc.claim(ctx, name, min(n, room))
		if err != nil {
			sc.l.lanes.unprobe(name, now)
			return false, err
		}
		if len(claimed.Messages) > 0 {
			if sc.dispatch(ctx, claimed.Messages, name) == 0 {
				sc.l.lanes.skip(name) // all were expired: the probe is still to be made
			}
			return true, nil
		}
		sc.l.lanes.unprobe(name, now)
		switch {
		case claimed.Head == 0: // empty
			delete(sc.lanes, name)
			sc.l.lanes.holds(name, false)
		default: // its messages wait for a later try
			if until := now.Add(claimed.Head.Time().Sub(sc.l.s.cfg.Clock.Now())); until.Before(earliest) {
				earliest = until
			}
		}
	}
	sc.laneWait = earliest
	return false, nil
}
