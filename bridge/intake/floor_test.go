package intake

import (
	"testing"
	"time"
)

// What merged is known until the acknowledged floor has passed it: a push that comes again and again holds it up.
func TestFloor_IsStuckWhereAPushIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	var f floor
	now := time.Now()
	for i, step := range []struct {
		after            time.Duration
		floor, delivered uint64
		stuck            bool
	}{
		{0, 0, 5, false}, {20 * time.Second, 4, 9, false}, // one of the five is worked on
		{20 * time.Second, 4, 12, true}, {time.Second, 4, 20, true},
		{time.Second, 7, 20, false}, // acknowledged, and what came meanwhile is young
		{29 * time.Second, 7, 30, false}, {2 * time.Second, 19, 30, true}, {time.Second, 20, 30, false},
		{time.Minute, 30, 30, false}, {time.Hour, 30, 30, false}, // nothing comes
		{time.Minute, 0, 2, false}, // the stream was made anew
	} {
		now = now.Add(step.after)
		info := consumerInfo{}
		info.Floor.Stream, info.Delivered.Stream = step.floor, step.delivered
		if err := f.moves(&info, now); (err != nil) != step.stuck {
			t.Errorf("step %d: got %v", i, err)
		}
	}
}
