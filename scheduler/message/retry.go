package message

import (
	"math/rand/v2"
	"time"
)

// Retry is a schedule of retries: the n-th retry waits the n-th delay, and after the last one the message is dead.
// Package bridge/wire reads and writes its text.
type Retry struct {
	Delays []time.Duration // whole milliseconds
	// Jitter moves each delay by up to this many percent, either way.
	Jitter uint8
}

// DefaultRetry returns the schedule of messages that have none: nine retries within a little more than a day, as
// payment providers notify shops.
func DefaultRetry() Retry {
	return Retry{Delays: []time.Duration{0, 0, 2 * time.Minute, 10 * time.Minute, 10 * time.Minute,
		time.Hour, 2 * time.Hour, 6 * time.Hour, 15 * time.Hour}}
}

// Empty reports whether the schedule has no retries.
func (r *Retry) Empty() bool { return len(r.Delays) == 0 }

// After returns the delay of the n-th retry, counted from 1. over reports that there is no such retry.
func (r *Retry) After(n int) (delay time.Duration, over bool) {
	if n < 1 || n > len(r.Delays) {
		return 0, true
	}
	d := r.Delays[n-1]
	if r.Jitter > 0 && d > 0 {
		d += time.Duration((rand.Float64()*2 - 1) * float64(r.Jitter) / 100 * float64(d))
	}
	return d.Round(time.Millisecond), false
}
