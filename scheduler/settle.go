package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// result is the outcome of one claimed message on this instance.
type result struct {
	message *message.Message
	outcome Outcome
	from    origin        // where it was claimed
	park    message.Lane  // it was set aside unsent, for this lane
	ends    message.State // it ends so, without an attempt, and why
	why     string
	copied  bool // outcome is that of its copy, for the subject of such ends
	at      time.Time
}

// settling is the queue between the publisher's answers and the settler. put never blocks.
type settling struct {
	ready   chan struct{} // capacity 1
	stopped chan struct{} // closed when the scanner hands over nothing more

	mu    *sync.Mutex
	queue *[]result
}

func newSettling() settling {
	return settling{ready: make(chan struct{}, 1), stopped: make(chan struct{}), mu: &sync.Mutex{}, queue: &[]result{}}
}

func (q settling) put(r result) {
	q.mu.Lock()
	*q.queue = append(*q.queue, r)
	q.mu.Unlock()
	signal(q.ready)
}

func (q settling) take() []result {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := *q.queue
	*q.queue = nil
	return taken
}

func (q settling) scanned() { close(q.stopped) }

// aside is a claimed message that is returning to waiting.
type aside struct {
	back    Back
	message *message.Message
}

const (
	settleBatch = 1000
	// settlePause lets answers gather while little is going on, at most this long; a consumer never waits for it, only
	// the in_flight state lasts longer.
	settlePause = 5 * time.Millisecond
)

// settle ends and returns claimed messages until ctx ends and the scanner has stopped. It then waits for the missing
// answers, for as long as the stop time-out and the lease allow.
func (sc *scanner) settle(ctx context.Context) error {
	var ends []End
	var back []aside
	for {
		select {
		case <-sc.settling.ready:
		case <-sc.settling.stopped:
			return sc.drain(context.WithoutCancel(ctx), ends, back)
		}
		sleep(ctx, time.Until(sc.l.s.nextBeat(settlePause)))
		e, b := sc.judge(ctx, sc.settling.take())
		ends, back = append(ends, e...), append(back, b...)
		var err error
		if ends, back, err = sc.write(ctx, ends, back); over(err) {
			return err
		} else if err != nil {
			if ctx.Err() == nil {
				sc.log.Warn().Err(err).Msg("settle failed")
			}
			timer := time.NewTimer(retryPause) // also when ctx has ended: the lease may still serve
			select {
			case <-timer.C:
			case <-sc.settling.stopped:
			}
			timer.Stop()
			sc.settling.again()
		}
	}
}

// again asks for another round of the settler.
func (q settling) again() {
	signal(q.ready)
}

// drain ends a leadership: nothing new is handed over any more.
func (sc *scanner) drain(ctx context.Context, ends []End, back []aside) error {
	until := time.Now().Add(min(sc.l.s.cfg.StopTimeout, sc.l.lease()))
	for {
		e, b := sc.judge(ctx, sc.settling.take())
		ends, back = append(ends, e...), append(back, b...)
		var err error
		if ends, back, err = sc.write(ctx, ends, back); over(err) {
			return err
		}
		sc.mu.Lock()
		left := len(sc.inFlight)
		sc.mu.Unlock()
		if left == 0 {
			return nil
		}
		wait := time.Until(until)
		if wait <= 0 {
			sc.log.Warn().Err(err).Int("messages", left).Msg(
				"stopped with messages in flight; the next leader sweeps them")
			return nil
		}
		if err != nil {
			sleep(ctx, min(wait, retryPause))
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-sc.settling.ready:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// write records ends and returns, and hands back those that failed for another round. Both calls may be repeated.
func (sc *scanner) write(ctx context.Context, ends []End, back []aside) ([]End, []aside, error) {
	tl, cfg := sc.l.s.cfg.Timeline, &sc.l.s.cfg
	ctx = context.WithoutCancel(ctx) // what NATS has taken is worth writing down while the lease lasts
	ends = slices.DeleteFunc(ends, sc.endless)
	for len(ends) > 0 {
		n := sc.finishable(ends)
		if err := sc.l.call(ctx, func(ctx context.Context) error {
			return tl.Finish(ctx, sc.bucket, Leader(sc.l.term), ends[:n], cfg.Clock.Milli())
		}); err != nil {
			return ends, back, fmt.Errorf("finish %d: %w", n, err)
		}
		sc.forget(n, func(i int) *message.Message { return ends[i].Message })
		ends = ends[n:]
	}
	for len(back) > 0 {
		n := min(len(back), settleBatch)
		if err := sc.giveBack(ctx, back[:n]); err != nil {
			return ends, back, fmt.Errorf("return %d: %w", n, err)
		}
		back = back[n:]
	}
	return nil, nil, nil
}

// endless reports whether the table of transitions does not allow the end. The store is still asked for it once, so
// that it lists the message, which stays in flight.
func (sc *scanner) endless(e End) bool {
	if e.Known() {
		return false
	}
	err := sc.l.call(context.Background(), func(ctx context.Context) error {
		return sc.l.s.cfg.Timeline.Finish(ctx, sc.bucket, Leader(sc.l.term), []End{e}, sc.l.s.cfg.Clock.Milli())
	})
	sc.log.Error().Err(err).Str("uid", string(e.Message.UID)).Str("state", e.State.String()).Msg(
		"a message cannot end so; it stays in flight")
	return true
}

// finishable returns how many ends go into one call: the end of a dead message carries its body.
func (sc *scanner) finishable(ends []End) int {
	n, bytes := 0, 0
	for n < min(len(ends), settleBatch) {
		if ends[n].State.Kept() {
			bytes += len(ends[n].Message.Body)
		}
		if n > 0 && bytes > sc.l.s.cfg.ClaimBytes {
			break
		}
		n++
	}
	return n
}

// giveBack returns claimed messages to waiting. Each Back names its claim, so a repeat does not affect a message that
// has been claimed again since.
func (sc *scanner) giveBack(ctx context.Context, back []aside) error {
	batch := make([]Back, len(back))
	for i := range back {
		batch[i] = back[i].back
	}
	if err := sc.l.call(ctx, func(ctx context.Context) error {
		return sc.l.s.cfg.Timeline.Return(ctx, sc.bucket, Leader(sc.l.term), batch, sc.l.s.cfg.Clock.Milli())
	}); err != nil {
		return err
	}
	sc.returned(back)
	return nil
}

// forget drops n messages from memory and wakes the scanner: there is room. A message that was returned may be claimed
// again already: that claim is another Message and stays.
func (sc *scanner) forget(n int, of func(int) *message.Message) {
	sc.mu.Lock()
	for i := range n {
		if m := of(i); sc.inFlight[m.UID] == m {
			delete(sc.inFlight, m.UID)
			sc.weight -= len(m.Body)
		}
	}
	sc.mu.Unlock()
	sc.rouse()
}

// returned drops messages that wait again from memory, and nudges the scanner for when they are due.
func (sc *scanner) returned(back []aside) {
	sc.l.s.metrics.returned.Add(float64(len(back)))
	sc.mu.Lock()
	var head message.Milli
	for i := range back {
		b := &back[i].back
		if b.Mark.Lane != "" {
			sc.adopt[b.Mark.Lane]++
		} else if due := message.ScoreDue(b.Score); head == 0 || due < head {
			head = due
		}
	}
	sc.mu.Unlock()
	if head > 0 {
		sc.nudge(head)
	}
	sc.forget(len(back), func(i int) *message.Message { return back[i].message })
}

// trim forgets ends past their time, in bounded steps and for a bounded while. A failure waits for the next round.
func (sc *scanner) trim(ctx context.Context) {
	for until := time.Now().Add(trimWhile); time.Now().Before(until); {
		var n int
		err := sc.l.call(ctx, func(ctx context.Context) (err error) {
			n, err = sc.l.s.cfg.Timeline.Trim(ctx, sc.bucket, sc.l.term, sc.l.s.cfg.Clock.Milli(), trimBatch)
			return err
		})
		if err != nil && !over(err) && ctx.Err() == nil {
			sc.log.Warn().Err(err).Msg("trim failed")
		}
		if err != nil || n < trimBatch {
			return
		}
	}
}
