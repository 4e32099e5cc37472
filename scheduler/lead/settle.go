package lead

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// settler ends or returns the messages that the scanner of its bucket has claimed, according to the publisher's
// answers.
type settler struct {
	shared
	copies  copies
	ready   chan struct{} // capacity 1: there are results
	hurry   chan struct{} // capacity 1: they wait no longer than settleBeat
	stopped chan struct{} // closed when the scanner hands over nothing more

	mu      sync.Mutex
	results []result

	// Used only by the settling goroutine: what is judged and not written yet.
	ends []scheduler.End
	back []scheduler.Back
}

// result is the outcome of one claimed message on this instance.
type result struct {
	message *message.Message
	outcome scheduler.Outcome
	from    origin        // where it was claimed
	park    message.Lane  // it was set aside unsent, for this lane
	ends    message.State // the state in which it ends without an attempt; why is the reason
	why     string
	refused bool // NATS refused it; why is the reason, and m.Mark counts the refusal, but the store does not yet
	copied  bool // outcome is that of its copy; see copies
	at      time.Time
}

const (
	settleBatch = 1000
	// settleBeat gathers answers that came together, so that failures are returned in the order of their messages.
	settleBeat = 5 * time.Millisecond
	// settlePause is the most that deliveries wait for more of them, while fewer than settleMany arrive, none fails or
	// goes to a lane, and the scanner has room. No consumer waits for it: only the in_flight state lasts longer. A script
	// costs more than the messages in it.
	settlePause = 20 * time.Millisecond
	settleMany  = 250
)

func newSettler(sh shared) *settler {
	st := &settler{shared: sh, ready: make(chan struct{}, 1), hurry: make(chan struct{}, 1), stopped: make(chan struct{})}
	st.copies = copies{l: sh.l, put: st.put, tries: map[message.UID]vain{}}
	return st
}

// put queues a result for the settler. It never blocks.
func (st *settler) put(r result) {
	st.mu.Lock()
	st.results = append(st.results, r)
	hurry := len(st.results) >= settleMany || r.outcome.Kind != scheduler.Delivered || r.park != ""
	st.mu.Unlock()
	scheduler.Signal(st.ready)
	if hurry {
		scheduler.Signal(st.hurry)
	}
}

// run ends and returns claimed messages until ctx ends and the scanner has stopped. It then waits for the missing
// answers, for as long as the stop time-out and the lease allow.
func (st *settler) run(ctx context.Context) error {
	for {
		select {
		case <-st.ready:
		case <-st.stopped:
			return st.drain(context.WithoutCancel(ctx))
		}
		select {
		case <-st.hurry:
			_ = scheduler.Sleep(ctx, time.Until(st.l.nextBeat(settleBeat)))
		case <-time.After(time.Until(st.l.nextBeat(settlePause))):
		case <-ctx.Done():
		}
		if err := st.round(ctx); over(err) {
			return err
		} else if err != nil {
			if ctx.Err() == nil {
				st.log.Warn().Err(err).Msg("settle failed")
			}
			waitFor(st.stopped, retryPause) // also when ctx has ended: the lease may still serve
			scheduler.Signal(st.ready)
		}
	}
}

// drain ends a leadership: nothing new is handed over any more.
func (st *settler) drain(ctx context.Context) error {
	until := time.Now().Add(min(st.l.cfg.StopTimeout, st.l.lease()))
	for {
		err := st.round(ctx)
		if over(err) {
			return err
		}
		left, _ := st.flight.load()
		if left == 0 {
			return nil
		}
		wait := time.Until(until)
		if wait <= 0 {
			st.log.Warn().Err(err).Int("messages", left).Msg(
				"stopped with messages in flight; the next leader sweeps them")
			return nil
		}
		if err != nil {
			_ = scheduler.Sleep(ctx, min(wait, retryPause))
			continue
		}
		waitFor(st.ready, wait)
	}
}

// round judges the results that have arrived and writes what they mean. What cannot be written stays for another round.
func (st *settler) round(ctx context.Context) error {
	st.mu.Lock()
	results := st.results
	st.results = nil
	st.mu.Unlock()
	st.judge(ctx, results)
	return st.write(ctx)
}

// write records ends and returns. Both calls may be repeated: each names the claim, so a repeat does not affect a
// message that has been claimed again since.
func (st *settler) write(ctx context.Context) error {
	tl, cfg := st.l.cfg.Timeline, &st.l.cfg
	ctx = context.WithoutCancel(ctx) // ends and returns are written as long as the lease lasts
	st.ends = slices.DeleteFunc(st.ends, st.forbidden)
	for len(st.ends) > 0 {
		ends := st.ends[:st.finishable()]
		if err := st.l.call(ctx, func(ctx context.Context) error {
			err := tl.Finish(ctx, st.bucket, st.l.term, ends, cfg.Clock.Milli())
			return err
		}); err != nil {
			return fmt.Errorf("finish %d: %w", len(ends), err)
		}
		st.drop(len(ends), func(i int) (message.UID, uint64) { return ends[i].Message.UID, ends[i].Message.Claim })
		st.ends = st.ends[len(ends):]
	}
	for len(st.back) > 0 {
		back := st.back[:min(len(st.back), settleBatch)]
		if err := st.l.call(ctx, func(ctx context.Context) error {
			err := tl.Return(ctx, st.bucket, st.l.term, back, cfg.Clock.Milli())
			return err
		}); err != nil {
			return fmt.Errorf("return %d: %w", len(back), err)
		}
		st.l.metrics.returned.Add(float64(len(back)))
		st.inbox.returned(back)
		st.drop(len(back), func(i int) (message.UID, uint64) { return back[i].UID, back[i].Claim })
		st.back = st.back[len(back):]
	}
	st.ends, st.back = nil, nil
	return nil
}

// drop drops n claims from memory and wakes the scanner: there is room.
func (st *settler) drop(n int, claim func(int) (message.UID, uint64)) {
	st.flight.drop(n, claim)
	st.inbox.rouse()
}

// forbidden reports whether the table of transitions does not allow the end. The store is still asked for it once, so
// that it lists the message, which stays in flight.
func (st *settler) forbidden(e scheduler.End) bool {
	if e.Known() {
		return false
	}
	err := st.l.call(context.Background(), func(ctx context.Context) error {
		err := st.l.cfg.Timeline.Finish(ctx, st.bucket, st.l.term, []scheduler.End{e},
			st.l.cfg.Clock.Milli())
		return err
	})
	st.log.Error().Err(err).Str("uid", string(e.Message.UID)).Str("state", e.State.String()).Msg(
		"a message cannot end so; it stays in flight")
	return true
}

// finishable returns how many ends go into one call. It also limits their bodies, because the end of a dead message
// carries its body.
func (st *settler) finishable() int {
	n, bytes := 0, 0
	for n < min(len(st.ends), settleBatch) {
		if st.ends[n].State.Kept() {
			bytes += len(st.ends[n].Message.Body)
		}
		if n > 0 && bytes > st.l.cfg.ClaimBytes {
			break
		}
		n++
	}
	return n
}
