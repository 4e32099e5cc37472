package accept

import (
	"testing"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// The longest wait of debounce counts from when the first push was stored. By a clock that was set since, it might be
// over too early.
func TestMessage_CountsNoLongestWaitFromADoubtfulTime(t *testing.T) {
	t.Parallel()
	wall, mono := time.UnixMilli(1896076800000), time.Duration(0)
	c := scheduler.NewClock(scheduler.Local{Wall: func() time.Time { return wall },
		Mono: func() time.Duration { return mono }})
	s := &Producers{cfg: &scheduler.Core{Config: scheduler.Config{Clock: c}}}
	push := scheduler.Push{ID: "a", Topic: "orders", Delay: 2 * time.Hour, Merge: message.MergeDebounce,
		MaxWait: time.Hour}
	check := func(want time.Duration) {
		t.Helper()
		now := c.Now()
		if m := s.message(&push, now); m.MaxWait != want || m.Due != message.CeilMilli(now.Add(time.Hour)) {
			t.Errorf("due %s from now, the wait is %s, want %s", m.Due.Time().Sub(now), m.MaxWait, want)
		}
	}
	check(time.Hour)
	c.Doubt()
	check(0)
	mono, wall = mono+time.Hour, wall.Add(time.Hour)
	check(0)
	mono++
	check(time.Hour)
	wall = wall.Add(-5 * time.Minute) // the uids of here are slow by that
	check(time.Hour + 5*time.Minute)
}
