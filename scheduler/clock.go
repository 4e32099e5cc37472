package scheduler

import (
	"slices"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Clock is the one source of "now": the median of the machine's wall clock and the clocks of the servers (Redis TIME,
// NATS's ts, later the journal's), so that one clock that jumps neither delivers early nor holds everything back.
//
// A server's clock is sampled by a request: it said T at some moment between Sent and Got, so at Got its clock stood
// somewhere in [T, T + round trip]. Samples are carried forward on the monotonic clock and dropped after sampleLife.
// While the own wall clock lies within a server's interval the two agree and the server counts as saying what the wall
// clock says; outside it counts as its lower end. Now is therefore the wall clock itself, without any round trip's
// error, as long as one server agrees with it, and never ahead of the median of the true clocks.
//
// What is due is judged by Now, which may be behind. A delay counts from Latest, which may be ahead and never behind:
// counted from a now that was a round trip behind, a message would be due that much early.
//
// With fewer than two servers there is no majority. Then a wall clock that moved against the monotonic clock by more
// than maxStep is distrusted: now goes on along the monotonic clock from where the wall clock last was, until a
// server's sample decides or stepTrust has passed without a further step.
type Clock struct {
	local Local

	mu      sync.Mutex
	samples map[string]sample
	known   map[string]bool // servers that ever returned a sample
	anchor  time.Time       // the wall clock at the last look
	looked  time.Duration   // the monotonic clock at the last look
	shift   time.Duration   // what distrusted steps moved the wall clock by
	stepped time.Duration   // when the last of them was seen, monotonic

	doubtful bool
	doubted  time.Duration // when the clock that stamps pushes was last seen to step, monotonic
}

// Local is the machine's own two clocks: the one small type through which time is injected. System is the real one;
// tests make their own and step it.
type Local struct {
	// Wall is the time of day. It may jump.
	Wall func() time.Time
	// Mono only ever moves forward, at the pace of real time.
	Mono func() time.Duration
}

// System is the machine's clock.
func System() Local {
	start := time.Now()
	return Local{
		Wall: func() time.Time { return time.Now().Round(0) },
		Mono: func() time.Duration { return time.Since(start) },
	}
}

type sample struct {
	at  time.Time     // the server's T
	got time.Duration // monotonic
	rtt time.Duration
}

const (
	sampleLife = 5 * time.Second
	maxStep    = time.Second
	stepTrust  = 5 * time.Minute
	// clockSlack covers the rounding of a server's clock to its unit.
	clockSlack = time.Millisecond
)

// NewClock returns a Clock based on the machine's clocks.
func NewClock(local Local) *Clock {
	return &Clock{local: local, samples: map[string]sample{}, known: map[string]bool{}, anchor: local.Wall(),
		looked: local.Mono()}
}

// Mono is the monotonic clock that Sample's times are read from.
func (c *Clock) Mono() time.Duration { return c.local.Mono() }

// Sample records what a server's clock said to a request sent and answered at the given readings of Mono.
func (c *Clock) Sample(source string, serverTime time.Time, sent, got time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.samples[source] = sample{at: serverTime.Round(0), got: got, rtt: max(got-sent, 0)}
	c.known[source] = true
}

// Forget records that a server does not show its time, any more or at all.
func (c *Clock) Forget(source string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.samples, source)
	delete(c.known, source)
}

// Doubt records that the clock which stamps pushes was seen to step: the times at which earlier messages were accepted
// are not to be trusted.
func (c *Clock) Doubt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doubted, c.doubtful = c.local.Mono(), true
}

// Doubted reports whether the clock that stamps pushes was seen to step within the given time.
func (c *Clock) Doubted(within time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doubtful && c.local.Mono()-c.doubted <= within
}

// Now returns the time by which everything is judged.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	votes := c.votesLocked()
	slices.SortFunc(votes, byLow)
	return votes[(len(votes)-1)/2].low // of two the earlier, so that nothing is early
}

// Latest returns the time that a delay counts from.
func (c *Clock) Latest() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	votes := c.votesLocked()
	slices.SortFunc(votes, byHigh)
	return votes[len(votes)/2].high // of two the later, because the dispatching instance may use it
}

// Milli is Now in whole milliseconds, rounded down.
func (c *Clock) Milli() message.Milli { return message.Milli(c.Now().UnixMilli()) }

// Spread returns how far apart the known clocks are. More than a second is an alarm.
func (c *Clock) Spread() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	votes := c.votesLocked()
	wall := c.local.Wall()
	votes[len(votes)-1] = vote{wall, wall} // the own clock as it is
	slices.SortFunc(votes, byLow)
	return votes[len(votes)-1].low.Sub(votes[0].low)
}

// Of returns one server's clock reading for now, and whether it rests on a fresh sample.
func (c *Clock) Of(source string) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.samples[source]
	age := c.local.Mono() - s.got
	if !ok || age > sampleLife {
		return time.Time{}, false
	}
	return s.vote(c.local.Wall(), age).low, true
}

// Knew reports whether a server has ever reported its clock.
func (c *Clock) Knew(source string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[source]
}

// vote is the interval that a clock's current time lies in.
type vote struct{ low, high time.Time }

func byLow(a, b vote) int  { return a.low.Compare(b.low) }
func byHigh(a, b vote) int { return a.high.Compare(b.high) }

// votesLocked returns the votes of the servers' clocks, and last that of the machine's own.
func (c *Clock) votesLocked() []vote {
	mono := c.local.Mono()
	votes := make([]vote, 0, 4)
	wall := c.local.Wall()
	for source, s := range c.samples {
		age := mono - s.got
		if age > sampleLife {
			delete(c.samples, source)
			continue
		}
		votes = append(votes, s.vote(wall, age))
	}
	own := c.ownLocked(wall, mono)
	return append(votes, vote{own, own})
}

// vote returns a server's clock interval now, given the age of the sample.
func (s sample) vote(own time.Time, age time.Duration) vote {
	low := s.at.Add(age)
	high := low.Add(s.rtt)
	if own.Before(low.Add(-clockSlack)) || own.After(high.Add(clockSlack)) {
		return vote{low, high}
	}
	return vote{own, own}
}

// ownLocked returns the wall clock, less a step that is not trusted (yet).
func (c *Clock) ownLocked(wall time.Time, mono time.Duration) time.Time {
	step := wall.Sub(c.anchor) - (mono - c.looked)
	if step > maxStep || step < -maxStep {
		c.shift += step
		c.stepped = mono
	}
	c.anchor, c.looked = wall, mono
	if c.shift == 0 || len(c.samples) >= 2 {
		return wall // nothing stepped, or the median decides
	}
	if mono-c.stepped > stepTrust {
		c.shift = 0
		return wall
	}
	return wall.Add(-c.shift)
}
