package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// passing lets callers wait until the intake has passed what it held when they
// came: accepted it, or put it to the rejects. A producer whose push by tag was
// acknowledged may ask for that message with its next call; without the wait the
// answer would be that there is no such message.
//
// However many wait, one at a time looks at the stream, and all take what it saw:
//
//	wait ──▶ a look begun after the call ──▶ last = 9 ──▶ further looks ──▶ all up to 9 are acknowledged
type passing struct {
	look  func(context.Context) (backlog, error)
	limit time.Duration // how long one waits
	room  int64         // how many may wait

	waiting atomic.Int64
	begun   atomic.Uint64 // looks, to tell those begun after a call
	turn    chan struct{} // held by who looks; a channel, so that waiting for it ends with the context
	seen    backlog       // the last look's, by whoever has the turn
	number  uint64        // of that look
	at      time.Time     // when it ended
}

// backlog is what a stream of the intake holds that is not accepted: count messages,
// with sequences from first to last. Nothing when first is above last.
type backlog struct{ first, last, count uint64 }

const (
	passLimit = time.Second
	passRoom  = 1000
	passPace  = 5 * time.Millisecond // at least so long from one look to the next
)

func newPassing(look func(context.Context) (backlog, error)) *passing {
	return &passing{look: look, limit: passLimit, room: passRoom, turn: make(chan struct{}, 1)}
}

// wait returns when all that the stream held at the call is acknowledged, or
// the time for that is over. It reports whether to look for a message again
// makes sense: not where too many wait, or the stream cannot be asked.
func (p *passing) wait(ctx context.Context) bool {
	defer p.waiting.Add(-1)
	if p.waiting.Add(1) > p.room {
		return false
	}
	ctx, stop := context.WithTimeout(ctx, p.limit)
	defer stop()
	held, number, err := p.next(ctx, p.begun.Load())
	if err != nil {
		return false
	}
	for last := held.last; err == nil && held.first <= last; {
		held, number, err = p.next(ctx, number)
	}
	return true
}

// next returns what a look saw that began after the look of the given number.
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
		if err := sleep(ctx, pause); err != nil {
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

// Passed waits until the intake has passed what it held when it was called, a
// second at most, and reports whether to look for a message again makes sense.
func (in *Intake) Passed(ctx context.Context) bool {
	ctx, stop := context.WithTimeout(ctx, passLimit)
	defer stop()
	if !in.Enabled() || !in.nc.IsConnected() || !in.passing.wait(ctx) {
		return false
	}
	// Only now, since what steps aside leaves the intake then.
	return ctx.Err() != nil || in.passingAside.wait(ctx) || ctx.Err() != nil
}

// held is the backlog of a stream. That of the intake stream is what its consumer has
// not acknowledged, which the stream alone does not say: a nats-server 2.9 that was
// killed may come back with messages that are acknowledged (intakewatch.go).
func (in *Intake) held(ctx context.Context, stream string) (backlog, error) {
	var info streamInfo
	if err := apiAsk(ctx, in.nc, apiStreamInfo+stream, nil, &info); err != nil {
		return backlog{}, err
	}
	b := backlog{first: info.State.FirstSeq, last: info.State.LastSeq, count: info.State.Messages}
	if b.count == 0 {
		b.first = b.last + 1
	}
	if b.count == 0 || stream != in.stream {
		return b, nil
	}
	var consumer consumerInfo
	var refused *streamError
	err := apiAsk(ctx, in.nc, apiConsumerInfo+stream+"."+consumerName, nil, &consumer)
	switch {
	case errors.As(err, &refused) && refused.ErrCode == codeConsumerNotFound:
		return b, nil // nothing was taken yet
	case err != nil:
		return backlog{}, err
	}
	b.first = max(b.first, consumer.Floor.Stream+1)
	b.count = min(b.count, consumer.Undelivered+consumer.Unacknowledged)
	return b, nil
}

// consumerInfo is what matters of a consumer.
type consumerInfo struct {
	Floor struct {
		Stream uint64 `json:"stream_seq"`
	} `json:"ack_floor"` // all up to it are acknowledged
	Delivered struct {
		Stream uint64 `json:"stream_seq"`
	} `json:"delivered"` // all up to it were handed out
	Undelivered    uint64 `json:"num_pending"`
	Unacknowledged uint64 `json:"num_ack_pending"`
}
