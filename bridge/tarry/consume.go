package tarry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// Delivery is a message as a [Handler] gets it.
type Delivery struct {
	Topic, ID, Key string
	UID            string // only of a message that was pulled
	Header         nats.Header
	Data           []byte
	Due            time.Time // zero for a message that tarry did not deliver
	Attempt        int       // from 1 up
}

// A Handler processes one message. Returning nil acknowledges it. An error or a panic schedules the next retry, and
// after the last one the message is dead; see [Dead] and [RetryIn].
//
// The context ends when the message must be left alone: its lease is lost ([ErrLeaseLost]), its time-out is over, or
// Consume stops waiting for it ([ErrDrained]). context.Cause tells which.
type Handler func(ctx context.Context, d Delivery) error

// Dead returns an error after which a message is tried no more: it is dead until somebody requeues it. The error's
// text is the reason, for people.
func Dead(err error) error { return &verdict{err: orFailed(err), dead: true} }

// RetryIn returns an error after which a message is tried again after the delay, whatever its schedule says.
func RetryIn(delay time.Duration, err error) error {
	return &verdict{err: orFailed(err), delayed: true, delay: max(delay, 0)}
}

func orFailed(err error) error {
	if err == nil {
		return errors.New("failed")
	}
	return err
}

// verdict is what becomes of a message. err is nil if it is done.
type verdict struct {
	err     error
	dead    bool
	delayed bool
	delay   time.Duration
}

func (v *verdict) Error() string { return v.err.Error() }
func (v *verdict) Unwrap() error { return v.err }

// ErrDrained is the cause of a handler's context if Consume stops and has waited long enough for it.
var ErrDrained = errors.New("tarry: the consumer stops")

// Hooks observe a consumer. Each may be nil; they are called from the consumer's goroutines and hold them up.
type Hooks struct {
	// Begin is called before the handler, and End once its message is settled: with the time that the handler took, its
	// error, and the error of settling the message, which is then delivered again. Another message may Begin before that.
	Begin func(Delivery)
	End   func(d Delivery, took time.Duration, failed, unsettled error)
	// Trouble is called with each error of fetching and extending, which Consume tries again, and with ErrNotJournaled
	// for what is settled and not in the journal yet.
	Trouble func(error)
}

// ConsumeOption changes how [Consume] works.
type ConsumeOption func(*consumer)

// Concurrency is how many messages are fetched and handled at a time, 1 to 1,000; 10 by default. As many more, at most,
// are handled and not settled yet.
func Concurrency(n int) ConsumeOption { return func(c *consumer) { c.atOnce = n } }

// Timeout is how long one message may take. Then its context ends, its lease is extended no more, and it counts as
// failed. There is no limit by default.
func Timeout(d time.Duration) ConsumeOption { return func(c *consumer) { c.timeout = d } }

// Drain is how long Consume waits for its handlers once it stops; 20 seconds by default.
func Drain(d time.Duration) ConsumeOption { return func(c *consumer) { c.drain = d } }

// WithHooks observes the consumer.
func WithHooks(h Hooks) ConsumeOption { return func(c *consumer) { c.hooks = h } }

// WithLogger sets where the consumer logs: slog.Default() by default; nil logs nothing. It logs messages that failed,
// panics with their stack, what was handled and could not be settled, and trouble, at most every 10 seconds; never
// headers or bodies.
func WithLogger(l *slog.Logger) ConsumeOption {
	return func(c *consumer) { c.log = cmp.Or(l, slog.New(slog.DiscardHandler)) }
}

// Source is where a consumer gets its messages: [FromPull] or [FromJetStream].
type Source interface {
	// feeds are what the source fetches from.
	feeds() ([]feed, error)
	// extend holds messages for their whole leases from now, and returns the errors of those that it could not.
	extend(ctx context.Context, all []*held) map[*held]error
	settle(ctx context.Context, h *held, v verdict) error
	release(ctx context.Context, all []*held) error
}

// feed waits for a while for up to so many messages, and passes them on as they come.
type feed func(ctx context.Context, most int, take func(...*held)) error

// final is an error of a feed that no repeat cures.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// held is a message whose lease this consumer has.
type held struct {
	Delivery
	lease time.Duration
	place any // what settles it, of its source

	// Under consumer.mu.
	until  time.Time // when the lease ends; monotonic
	beat   time.Time // when it is extended next; zero if no more
	gone   error     // why it is this consumer's no more: ErrLeaseLost or ErrDrained
	cancel context.CancelCauseFunc
}

// consumer is one call of Consume.
type consumer struct {
	source  Source
	handler Handler
	atOnce  int
	timeout time.Duration
	drain   time.Duration
	hooks   Hooks
	// settling is how many messages are handled and not settled yet.
	settling atomic.Int64
	log      *slog.Logger

	mu    sync.Mutex
	said  time.Time // when trouble was logged last
	held  map[*held]struct{}
	rouse chan struct{} // capacity 1: something was fetched
	work  sync.WaitGroup
}

const (
	drainDefault = 20 * time.Second
	pauseLeast   = 100 * time.Millisecond // after an error of fetching, doubled with each
	pauseMost    = 5 * time.Second
	settleMost   = 5 * time.Second  // of one try to settle a message
	saidMost     = 10 * time.Second // between two logs of trouble
)

// Consume fetches messages and has them handled until ctx ends; then it returns nil. What no repeat cures, such as a
// refusal of a token or a topic, or a URL that is none, ends it with that error.
//
// The lease of a message is extended from its arrival until it is settled, by the whole of it after each third. If it
// is lost all the same, another consumer may have the message: its handler's context ends. A handler that handled a
// message without being able to say so gets it again, so handlers must be able to handle a message twice.
//
// When ctx ends, nothing more is fetched, what came meanwhile is given back, which counts as no try, and Consume waits
// for its handlers. What then still runs is sent back for a retry.
func Consume(ctx context.Context, source Source, handler Handler, opts ...ConsumeOption) error {
	c := &consumer{source: source, handler: handler, atOnce: 10, drain: drainDefault, held: map[*held]struct{}{},
		rouse: make(chan struct{}, 1), log: slog.Default()}
	for _, o := range opts {
		o(c)
	}
	if source == nil || handler == nil {
		return errors.New("tarry: consume: a source and a handler are needed")
	}
	if c.atOnce < 1 || c.atOnce > 1000 {
		return fmt.Errorf("tarry: concurrency: got %d, want 1 to 1000", c.atOnce)
	}
	feeds, err := source.feeds()
	if err != nil {
		return err
	}
	beats, stopBeats := context.WithCancel(context.WithoutCancel(ctx))
	var extending sync.WaitGroup
	extending.Go(func() { c.extendAll(beats) })
	defer extending.Wait()
	defer stopBeats()
	fetching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var fetchers sync.WaitGroup
	for _, f := range feeds {
		fetchers.Go(func() {
			if err := c.fetch(fetching, f); err != nil {
				stop(err)
			}
		})
	}
	fetchers.Wait()
	c.finish(context.WithoutCancel(ctx))
	if ctx.Err() == nil {
		return context.Cause(fetching)
	}
	return nil
}

// fetch keeps up to atOnce messages of one feed with handlers until ctx ends. It returns a refusal.
func (c *consumer) fetch(ctx context.Context, f feed) error {
	slots := make(chan struct{}, c.atOnce)
	for wait := pauseLeast; ; {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		runtime.Gosched() // handlers that are about to end free their slots too
		n := 1
	more:
		for ; n < c.atOnce; n++ {
			select {
			case slots <- struct{}{}:
			default:
				break more
			}
		}
		err := f(ctx, n, func(got ...*held) {
			n -= len(got)
			c.begin(ctx, got, func() { <-slots })
		})
		for range n {
			<-slots
		}
		var refused *Error
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			wait = pauseLeast
			continue
		case errors.As(err, &refused) && !later(refused), errors.As(err, new(final)):
			return err
		}
		c.trouble(err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, pauseMost)
	}
}

func (c *consumer) trouble(err error) {
	if err == nil {
		return
	}
	if c.hooks.Trouble != nil {
		c.hooks.Trouble(err)
	}
	c.mu.Lock()
	say := time.Since(c.said) >= saidMost
	if say {
		c.said = time.Now()
	}
	c.mu.Unlock()
	if say {
		c.log.Warn("tarry: a consumer has trouble, and tries again", "error", err)
	}
}

// begin has what was fetched handled, and extends its leases from now on. What comes once ctx has ended is given back.
func (c *consumer) begin(ctx context.Context, got []*held, done func()) {
	if len(got) > 0 && ctx.Err() != nil {
		c.trouble(c.source.release(context.WithoutCancel(ctx), got))
		for range got {
			done()
		}
		return
	}
	c.mu.Lock()
	now := time.Now()
	for _, h := range got {
		h.until, h.beat = now.Add(h.lease), now.Add(h.lease/3)
		c.held[h] = struct{}{}
	}
	c.mu.Unlock()
	select {
	case c.rouse <- struct{}{}:
	default:
	}
	for _, h := range got {
		c.work.Go(func() { c.handle(context.WithoutCancel(ctx), h, done) })
	}
}

// handle has one message handled and settles it. It calls done once another message may be fetched in its place: while
// few are being settled, that is before this one is, so that a fetch and an acknowledgement of many go at once.
func (c *consumer) handle(ctx context.Context, h *held, done func()) {
	done = sync.OnceFunc(done)
	defer done()
	if c.hooks.Begin != nil {
		c.hooks.Begin(h.Delivery)
	}
	began := time.Now()
	under, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.mu.Lock()
	if h.cancel = cancel; h.gone != nil {
		cancel(h.gone)
	}
	c.mu.Unlock()
	if c.timeout > 0 {
		late := fmt.Errorf("tarry: not handled within %s: %w", c.timeout, context.DeadlineExceeded)
		limited, stop := context.WithTimeoutCause(under, c.timeout, late)
		defer stop()
		defer context.AfterFunc(limited, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			h.beat = time.Time{}
		})()
		under = limited
	}
	err := c.safely(under, h.Delivery)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		if cause := context.Cause(under); cause != nil {
			err = cause
		}
	}
	took := time.Since(began)
	if c.settling.Add(1) <= int64(c.atOnce) {
		done()
	}
	c.settle(ctx, h, err, took)
	c.settling.Add(-1)
}

// safely calls the handler, and turns a panic into an error.
func (c *consumer) safely(ctx context.Context, d Delivery) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			c.log.Error("tarry: a handler panicked", "topic", d.Topic, "id", d.ID, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	return c.handler(ctx, d)
}

// settle says what became of a message, as often as it takes while its lease holds, which goes on to be extended.
func (c *consumer) settle(ctx context.Context, h *held, failed error, took time.Duration) {
	v := verdict{err: failed}
	if asked := (*verdict)(nil); errors.As(failed, &asked) {
		v = *asked
	}
	unsettled := c.lost(h)
	for wait := pauseLeast; unsettled == nil; wait = min(2*wait, pauseMost) {
		call, stop := context.WithTimeout(ctx, settleMost)
		err := c.say(call, h, v)
		stop()
		var refused *Error
		if err == nil {
			break
		}
		if unsettled = c.lost(h); unsettled == nil &&
			(errors.As(err, new(final)) || errors.As(err, &refused) && !later(refused)) {
			unsettled = err
		}
		if unsettled == nil {
			c.trouble(err)
			time.Sleep(wait)
			unsettled = c.lost(h)
		}
	}
	c.mu.Lock()
	delete(c.held, h)
	c.mu.Unlock()
	if errors.Is(unsettled, ErrDrained) { // finish has said so
		return
	}
	if c.hooks.End != nil {
		c.hooks.End(h.Delivery, took, failed, unsettled)
	}
	if failed != nil || unsettled != nil {
		c.log.Warn("tarry: a message failed, or was not settled and comes again", "topic", h.Topic, "id", h.ID,
			"attempt", h.Attempt, "failed", failed, "unsettled", unsettled)
	}
}

// say settles a message. That the journal does not have it yet is no reason to hold it: it is settled.
func (c *consumer) say(ctx context.Context, h *held, v verdict) error {
	err := c.source.settle(ctx, h, v)
	if errors.Is(err, ErrNotJournaled) {
		c.trouble(err)
		return nil
	}
	return err
}

// lost returns why a message is this consumer's no more, or nil.
func (c *consumer) lost(h *held) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return h.gone
}

// extendAll extends the leases of what is held, each after a third of it, and gives up what is lost.
func (c *consumer) extendAll(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(c.extendDue(ctx))
		select {
		case <-timer.C:
		case <-c.rouse:
		case <-ctx.Done():
			return
		}
	}
}

// extendDue extends those leases whose turn it is, and returns when the next has it.
func (c *consumer) extendDue(ctx context.Context) time.Duration {
	byLease := map[time.Duration][]*held{}
	now := time.Now()
	c.mu.Lock()
	for h := range c.held {
		if !h.until.After(now) {
			c.leave(h, ErrLeaseLost)
		} else if !h.beat.IsZero() && !h.beat.After(now) {
			byLease[h.lease] = append(byLease[h.lease], h)
		}
	}
	c.mu.Unlock()
	for lease, all := range byLease {
		for part := range slices.Chunk(all, 1000) {
			sent := time.Now()
			call, stop := context.WithTimeout(ctx, max(lease/6, 100*time.Millisecond))
			failed := c.source.extend(call, part)
			stop()
			c.mu.Lock()
			for _, h := range part {
				switch err := failed[h]; {
				case h.gone != nil || h.beat.IsZero():
				case err == nil:
					h.until, h.beat = sent.Add(lease), sent.Add(lease/3)
				case errors.Is(err, ErrLeaseLost):
					c.leave(h, ErrLeaseLost)
				default: // once more before it ends
					h.beat = time.Now().Add(lease / 12)
				}
			}
			c.mu.Unlock()
			for _, err := range failed {
				c.trouble(err)
			}
		}
	}
	next := time.Hour
	c.mu.Lock()
	defer c.mu.Unlock()
	for h := range c.held {
		next = min(next, time.Until(h.until))
		if !h.beat.IsZero() {
			next = min(next, time.Until(h.beat))
		}
	}
	return max(next, time.Millisecond)
}

// leave makes a message this consumer's no more. c.mu is held.
func (c *consumer) leave(h *held, why error) {
	h.gone = why
	delete(c.held, h)
	if h.cancel != nil {
		h.cancel(why)
	}
}

// finish waits for the handlers, and sends back what still runs.
func (c *consumer) finish(ctx context.Context) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		c.work.Wait()
	}()
	select {
	case <-over:
		return
	case <-time.After(c.drain):
	}
	c.mu.Lock()
	var left []*held
	for h := range c.held {
		left = append(left, h)
		c.leave(h, ErrDrained)
	}
	c.mu.Unlock()
	var sent sync.WaitGroup
	for _, h := range left {
		sent.Go(func() {
			call, stop := context.WithTimeout(ctx, settleMost)
			defer stop()
			err := c.say(call, h, verdict{err: ErrDrained})
			c.trouble(err)
			if c.hooks.End != nil {
				c.hooks.End(h.Delivery, c.drain, ErrDrained, err)
			}
		})
	}
	sent.Wait()
}
