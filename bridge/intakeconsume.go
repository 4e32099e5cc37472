package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

const (
	pullMessages  = 2000 // asked of NATS ahead of what is handled
	pullExpiry    = 5 * time.Second
	pullHeartbeat = time.Second // how often NATS says that a pull still stands
	pullSilence   = 3           // so many heartbeats later a pull counts as lost
	pullBytes     = 16 << 20
)

// consume takes pushes until ctx ends or the consumer is gone.
func (in *Intake) consume(ctx context.Context) error {
	c, err := in.consumer(ctx)
	if err != nil {
		return err
	}
	handling, stop := context.WithCancel(ctx)
	defer stop()
	var left leftovers
	alive := newPulse(in.cfg.AckWait)
	status := in.nc.StatusChanged(nats.CONNECTED)
	defer in.nc.RemoveStatusListener(status)
	pull := &puller{
		nc: in.nc, subject: apiConsumerNext + in.stream + "." + consumerName,
		bytes: int(max(pullBytes, 2*in.nc.MaxPayload())), // a pull never holds less than the largest message
		handle: func(msg *nats.Msg, place stored) {
			if !in.handle(handling, msg, place, alive) {
				left.add(msg.Reply)
			}
		},
	}
	if err := pull.start(); err != nil {
		return fmt.Errorf("consume stream %s: %w", in.stream, err)
	}
	outrun := make(chan error, 1)
	var watching sync.WaitGroup
	watching.Go(func() { outrun <- in.watch(handling) })
	defer func() {
		stop()
		in.letGo(c, pull, &left)
		watching.Wait()
	}()
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	heard, silent := uint64(0), 0
	for {
		select {
		case <-tick.C:
			if !alive.beat() {
				return fmt.Errorf("consume stream %s: this process stood still for more than %s: what it had fetched "+
					"is not its own any more", in.stream, in.cfg.AckWait)
			}
			if now := pull.heard.Load(); now != heard || pull.busy.Load() || !in.nc.IsConnected() {
				heard, silent = now, 0
			} else if silent++; silent >= pullSilence {
				return fmt.Errorf("consume stream %s: nats does not say any more that it works on a pull", in.stream)
			}
		case <-status: // again: what was asked for on the old link is gone
			if err := pull.anew(); err != nil {
				return fmt.Errorf("consume stream %s: %w", in.stream, err)
			}
		case err := <-outrun:
			return fmt.Errorf("consume stream %s: %w", in.stream, err)
		case err := <-pull.failed:
			return fmt.Errorf("consume stream %s: %w", in.stream, err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// leftovers are the replies of pushes that came and were not handled.
type leftovers struct {
	mu      sync.Mutex
	replies []string
}

func (l *leftovers) add(reply string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replies = append(l.replies, reply)
}

func (l *leftovers) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.replies
	l.replies = nil
	return taken
}

// letGo ends consuming. NATS has sent more than was handled, and that is given
// back for another instance to have at once: dropped, it would wait for
// AckWait, in every restart. It is given back only when NATS sends nothing
// more, or it would come here again. On a lost link nothing can be given back.
func (in *Intake) letGo(c jetstream.Consumer, pull *puller, left *leftovers) {
	pull.stop() // what has come still goes through the handler
	late := time.NewTimer(drainLimit)
	defer late.Stop()
	select {
	case <-pull.closed: // no handler runs any more
	case <-late.C:
		in.log.Warn().Msg("nats did not answer while the intake was closed; some pushes come again later")
	}
	replies := left.take()
	if len(replies) == 0 || !in.nc.IsConnected() {
		return
	}
	// nats-server 2.9 would hand the first of them to the pull that was ended
	// here, where it is lost until AckWait. Asked for the consumer's state, it
	// forgets pulls that nobody listens to.
	ctx, stop := context.WithTimeout(context.Background(), apiTimeout)
	defer stop()
	if _, err := c.Info(ctx); err != nil {
		in.log.Debug().Err(err).Msg("the state of the intake's consumer is not known")
	}
	for _, reply := range replies {
		_ = in.nc.Publish(reply, []byte(ackNow)) // not sent: the push comes again later
	}
	in.metrics.retried.Add(float64(len(replies)))
}

// handle hands one push to the scheduler. It waits while too much is under
// way or the store is away: then NATS is not asked for more. It answers false
// when ctx ended first or this process stood still: the push is to be given back.
func (in *Intake) handle(ctx context.Context, msg *nats.Msg, place stored, alive *pulse) bool {
	if pause := in.trouble.wait(time.Now()); ctx.Err() != nil || pause > 0 && sleep(ctx, pause) != nil {
		return false
	}
	size := len(msg.Data) + messageWeight
	if in.room.enter(ctx, size) != nil {
		return false
	}
	if alive.stoodStill() {
		in.room.leave(1, int64(size))
		return false
	}
	p, err := in.push(msg, place)
	if err != nil {
		in.unreadable(rejected{msg: msg, place: place, size: size, err: err})
	} else if !in.aside.takes(p, rejected{msg: msg, place: place, size: size}) {
		in.cfg.Accept.Accept(p, func(a scheduler.Accepted) { in.answered(msg, place, size, a) })
	}
	return true
}

// accept is the end of handle, for a push that was held meanwhile.
func (in *Intake) accept(msg *nats.Msg, place stored, size int) {
	p, err := in.push(msg, place) // again: its age has grown
	if err != nil {
		in.unreadable(rejected{msg: msg, place: place, size: size, err: err})
		return
	}
	in.cfg.Accept.Accept(p, func(a scheduler.Accepted) { in.answered(msg, place, size, a) })
}

// unreadable ends a push that cannot be handed over.
func (in *Intake) unreadable(r rejected) {
	if errors.Is(r.err, errNoClock) {
		in.later(r.msg, r.size, r.err)
		return
	}
	in.refuse(r)
}

// errNoClock: the time on NATS, which stamped the push, is not known just now.
var errNoClock = errors.New("the clock of nats has not been read for some seconds")

// messageWeight is what a push weighs beyond its body.
const messageWeight = 512

// push reads a message of the stream.
func (in *Intake) push(msg *nats.Msg, place stored) (*scheduler.Push, error) {
	tagged, err := wire.Decode(msg.Subject, in.cfg.Prefix, msg.Header, len(msg.Data))
	if err != nil {
		return nil, err
	}
	if err := tagged.CheckLimit(len(msg.Data), SizeLimit(in.nc, in.cfg.SizeLimit)); err != nil {
		return nil, err
	}
	if topic := wholeTopic(in.cfg.Topics, &tagged, msg.Header.Get(wire.HeaderSubject)); topic != "" {
		tagged.Topic = topic
	}
	p := answer.Push(&tagged, msg.Data)
	if p.UID != "" {
		return nil, uidAsID()
	}
	if p.UID, err = place.uid(p.ID, p.Key); err != nil {
		return nil, err
	}
	p.Stored = place.sequence
	if !p.HasAt {
		now, ok := in.cfg.Clock.Of(ClockSource)
		switch {
		case ok:
		case in.cfg.Clock.Knew(ClockSource): // by another clock the delay might end early
			return nil, errNoClock
		default:
			now = in.cfg.Clock.Now()
		}
		p.Age = in.cfg.Stamps.Age(place, now)
	}
	return p, nil
}

// answered ends a push that the scheduler decided on. It must not block.
func (in *Intake) answered(msg *nats.Msg, place stored, size int, a scheduler.Accepted) {
	switch {
	case a.Err == nil:
		in.metrics.count(a)
		in.trouble.worked()
		in.acks.put(ack{reply: msg.Reply, done: true, size: size})
	case isRefusal(a.Err):
		in.refuse(rejected{msg: msg, place: place, size: size, err: a.Err})
	case in.aside.failed(rejected{msg: msg, place: place, size: size, err: a.Err}):
	default:
		in.later(msg, size, a.Err)
	}
}

// isRefusal reports whether the scheduler will never accept a push, by its answer.
func isRefusal(err error) bool {
	return errors.Is(err, scheduler.ErrDuplicateID) || errors.Is(err, scheduler.ErrTooFar) ||
		errors.Is(err, scheduler.ErrStaleUID) || errors.Is(err, scheduler.ErrMaybeDelivered) ||
		errors.Is(err, scheduler.ErrUnreadable)
}

// pauseAfter is how long a push that could not be accepted stays away. What ails
// one bucket holds back no push of another.
func (in *Intake) pauseAfter(err error, now time.Time) time.Duration {
	if away := (*scheduler.BucketError)(nil); errors.As(err, &away) {
		return in.buckets.of(away.Bucket).failed(now)
	}
	return in.trouble.failed(now)
}

// later gives a push back to NATS for a while: the store is away or full, or
// this instance is stopping. Whatever the outcome was, the same push comes
// again and is the same message.
func (in *Intake) later(msg *nats.Msg, size int, err error) {
	now := time.Now()
	pause := in.pauseAfter(err, now)
	if in.trouble.loud(now) {
		in.log.Warn().Err(err).Dur("pause", pause).Msg("pushes cannot be accepted now; they wait in the intake")
	}
	in.metrics.retried.Inc()
	in.acks.put(ack{reply: msg.Reply, later: pause, size: size})
}
