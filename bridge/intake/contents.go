package intake

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/scheduler"
)

// Contents reports what the streams of a namespace's intake hold, to any instance.
type Contents struct {
	nc        *nats.Conn
	namespace string
	stream    string // the intake's name
	enabled   atomic.Bool

	passing, passingAside *passing

	floorMu sync.Mutex
	floor   floor
}

// NewContents does not contact the server.
func NewContents(nc *nats.Conn, namespace string) *Contents {
	c := &Contents{nc: nc, namespace: namespace, stream: link.StreamName(namespace)}
	c.passing = newPassing(func(ctx context.Context) (backlog, error) { return c.held(ctx, c.stream) })
	c.passingAside = newPassing(func(ctx context.Context) (backlog, error) {
		return c.held(ctx, AsideName(namespace))
	})
	return c
}

// Enabled reports whether there is an intake stream: it is false until the Intake has created it, and if JetStream is
// off.
func (c *Contents) Enabled() bool { return c.enabled.Load() }

// Backlog returns the last sequence of the intake stream, or 0 if there is no stream, and the time on its server, which
// nats-server 2.9 does not show.
func (c *Contents) Backlog(ctx context.Context) (last uint64, now time.Time, err error) {
	var info link.StreamInfo
	err = link.AskBriefly(ctx, c.nc, link.APIStreamInfo+c.stream, nil, &info)
	if errors.Is(err, link.ErrNoJetStream) && !c.Enabled() {
		return 0, time.Time{}, nil
	} else if err != nil {
		return 0, time.Time{}, fmt.Errorf("backlog: %w", err)
	}
	return info.State.LastSeq, info.TS, nil
}

// Held counts the messages in the intake's streams.
type Held struct {
	Pushes  uint64 // not accepted yet
	Aside   uint64 // of those, the ones whose bucket does not answer
	Rejects uint64
}

// Held reads the state of all streams. If JetStream is off, they hold nothing.
func (c *Contents) Held(ctx context.Context) (Held, error) {
	var h Held
	for stream, n := range map[string]*uint64{c.stream: &h.Pushes, AsideName(c.namespace): &h.Aside,
		link.RejectsName(c.namespace): &h.Rejects} {
		b, err := c.held(ctx, stream)
		if errors.Is(err, link.ErrNoJetStream) && !c.Enabled() {
			return Held{}, nil
		} else if err != nil {
			return Held{}, fmt.Errorf("read the state of %s: %w", stream, err)
		}
		*n = b.count
	}
	h.Pushes += h.Aside
	return h, nil
}

// Consuming returns nil if the intake's consumer answers and acknowledges what it has delivered, or if there is none.
func (c *Contents) Consuming(ctx context.Context) error {
	info, _, err := askConsumer(ctx, c.nc, c.stream)
	if c.absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	c.floorMu.Lock()
	defer c.floorMu.Unlock()
	return c.floor.moves(&info, time.Now())
}

// floor watches whether the acknowledged floor of the consumer passes what was delivered a while ago.
type floor struct {
	delivered uint64
	at        time.Time
}

// stuckAfter is how long a push may be worked on or come again before it counts as stuck.
const stuckAfter = 30 * time.Second

func (f *floor) moves(info *consumerInfo, now time.Time) error {
	if info.Floor.Stream >= f.delivered || info.Delivered.Stream < f.delivered || f.at.IsZero() {
		f.delivered, f.at = info.Delivered.Stream, now
		return nil
	}
	if late := now.Sub(f.at); late > stuckAfter {
		return fmt.Errorf("push %d of the intake is not acknowledged for %s", info.Floor.Stream+1,
			late.Round(time.Second))
	}
	return nil
}

// absent reports whether an answer means that there is no intake.
func (c *Contents) absent(err error) bool {
	var refused *link.StreamError
	return !c.Enabled() && (errors.Is(err, link.ErrNoJetStream) ||
		errors.As(err, &refused) && refused.ErrCode == link.CodeStreamNotFound)
}

// Passed waits, for at most a second, until the intake has passed the pushes that it held at the call.
func (c *Contents) Passed(ctx context.Context) scheduler.Passage {
	ctx, stop := context.WithTimeout(ctx, passLimit)
	defer stop()
	if !c.nc.IsConnected() {
		return scheduler.PassedUnknown
	}
	// The stream of pushes put aside is last, since pushes move to it from the intake.
	for _, stream := range []*passing{c.passing, c.passingAside} {
		passed, err := stream.wait(ctx)
		if c.absent(err) {
			return scheduler.PassedNothing
		}
		if passed != scheduler.PassedAll {
			return passed
		}
	}
	return scheduler.PassedAll
}

// held returns the backlog of a stream. The backlog of the intake stream is what its consumer has not acknowledged,
// which the stream alone does not reveal: a nats-server 2.9 that was killed may come back with messages that are
// acknowledged (watch.go).
func (c *Contents) held(ctx context.Context, stream string) (backlog, error) {
	var info link.StreamInfo
	if err := link.AskBriefly(ctx, c.nc, link.APIStreamInfo+stream, nil, &info); err != nil {
		return backlog{}, err
	}
	b := backlog{first: info.State.FirstSeq, last: info.State.LastSeq, count: info.State.Messages}
	if b.count == 0 {
		b.first = b.last + 1
	}
	if b.count == 0 || stream != c.stream {
		return b, nil
	}
	consumer, there, err := askConsumer(ctx, c.nc, stream)
	if err != nil || !there { // without a consumer no push was delivered yet
		return b, err
	}
	b.first = max(b.first, consumer.Floor.Stream+1)
	b.count = min(b.count, consumer.Undelivered+consumer.Unacknowledged)
	return b, nil
}

// passing lets callers wait until the intake has passed the pushes that it held at the time of their call, by accepting
// or rejecting them. A producer whose push by tag was acknowledged may ask for that message with its next call; without
// the wait the message would be reported as unknown.
//
// However many callers wait, one at a time looks at the stream, and all use its result:
//
//	wait ──▶ a look begun after the call ──▶ last = 9 ──▶ further looks ──▶ all up to 9 are acknowledged
type passing struct {
	look  func(context.Context) (backlog, error)
	limit time.Duration // how long one waits
	room  int64         // how many may wait

	waiting atomic.Int64
	begun   atomic.Uint64 // counts looks, to identify those begun after a call
	turn    chan struct{} // held by the looking goroutine; a channel, so that waiting for it ends with the context
	seen    backlog       // the last look's result, written by the holder of turn
	number  uint64        // of that look
	at      time.Time     // when it ended
}

// backlog is the range of sequences, from first to last, that a stream of the intake holds and that are not accepted.
// It is empty if first is above last.
type backlog struct{ first, last, count uint64 }

const (
	passLimit = time.Second
	passPace  = 5 * time.Millisecond // the minimum time between two looks
)

func newPassing(look func(context.Context) (backlog, error)) *passing {
	return &passing{look: look, limit: passLimit, room: link.PassRoom, turn: make(chan struct{}, 1)}
}

// wait returns when all messages that the stream held at the call are acknowledged, or the time limit is over. What
// became of them is unknown if too many callers wait, or if the stream cannot be read; err is the reason.
func (p *passing) wait(ctx context.Context) (passed scheduler.Passage, err error) {
	defer p.waiting.Add(-1)
	if p.waiting.Add(1) > p.room {
		return scheduler.PassedUnknown, nil
	}
	ctx, stop := context.WithTimeout(ctx, p.limit)
	defer stop()
	held, number, err := p.next(ctx, p.begun.Load())
	if err != nil {
		return scheduler.PassedUnknown, err
	}
	for last := held.last; held.first <= last; {
		if held, number, err = p.next(ctx, number); err != nil {
			return scheduler.PassedSome, nil
		}
	}
	return scheduler.PassedAll, nil
}

// next returns the result of a look that began after the look of the given number.
func (p *passing) next(ctx context.Context, number uint64) (backlog, uint64, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return backlog{}, 0, context.Cause(ctx)
	}
	if p.number > number {
		return p.seen, p.number, nil
	}
	if pause := passPace - time.Since(p.at); !p.at.IsZero() && pause > 0 {
		if err := scheduler.Sleep(ctx, pause); err != nil {
			return backlog{}, 0, err
		}
	}
	begun := p.begun.Add(1)
	held, err := p.look(ctx)
	if err != nil {
		return backlog{}, 0, fmt.Errorf("look at the intake stream: %w", err)
	}
	p.seen, p.number, p.at = held, begun, time.Now()
	return held, begun, nil
}
