package intake

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// ClockSource is the name of NATS's clock in scheduler.Clock.
const ClockSource = "nats"

const sampleEvery = time.Second

// ClockConfig configures a ClockSampler.
type ClockConfig struct {
	Conn      *nats.Conn
	Namespace string
	Clock     *scheduler.Clock
	Log       zerolog.Logger
}

// ClockSampler supplies a scheduler.Clock with samples of the clock of the NATS server that leads the intake stream:
// the clock that timestamps pushes.
type ClockSampler struct {
	cfg ClockConfig
	log zerolog.Logger

	sampling chan struct{} // capacity 1: full while a sample is taken

	mu    sync.Mutex
	last  clockSample
	doubt uint64 // pushes up to this sequence were timestamped before a step
	// begun is when the stream was last seen to end before a sequence that it had: it counts again from there.
	begun time.Time
	// marks are two earlier samples, a quarter of what is comparable apart: since the first, sequences compare.
	marks [2]clockSample
}

// clockSample is one reading of the server's clock.
type clockSample struct {
	taken     bool
	sent, got time.Duration // monotonic
	at        time.Time
	leader    string // the server that timestamps pushes, in a cluster
	sequence  uint64 // the last sequence of the intake stream
}

// A server's clock has stepped if it moved against the monotonic clock by more than this, beyond the uncertainty of
// drift and round trips.
const (
	stepLeast  = 50 * time.Millisecond
	clockDrift = 1000 // the divisor of the elapsed time
)

// Age returns how long ago a push was stored, when the server's clock reads now. The result may be too short, so that a
// delay ends late, but never too long: the server's clock may have been set, or the stream may have moved to a server
// with another clock. The age of a push stored before that is 0, and not known. A push stored since the last sample
// cannot be older than that sample.
func (c *ClockSampler) Age(p link.Place, now time.Time) (age time.Duration, known bool) {
	age = max(now.Sub(p.At), 0)
	if c == nil {
		return age, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case p.Sequence <= c.doubt:
		return 0, false
	case c.last.taken && p.Sequence > c.last.sequence:
		return min(age, c.cfg.Clock.Mono()-c.last.sent), true
	}
	return age, true
}

// Since returns the time, by the stream's clock, from which sequences tell the order of pushes relative to the push at
// sequence, stored at the given time. created is when the present life of the stream began. The time is in the far
// future if the stream has gone on so far that the sequence in a uid may look the other way round.
func (c *ClockSampler) Since(sequence uint64, stored, created time.Time) message.Milli {
	since := stored.Add(-message.Nearby)
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch last := c.last.sequence; {
		case last > sequence && last-sequence >= message.Comparable/2:
			return math.MaxInt64
		case max(last, sequence) < message.Comparable/2: // all of the stream
			since = created
		case c.marks[0].taken && sequence-c.marks[0].sequence < message.Comparable/2 && c.marks[0].at.Before(since):
			since = c.marks[0].at
		}
		if c.begun.After(since) {
			since = c.begun
		}
	}
	if created.After(since) {
		since = created
	}
	return message.CeilMilli(since)
}

// saw records a sample before it is used, and checks whether the clock has stepped since the last one.
func (c *ClockSampler) saw(s clockSample) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.last
	c.last = s
	if s.sequence < c.doubt { // another stream has the name now
		c.doubt = 0
	}
	if !before.taken {
		return
	}
	if s.leader != before.leader {
		c.cfg.Clock.Forget(ClockSource) // it was another server's
	}
	if apart := s.sequence - c.marks[1].sequence; !c.marks[1].taken || apart >= message.Comparable/4 {
		if c.marks[0] = c.marks[1]; !c.marks[0].taken {
			c.marks[0] = s
		}
		c.marks[1] = s
	}
	if s.sequence < before.sequence {
		c.marks = [2]clockSample{s, s}
		if c.begun = s.at; c.begun.IsZero() {
			c.begun = c.cfg.Clock.Now()
		}
	}
	var step time.Duration
	if s.at.IsZero() || before.at.IsZero() { // without a time, only a new leader suggests another clock
		if s.leader == before.leader {
			return
		}
	} else {
		since := s.got - before.got
		step = s.at.Sub(before.at) - since
		if step.Abs() <= stepLeast+since/clockDrift+(s.got-s.sent)+(before.got-before.sent) {
			return
		}
	}
	c.doubt = s.sequence
	c.cfg.Clock.Doubt()
	c.log.Warn().Dur("step", step).Str("leader", s.leader).Uint64("sequence", s.sequence).
		Msg("the clock that timestamps pushes has changed; pushes in the intake wait their whole delay from now on")
}

// NewClockSampler returns a ClockSampler. Every field of cfg must be set.
func NewClockSampler(cfg ClockConfig) *ClockSampler {
	return &ClockSampler{cfg: cfg, log: cfg.Log.With().Str("component", "clock").Logger(),
		sampling: make(chan struct{}, 1)}
}

// Run samples every second until ctx ends. Without an intake stream, or with a server that is too old to report its
// time (2.9), there are no samples: the other clocks decide what is due, and a delay counts from when a push is
// accepted.
func (c *ClockSampler) Run(ctx context.Context) error {
	said := false
	for {
		ok, err := c.sample(ctx)
		if err == nil && !ok {
			c.cfg.Clock.Forget(ClockSource)
			if !said {
				c.log.Info().Str("version", c.cfg.Conn.ConnectedServerVersion()).Msg(
					"this nats server does not show its time")
			}
			said = true
		}
		if err := scheduler.Sleep(ctx, sampleEvery); err != nil {
			return err
		}
	}
}

// first takes a sample unless there is one.
func (c *ClockSampler) first(ctx context.Context) error {
	if c == nil {
		return nil
	}
	if _, known := c.cfg.Clock.Of(ClockSource); known {
		return nil
	}
	_, err := c.sample(ctx)
	return err
}

// sample takes one sample; it returns false if the answer holds no time.
func (c *ClockSampler) sample(ctx context.Context) (bool, error) {
	select {
	case c.sampling <- struct{}{}:
		defer func() { <-c.sampling }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	if !c.cfg.Conn.IsConnected() {
		return false, nats.ErrDisconnected
	}
	var info link.StreamInfo
	sent := c.cfg.Clock.Mono()
	err := link.AskBriefly(ctx, c.cfg.Conn, link.APIStreamInfo+link.StreamName(c.cfg.Namespace), nil, &info)
	got := c.cfg.Clock.Mono()
	if err != nil {
		return false, err
	}
	c.saw(clockSample{taken: true, sent: sent, got: got, at: info.TS, leader: info.Cluster.Leader,
		sequence: info.State.LastSeq})
	if info.TS.IsZero() {
		return false, nil
	}
	c.cfg.Clock.Sample(ClockSource, info.TS, sent, got)
	return true, nil
}
