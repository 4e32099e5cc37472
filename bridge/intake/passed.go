package intake

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/scheduler"
)

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
		if err := link.Sleep(ctx, pause); err != nil {
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
