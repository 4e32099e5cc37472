package intake

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

const (
	pullMessages  = 2000 // requested from NATS ahead of handling
	pullExpiry    = 5 * time.Second
	pullHeartbeat = time.Second // how often NATS confirms that a pull is still open
	pullSilence   = 3           // the number of heartbeats after which a pull counts as lost
	pullBytes     = 16 << 20
)

// errChanged ends consuming: pushes cannot be accepted here any more, or can again.
var errChanged = errors.New("whether pushes can be accepted has changed")

// receive receives pushes until ctx ends or the consumer is gone. While this instance can accept none, for example
// because its link to the database is down, it leaves them to the others, and tries one after each pause.
func (in *Intake) receive(ctx context.Context) error {
	for {
		ahead := pullMessages
		if in.trouble.lasts() {
			ahead = 1
			if err := scheduler.Sleep(ctx, in.trouble.wait(time.Now())); err != nil {
				return err
			}
		}
		if err := in.consume(ctx, ahead); !errors.Is(err, errChanged) {
			return err
		}
	}
}

// consume is receive until it is to request more pushes ahead, or fewer.
func (in *Intake) consume(ctx context.Context, ahead int) error {
	c, err := in.consumer(ctx)
	if err != nil {
		return err
	}
	in.created.Store(c.CachedInfo().Created.UnixNano())
	if err := in.cfg.Stamps.first(ctx); err != nil { // else the delays of what waits would begin anew
		return fmt.Errorf("read the time of nats: %w", err)
	}
	handling, stop := context.WithCancel(ctx)
	defer stop()
	left := link.NewQueue[string](1) // the reply subjects of pushes that arrived and were not handled
	alive := link.NewPulse(in.cfg.AckWait)
	var leaving, resting atomic.Bool
	status := in.nc.StatusChanged(nats.CONNECTED)
	defer in.nc.RemoveStatusListener(status)
	pull := &puller{
		nc: in.nc, subject: apiConsumerNext + in.stream + "." + consumerName,
		ahead: ahead,
		bytes: int(max(pullBytes, 2*in.nc.MaxPayload())), // a pull never holds less than the largest message
		got:   func(msg *nats.Msg) { in.working.add(msg.Reply) },
		handle: func(msg *nats.Msg, place link.Place) {
			away := ahead > 1 && in.trouble.wait(time.Now()) > 0
			if away { // what is left goes back once consuming has ended
				leaving.Store(true)
				in.changes()
			}
			if away || !in.handle(handling, msg, place, alive) {
				in.working.remove(1, func(int) string { return msg.Reply })
				left.Put(msg.Reply)
			} else if ahead == 1 {
				resting.Store(true)
				in.tried(handling, msg.Reply)
				resting.Store(false)
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
		in.letGo(c, pull, left)
		watching.Wait()
	}()
	tick := time.Tick(link.PulseEvery)
	heard, silent := uint64(0), 0
	for {
		select {
		case <-tick:
			if !alive.Beat() {
				return fmt.Errorf("consume stream %s: this process stood still for more than %s: another "+
					"instance may have the pushes that it fetched", in.stream, in.cfg.AckWait)
			}
			in.working.extend(in.nc)
			if now := pull.heard.Load(); now != heard || pull.full() || resting.Load() || !in.nc.IsConnected() {
				heard, silent = now, 0
			} else if silent++; silent >= pullSilence {
				return fmt.Errorf("consume stream %s: nats sends no heartbeats for the pulls any more", in.stream)
			}
		case <-status: // the requests on the old link are lost
			if err := pull.anew(); err != nil {
				return fmt.Errorf("consume stream %s: %w", in.stream, err)
			}
		case err := <-outrun:
			return fmt.Errorf("consume stream %s: %w", in.stream, err)
		case err := <-pull.failed:
			return fmt.Errorf("consume stream %s: %w", in.stream, err)
		case <-in.changed:
			if leaving.Load() || in.trouble.lasts() == (ahead > 1) {
				return errChanged
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// letGo ends consuming. NATS has sent more pushes than were handled. letGo returns them, so that another instance gets
// them at once, and not only after AckWait. It returns them only once NATS sends no more,
// or they would be delivered here again. On a lost link nothing can be returned.
func (in *Intake) letGo(c jetstream.Consumer, pull *puller, left *link.Queue[string]) {
	pull.stop() // pushes that have arrived still go through the handler
	select {
	case <-pull.closed: // no handler runs any more
	case <-time.After(drainLimit):
		in.log.Warn().Msg("nats did not answer while the intake was closed; some pushes come again later")
	}
	replies := left.Take()
	if len(replies) == 0 || !in.nc.IsConnected() {
		return
	}
	// nats-server 2.9 would deliver the first of them to the pull that was ended here, where it is lost until AckWait.
	// A request for the consumer's state makes the server forget pulls without a subscriber.
	ctx, stop := context.WithTimeout(context.Background(), link.APITimeout)
	defer stop()
	if _, err := c.Info(ctx); err != nil {
		in.log.Debug().Err(err).Msg("the state of the intake's consumer is not known")
	}
	for _, reply := range replies {
		_ = in.nc.Publish(reply, []byte(ackNow)) // not sent: the push is redelivered later
	}
	in.metrics.retried.Add(float64(len(replies)))
}

// handle hands one push to the scheduler. It waits while too many pushes are in progress, and then requests no more
// from NATS. It returns false if ctx ended first or this process was stopped for a while. Then the push must be
// returned to NATS.
func (in *Intake) handle(ctx context.Context, msg *nats.Msg, place link.Place, alive *link.Pulse) bool {
	if ctx.Err() != nil {
		return false
	}
	c := arrival{msg: msg, place: place, size: len(msg.Data) + messageWeight}
	if in.room.Enter(ctx, c.size) != nil {
		return false
	}
	if alive.StoodStill() {
		in.room.Leave(1, int64(c.size))
		return false
	}
	in.accept(c, in.aside.takes)
	return true
}

// arrival is a push that arrived.
type arrival struct {
	msg   *nats.Msg
	place link.Place
	size  int   // of the room that it holds
	err   error // why it is refused, or not accepted now
	// uid is that of the push, if it could be read: its reject is recorded in this bucket, since others may be away.
	uid message.UID
}

// accept hands a push to the scheduler, unless aside takes it.
func (in *Intake) accept(c arrival, aside func(*scheduler.Push, arrival) bool) {
	p, err := in.push(c.msg, c.place)
	if err == nil {
		c.uid = p.UID
	}
	switch {
	case errors.Is(err, errNoClock):
		in.later(c, err)
	case err != nil:
		c.err = err
		in.refused.Put(c)
	case !aside(p, c):
		in.cfg.Accept.Accept(p, func(a scheduler.Accepted) { in.answered(c, a) })
	}
}

// errNoClock reports that the time on NATS, which timestamped the push, is not known at the moment.
var errNoClock = errors.New("the clock of nats has not been read for some seconds")

// messageWeight is the assumed memory of a push beyond its body.
const messageWeight = 512

const (
	// asideRoom is more than what putting a push aside adds to it: its place, and the name of its subject.
	asideRoom = 512
	// streamHeaders is the size of the largest headers that a stream accepts.
	streamHeaders = 64 << 10
)

// fitsAside refuses a push that could not be put aside while its bucket does not answer. The limit of a push does not
// count the headers that tarry drops, such as Nats-Msg-Id.
func (in *Intake) fitsAside(msg *nats.Msg) error {
	room := in.nc.MaxPayload() - asideRoom
	if room <= 0 || int64(len(msg.Data)) <= room-streamHeaders {
		return nil
	}
	size := int64(len(msg.Data))
	for name, values := range msg.Header {
		for _, v := range values {
			size += int64(len(name) + len(v) + len(": \r\n"))
		}
	}
	if size > room {
		return &wire.Error{Word: wire.WordTooLarge, Field: wire.FieldHeaders,
			Detail: fmt.Sprintf("and body take %d bytes with those that tarry drops, the limit is %d", size, room)}
	}
	return nil
}

// push reads a message of the stream.
func (in *Intake) push(msg *nats.Msg, place link.Place) (*scheduler.Push, error) {
	p, err := in.read(msg, place)
	if err != nil {
		return nil, err
	}
	p.Stored = place.Sequence
	merges := p.Merge != message.MergeReject
	if merges {
		p.Since = in.cfg.Stamps.Since(p.Stored, p.UID.Time(), time.Unix(0, in.created.Load()))
	}
	now, ok := in.cfg.Clock.Of(ClockSource)
	switch {
	case ok:
		p.Age, p.Aged = in.cfg.Stamps.Age(place, now)
	case !p.HasAt && in.cfg.Clock.Knew(ClockSource): // by another clock the delay might end early
		return nil, errNoClock
	}
	return p, nil
}

// read is push without the age, which depends on when the push is read.
func (in *Intake) read(msg *nats.Msg, place link.Place) (*scheduler.Push, error) {
	tagged, err := link.Decode(msg, msg.Subject, in.cfg.Prefix)
	if err != nil {
		return nil, err
	}
	if err := tagged.CheckLimit(len(msg.Data), link.SizeLimit(in.nc, in.cfg.SizeLimit)); err != nil {
		return nil, err
	}
	if err := in.fitsAside(msg); err != nil {
		return nil, err
	}
	if topic := link.WholeTopic(in.cfg.Topics, &tagged, msg.Header.Get(wire.HeaderSubject)); topic != "" {
		tagged.Topic = topic
	}
	if err := link.RefuseUID(&tagged); err != nil {
		return nil, err
	}
	p := ops.Push(&tagged, msg.Data)
	p.By = ops.ByNATS
	p.UID, err = place.UID(p.ID, p.Key)
	return p, err
}

// answered finishes a push on the scheduler's answer. It must not block.
func (in *Intake) answered(c arrival, a scheduler.Accepted) {
	c.err = a.Err
	switch {
	case a.Err == nil:
		in.metrics.count(a)
		in.trouble.worked()
		in.acks.Put(ack{reply: c.msg.Reply, done: true, size: c.size})
	case isRefusal(a.Err):
		in.refused.Put(c)
	case !in.aside.failed(c):
		in.later(c, a.Err)
	}
}

// isRefusal reports whether an answer of the scheduler means that it will never accept the push.
func isRefusal(err error) bool {
	return errors.Is(err, scheduler.ErrDuplicateID) || errors.Is(err, scheduler.ErrTooFar) ||
		errors.Is(err, scheduler.ErrDeliver) ||
		errors.Is(err, scheduler.ErrStaleUID) || errors.Is(err, scheduler.ErrMaybeDelivered) ||
		errors.Is(err, scheduler.ErrUnreadable)
}

// pauseAfter returns the delay before the redelivery of a push that could not be accepted. The failure of one bucket
// does not delay pushes of another.
func (in *Intake) pauseAfter(err error, now time.Time) time.Duration {
	if away := (*scheduler.BucketError)(nil); errors.As(err, &away) {
		return in.buckets.of(away.Bucket).failed(now)
	}
	return in.trouble.failed(now)
}

// changes tells consume that it may be to request more pushes ahead, or fewer.
func (in *Intake) changes() {
	select {
	case in.changed <- struct{}{}:
	default:
	}
}

// tried waits until the one push is answered, or for long, and through the pause before the next.
func (in *Intake) tried(ctx context.Context, reply string) {
	for begun := time.Now(); in.working.has(reply) && time.Since(begun) < maxPause; {
		if scheduler.Sleep(ctx, firstPause/5) != nil {
			return
		}
	}
	in.changes()
	_ = scheduler.Sleep(ctx, in.trouble.wait(time.Now()))
}

// later returns a push to NATS for a while: the store is unreachable or full, or this instance is stopping. Whatever
// became of it here, the redelivered push is the same message.
func (in *Intake) later(c arrival, err error) {
	now := time.Now()
	pause := in.pauseAfter(err, now)
	in.changes()
	if in.trouble.loud(now) {
		in.log.Warn().Err(err).Dur("pause", pause).Msg("pushes cannot be accepted now; they wait in the intake")
	}
	in.metrics.retried.Inc()
	in.acks.Put(ack{reply: c.msg.Reply, later: pause, size: c.size})
}

// ack is the answer to NATS for one push. A lost ack costs a redelivery, which changes nothing. Unless done is set, the
// push is redelivered, so the zero value loses no push.
type ack struct {
	reply string
	done  bool
	later time.Duration // if not done: the delay before the redelivery
	size  int           // of the room that is free afterwards
}

const (
	ackDone  = "+ACK"
	ackLater = `-NAK {"delay":`
	ackNow   = "-NAK"
)

// acknowledge publishes acknowledgements, one for each push, as a work-queue stream requires. They cost nats-server
// some 7 of 29 microseconds a push. Two ways to save them were measured beside NATS's schedules with 32 producers, in
// three paired runs: no acknowledgement at all, which is the bound, made 0.75 of them, a purge up to the accepted
// sequence every 20 ms 0.75, and acknowledgements 0.65. The purge needs one reader of the whole stream in place of a
// consumer that all instances share, by which another instance goes on within seconds when one dies.
func (in *Intake) acknowledge(acks []ack) {
	in.working.remove(len(acks), func(i int) string { return acks[i].reply })
	var size int64
	done := []byte(ackDone)
	for i := range acks {
		data := done
		if !acks[i].done {
			data = acks[i].again()
		}
		_ = in.nc.Publish(acks[i].reply, data) // not sent: the push is redelivered
		size += int64(acks[i].size)
	}
	in.room.Leave(len(acks), size)
}

// again returns the answer that requests a redelivery.
func (a *ack) again() []byte {
	if a.later <= 0 {
		return []byte(ackNow)
	}
	return append(strconv.AppendInt([]byte(ackLater), a.later.Nanoseconds(), 10), '}')
}

// working holds the pushes that this instance has fetched and not answered. NATS gives a push to another instance once
// it has heard nothing of it for AckWait. That is short, so that an instance that dies or stands still keeps nothing
// from the others for long. So while a push is worked on here, for example because the database is slow, or waits its
// turn, working says so once a second.
type working struct {
	mu    sync.Mutex
	since map[string]time.Time // by reply subject
}

// extendAfter is how long a push is worked on before NATS is told. Most are answered before.
const extendAfter = time.Second / 2

const ackProgress = "+WPI"

func (w *working) add(reply string) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since == nil {
		w.since = map[string]time.Time{}
	}
	w.since[reply] = now
}

// has reports whether a push is not answered yet.
func (w *working) has(reply string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, has := w.since[reply]
	return has
}

// remove forgets n pushes that are answered.
func (w *working) remove(n int, reply func(i int) string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range n {
		delete(w.since, reply(i))
	}
}

// extend tells NATS what is still worked on.
func (w *working) extend(nc *nats.Conn) {
	w.mu.Lock()
	var late []string
	for reply, since := range w.since {
		if time.Since(since) > extendAfter {
			late = append(late, reply)
		}
	}
	w.mu.Unlock()
	for _, reply := range late {
		_ = nc.Publish(reply, []byte(ackProgress)) // not sent: another instance may get it too
	}
}
