package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

const (
	pullMessages  = 2000 // asked of NATS ahead of what is handled
	pullExpiry    = 5 * time.Second
	pullHeartbeat = time.Second // a pull that was lost is noticed after two
	pullBytes     = 16 << 20
)

// consume takes pushes until ctx ends or the consumer is gone.
func (in *Intake) consume(ctx context.Context) error {
	c, err := in.consumer(ctx)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	handling, stop := context.WithCancel(ctx)
	defer stop()
	var left leftovers
	alive := newPulse(in.cfg.AckWait)
	consuming, err := c.Consume(func(msg jetstream.Msg) {
		if !in.handle(handling, msg, alive) {
			left.add(msg.Reply())
		}
	},
		// A pull never holds less than the largest message.
		jetstream.PullMaxMessagesWithBytesLimit(pullMessages, int(max(pullBytes, 2*in.nc.MaxPayload()))),
		jetstream.PullExpiry(pullExpiry), jetstream.PullHeartbeat(pullHeartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			if errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) ||
				errors.Is(err, jetstream.ErrConnectionClosed) || errors.Is(err, jetstream.ErrNoHeartbeat) || errors.Is(err, jetstream.ErrBadRequest) {
				select {
				case ended <- err:
				default:
				}
			}
		}))
	if err != nil {
		return fmt.Errorf("consume stream %s: %w", in.stream, err)
	}
	defer func() {
		stop()
		in.letGo(c, consuming, &left)
	}()
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if !alive.beat() {
				return fmt.Errorf("consume stream %s: this process stood still for more than %s: what it had fetched is not its own any more", in.stream, in.cfg.AckWait)
			}
		case err := <-ended:
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
func (in *Intake) letGo(c jetstream.Consumer, consuming jetstream.ConsumeContext, left *leftovers) {
	if !in.nc.IsConnected() {
		consuming.Stop()
	} else {
		consuming.Drain() // what has come still goes through the handler
	}
	late := time.NewTimer(drainLimit)
	defer late.Stop()
	select {
	case <-consuming.Closed(): // no handler runs any more
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
func (in *Intake) handle(ctx context.Context, msg jetstream.Msg, alive *pulse) bool {
	if pause := in.trouble.wait(time.Now()); ctx.Err() != nil || pause > 0 && sleep(ctx, pause) != nil {
		return false
	}
	size := len(msg.Data()) + messageWeight
	if in.room.enter(ctx, size) != nil {
		return false
	}
	if alive.stoodStill() {
		in.room.leave(1, int64(size))
		return false
	}
	place, ok := parseStored(msg.Reply())
	if !ok { // not from a consumer: nothing to acknowledge
		in.room.leave(1, int64(size))
		return true
	}
	p, err := in.push(msg, place)
	if errors.Is(err, errNoClock) {
		in.later(msg, size, err)
		return true
	}
	if err != nil {
		in.refuse(rejected{msg: msg, place: place, size: size, err: err})
		return true
	}
	in.cfg.Accept.Accept(p, func(a scheduler.Accepted) { in.answered(msg, place, size, a) })
	return true
}

// errNoClock: the time on NATS, which stamped the push, is not known just now.
var errNoClock = errors.New("the clock of nats has not been read for some seconds")

// messageWeight is what a push weighs beyond its body.
const messageWeight = 512

// push reads a message of the stream.
func (in *Intake) push(msg jetstream.Msg, place stored) (*scheduler.Push, error) {
	tagged, err := wire.Decode(msg.Subject(), in.cfg.Prefix, msg.Headers())
	if err != nil {
		return nil, err
	}
	if err := tagged.CheckLimit(len(msg.Data()), SizeLimit(in.nc, in.cfg.SizeLimit)); err != nil {
		return nil, err
	}
	p := answer.Push(&tagged, msg.Data())
	if p.UID != "" {
		return nil, &wire.Error{Word: wire.WordID, Field: wire.HeaderID, Detail: "has the form of a uid; those are given by tarry, and a push that was stored " +
			"in the intake needs none to be repeated safely"}
	}
	if p.UID, err = scheduler.IntakeUID(place.sequence, place.at, p.ID, p.Key); err != nil {
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
		p.Age = max(now.Sub(place.at), 0)
	}
	return p, nil
}

// answered ends a push that the scheduler decided on. It must not block.
func (in *Intake) answered(msg jetstream.Msg, place stored, size int, a scheduler.Accepted) {
	switch {
	case a.Err == nil:
		switch {
		case a.Duplicate:
			in.metrics.repeated.Inc()
		case a.Merged:
			in.metrics.merged.Inc()
		default:
			in.metrics.accepted.Inc()
		}
		in.trouble.worked()
		in.acks.put(ack{reply: msg.Reply(), done: true, size: size})
	case errors.Is(a.Err, scheduler.ErrDuplicateID), errors.Is(a.Err, scheduler.ErrTooFar), errors.Is(a.Err, scheduler.ErrStaleUID),
		errors.Is(a.Err, scheduler.ErrMaybeDelivered):
		in.refuse(rejected{msg: msg, place: place, size: size, err: a.Err})
	default:
		in.later(msg, size, a.Err)
	}
}

// later gives a push back to NATS for a while: the store is away or full, or
// this instance is stopping. Whatever the outcome was, the same push comes
// again and is the same message.
func (in *Intake) later(msg jetstream.Msg, size int, err error) {
	now := time.Now()
	pause := in.trouble.failed(now)
	if in.trouble.loud(now) {
		in.log.Warn().Err(err).Dur("pause", pause).Msg("pushes cannot be accepted now; they wait in the intake")
	}
	in.metrics.retried.Inc()
	in.acks.put(ack{reply: msg.Reply(), later: pause, size: size})
}
