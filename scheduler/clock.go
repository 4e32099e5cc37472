package scheduler

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Clock is the one source of "now": the median of the machine's wall clock and the clocks of the servers (Redis TIME
// and NATS's ts), so that a single clock that jumps neither delivers messages early nor holds all of them back.
//
// A server's clock is sampled by a request. The server read T at some moment between Sent and Got, so at Got its clock
// showed a time in [T, T + round trip], and in what the samples before say of it. Samples are carried forward on the
// monotonic clock and dropped after sampleLife. While the machine's wall clock lies within a server's interval, the two
// agree and the server's vote is the wall clock's time; otherwise its vote is the lower end of the interval. As long as
// one server agrees with the wall clock, Now is therefore the wall clock itself, without the error of a round trip. An
// interval longer than agreeRTT agrees with nothing: it would hold a wall clock that is ahead. So Now is not ahead of
// the median of the true clocks by more than that; while no server answers in less, it is behind by up to a round trip.
//
// Whether a message is due is decided by Now, which may be behind. A delay counts from Latest, which may be ahead but
// is never behind: a delay counted from a time that is a round trip behind would end that much too early.
//
// While no sample is fresh, Now is not ahead of the last one, carried forward however far, and Latest not behind it: a
// process that was suspended makes nothing early before it has asked the servers again.
//
// With fewer than two servers there is no majority. A wall clock that has then moved against the monotonic clock by
// more than maxStep is not trusted: Now continues along the monotonic clock from the last trusted wall time, until a
// server's sample decides or stepTrust has passed without a further step.
type Clock struct {
	local Local

	mu      sync.Mutex
	samples map[string]sample
	known   map[string]bool // servers that ever returned a sample
	last    sample          // the latest, however old
	anchor  time.Time       // the wall clock at the last look
	looked  time.Duration   // the monotonic clock at the last look
	shift   time.Duration   // by how much distrusted steps moved the wall clock
	stepped time.Duration   // when the last of them was seen, monotonic

	doubtful bool
	doubted  time.Duration // when the clock that stamps pushes was last seen to step, monotonic
}

// Local holds the machine's two clocks. It is the one type through which time is injected: System returns the real
// clocks, and tests pass their own and step them.
type Local struct {
	// Wall is the time of day. It may jump.
	Wall func() time.Time
	// Mono only moves forward, at the pace of real time.
	Mono func() time.Duration
}

// System returns the machine's clocks.
func System() Local {
	start := time.Now()
	return Local{
		Wall: func() time.Time { return time.Now().Round(0) },
		Mono: func() time.Duration { return time.Since(start) },
	}
}

// sample is an interval in which a server's clock was at a time.
type sample struct {
	at  time.Time     // the lower end: the server's T
	got time.Duration // monotonic
	rtt time.Duration // how long the interval is: a round trip, or less
}

// narrow leaves of an interval what lies in an earlier one too, carried forward, unless the clock has stepped.
func (s *sample) narrow(before sample) {
	low := before.at.Add(s.got - before.got)
	high := low.Add(before.rtt)
	if low.Before(s.at) {
		low = s.at
	}
	if latest := s.at.Add(s.rtt); latest.Before(high) {
		high = latest
	}
	if !high.Before(low) {
		s.at, s.rtt = low, high.Sub(low)
	}
}

const (
	sampleLife = 5 * time.Second
	maxStep    = time.Second
	stepTrust  = 5 * time.Minute
	agreeRTT   = 10 * time.Millisecond
	// clockSlack covers the rounding of a server's clock to its unit.
	clockSlack = time.Millisecond
)

// NewClock returns a Clock based on the given clocks of the machine.
func NewClock(local Local) *Clock {
	return &Clock{local: local, samples: map[string]sample{}, known: map[string]bool{}, anchor: local.Wall(),
		looked: local.Mono()}
}

// Mono is the monotonic clock that Sample's times are read from.
func (c *Clock) Mono() time.Duration { return c.local.Mono() }

// Sample records a server's clock reading, taken by a request that was sent and answered at the given readings of Mono.
func (c *Clock) Sample(source string, serverTime time.Time, sent, got time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = sample{at: serverTime.Round(0), got: got, rtt: max(got-sent, 0)}
	if before, ok := c.samples[source]; ok && got-before.got <= sampleLife {
		c.last.narrow(before)
	}
	c.samples[source] = c.last
	c.known[source] = true
}

// Forget records that a server's time is not available, or no longer.
func (c *Clock) Forget(source string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.samples, source)
	if delete(c.known, source); len(c.known) == 0 {
		c.last = sample{}
	}
}

// Doubt records that the clock that stamps pushes was seen to step: the acceptance times of earlier messages cannot be
// trusted.
func (c *Clock) Doubt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doubted, c.doubtful = c.local.Mono(), true
}

// Doubted reports whether Doubt was called within the given time.
func (c *Clock) Doubted(within time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doubtful && c.local.Mono()-c.doubted <= within
}

// Now returns the time that decides what is due.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	votes := c.votesLocked()
	slices.SortFunc(votes, byLow)
	return votes[(len(votes)-1)/2].low // of two the earlier, so that nothing is early
}

// Latest returns the time from which a delay counts.
func (c *Clock) Latest() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	votes := c.votesLocked()
	slices.SortFunc(votes, byHigh)
	return votes[len(votes)/2].high // of two the later, because the dispatching instance may use it
}

// Milli returns Now in whole milliseconds, rounded down.
func (c *Clock) Milli() message.Milli { return message.Milli(c.Now().UnixMilli()) }

// Spread returns how far apart the known clocks are at least. More than a second is an alarm.
func (c *Clock) Spread() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	votes := c.votesLocked()
	wall := c.local.Wall()
	votes[len(votes)-1] = vote{wall, wall} // the machine's clock, its distrusted steps included
	first := slices.MinFunc(votes, byHigh)
	return max(slices.MaxFunc(votes, byLow).low.Sub(first.high), 0)
}

// Lag returns how far the slowest clock is behind the time that decides.
func (c *Clock) Lag() time.Duration {
	now := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	slowest := c.local.Wall()
	for _, v := range c.votesLocked() {
		if v.high.Before(slowest) {
			slowest = v.high
		}
	}
	return max(now.Sub(slowest), 0)
}

// Voters is how many clocks vote if all are at hand.
const Voters = 3

// Votes returns how many clocks vote now. With fewer than Voters no majority corrects a clock: the earlier of two
// decides what is due, so one that is slow holds everything back.
func (c *Clock) Votes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.votesLocked())
}

// Reading is by how much a clock is ahead of the time that decides, at least and at most.
type Reading struct {
	Source      string // a server, or machine
	Least, Most time.Duration
}

// Readings returns what is known of each clock, by the name of its source. The servers' were read within sampleLife.
func (c *Clock) Readings() (all []Reading) {
	now := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	mono, wall := c.local.Mono(), c.local.Wall()
	for source, s := range c.samples {
		if age := mono - s.got; age <= sampleLife {
			low := s.at.Add(age).Sub(now)
			all = append(all, Reading{source, low, low + s.rtt})
		}
	}
	all = append(all, Reading{"machine", wall.Sub(now), wall.Sub(now)})
	slices.SortFunc(all, func(a, b Reading) int { return strings.Compare(a.Source, b.Source) })
	return all
}

// Disputes reports whether a due time has come by one clock and, because they disagree, not by the one that decides.
func (c *Clock) Disputes(due message.Milli) bool {
	return due > c.Milli() && due <= message.Milli(c.Latest().UnixMilli())
}

// Of returns the current time by one server's clock, and whether it is based on a fresh sample.
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

// vote is the interval in which a clock's current time lies.
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
	alone := vote{own, own}
	if len(votes) == 0 && !c.last.at.IsZero() { // this process was suspended, or all servers are away
		carried := c.last.at.Add(mono - c.last.got)
		if carried.Before(own) {
			alone.low = carried
		} else {
			alone.high = carried.Add(c.last.rtt)
		}
	}
	return append(votes, alone)
}

// vote returns the interval in which a server's clock is now, given the age of the sample.
func (s sample) vote(own time.Time, age time.Duration) vote {
	low := s.at.Add(age)
	high := low.Add(s.rtt)
	if s.rtt > agreeRTT || own.Before(low.Add(-clockSlack)) || own.After(high.Add(clockSlack)) {
		return vote{low, high}
	}
	// The slack tells that they agree. It makes nothing early: neither what is due by an earlier time, nor a delay that
	// counts from a later one.
	earlier, later := own, own
	if own.After(high) {
		earlier = high
	}
	if own.Before(low) {
		later = low
	}
	return vote{earlier, later}
}

// ownLocked returns the wall clock without those of its steps that are not, or not yet, trusted.
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
