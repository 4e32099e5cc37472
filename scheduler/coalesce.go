package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// queued is a push on its way into the timeline.
type queued struct {
	message *message.Message
	done    func(Accepted)
	fresh   bool // its uid was assigned here
	cost    int64
	at      time.Time
	// unjudged: it is unknown whether the name was used before.
	unjudged bool
	// known is the time until which the timeline certainly remembers what the push was judged by: the first push with
	// this uid, or what names found under its name. It is zero if there is no such time.
	known time.Time
	asked *asked // set if names found it: past known, names looks again
}

// coalescer gathers pushes so that one call of the timeline stores many. A free flusher takes whatever has gathered at
// once. While its flush is under way more pushes gather, so batches grow with the load and a single push waits for no
// other. Only pushes from the intake wait a moment for more, because the stream has already answered their producers.
// Pushes without a key or id all go to one bucket until its flusher takes them, then to the next, so that a flush is
// one script.
type coalescer struct {
	s        *Scheduler
	timeline Acceptor
	watch    *watch
	turn     atomic.Uint32
	tokens   chan struct{}
	size     atomic.Int64 // pushes queued and not answered
	bytes    atomic.Int64
	queues   []*pushQueue
}

type pushQueue struct {
	ready chan struct{} // capacity 1: a push was queued
	hurry chan struct{} // capacity 1: a push was queued that must not wait

	mu      sync.Mutex
	waiting []*queued
	urgent  bool // some pushes must not wait for more
	closed  bool
}

const (
	flushCount = 500     // more in one script gains nothing (research: batches over 100 add little)
	flushBytes = 4 << 20 // limits one script's time in the store
	// flushers is how many flushes are on the wire at once: while one is under way the next gathers. More flushers make
	// smaller batches. A flush that takes longer than flushHold no longer counts, because its bucket must not hold up
	// the others.
	flushers  = 2
	flushHold = 50 * time.Millisecond
	// gatherPause is how long pushes from the intake wait for more, unless enough have gathered or one is due soon. It
	// halves the processor time per push at a few thousand pushes a second.
	gatherPause = 2 * time.Millisecond
	gatherCount = 100
	dueSoon     = 10 * time.Millisecond
	maxQueued   = 100_000
	maxBytes    = 256 << 20
	// messageCost is the weight of a queued push in addition to its body.
	messageCost = 256
	addAttempts = 3
)

func newCoalescer(s *Scheduler) *coalescer {
	c := &coalescer{s: s, timeline: s.cfg.Timeline, watch: newWatch(s), tokens: make(chan struct{}, flushers),
		queues: make([]*pushQueue, s.cfg.Timeline.Buckets())}
	for i := range c.queues {
		c.queues[i] = &pushQueue{ready: make(chan struct{}, 1), hurry: make(chan struct{}, 1)}
	}
	return c
}

// current returns the bucket in which pushes without a name or key gather: a bucket that answers, if any does.
func (c *coalescer) current() message.Bucket {
	n := c.timeline.Buckets()
	first := message.Bucket(c.turn.Load()) % n
	for i := range n {
		if bucket := (first + i) % n; c.watch.answers(bucket) {
			if i > 0 {
				c.turn.CompareAndSwap(uint32(first), uint32(bucket))
			}
			return bucket
		}
	}
	return first
}

// wire acquires the right to have a flush on the wire. Each batch takes a token, so that a bucket under load leaves the
// others their turn.
func (c *coalescer) wire() (release func()) {
	c.tokens <- struct{}{}
	give := sync.OnceFunc(func() { <-c.tokens })
	late := time.AfterFunc(flushHold, give)
	return func() {
		late.Stop()
		give()
	}
}

func (c *coalescer) put(bucket message.Bucket, q *queued) error {
	if err := c.admit(q); err != nil {
		return err
	}
	return c.enqueue(bucket, q)
}

// admit counts a push against the limits on queued pushes.
func (c *coalescer) admit(q *queued) error {
	q.cost, q.at = int64(weigh(q.message)), time.Now()
	if n, bytes := c.size.Add(1), c.bytes.Add(q.cost); n > maxQueued || bytes > maxBytes {
		c.release(q)
		return fmt.Errorf("%w: the limit is %d pushes or %d MiB", ErrBusy, maxQueued, maxBytes>>20)
	}
	return nil
}

// enqueue queues an admitted push. A push that it refuses no longer counts.
func (c *coalescer) enqueue(bucket message.Bucket, q *queued) error {
	p := c.queues[bucket]
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		c.release(q)
		return ErrStopping
	}
	p.waiting = append(p.waiting, q)
	urgent := q.message.Stored == 0 || len(p.waiting) >= gatherCount ||
		q.message.Due < message.Milli(q.at.Add(dueSoon).UnixMilli())
	p.urgent = p.urgent || urgent
	p.mu.Unlock()
	signal(p.ready)
	if urgent {
		signal(p.hurry)
	}
	return nil
}

// signal puts a token into a channel of capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// gather lets more pushes arrive before a flush, unless a push must not wait.
func (p *pushQueue) gather(ctx context.Context) {
	p.mu.Lock()
	urgent := p.urgent
	p.mu.Unlock()
	if urgent {
		return
	}
	timer := time.NewTimer(gatherPause)
	defer timer.Stop()
	select {
	case <-p.hurry:
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (c *coalescer) release(q *queued) {
	c.size.Add(-1)
	c.bytes.Add(-q.cost)
}

// weigh returns what a push counts against the limits: body, headers and fixed cost.
func weigh(m *message.Message) int {
	n := messageCost + len(m.Body)
	for i := range m.Headers {
		n += len(m.Headers[i].Name) + len(m.Headers[i].Value)
	}
	return n
}

// flush serves one bucket's queue until ctx ends, then empties it.
func (c *coalescer) flush(ctx context.Context, bucket message.Bucket) {
	p := c.queues[bucket]
	for {
		select {
		case <-p.ready:
		case <-ctx.Done():
		}
		p.gather(ctx)
		if ctx.Err() != nil {
			c.empty(bucket)
			return
		}
		for more := true; more && ctx.Err() == nil; {
			release := c.wire() // before a batch is taken: while it waits for the token, more pushes gather
			more = c.flushOnce(bucket, release)
			release()
		}
	}
}

// empty closes a queue and stores the remaining pushes for as long as a stop may take. It answers the rest, which were
// never sent, with ErrStopping.
func (c *coalescer) empty(bucket message.Bucket) {
	p := c.queues[bucket]
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	for until := time.Now().Add(c.s.cfg.StopTimeout); time.Now().Before(until); {
		if !c.flushOnce(bucket, func() {}) {
			return
		}
	}
	p.mu.Lock()
	left := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	for _, q := range left {
		c.fail(q, fmt.Errorf("%w: %w", ErrUnavailable, ErrStopping))
	}
}

// flushOnce takes one batch and stores it. It calls onWire once the batch has been on the wire. It reports whether more
// pushes are waiting.
func (c *coalescer) flushOnce(bucket message.Bucket, onWire func()) bool {
	p := c.queues[bucket]
	p.mu.Lock()
	n, bytes := 0, 0
	for n < len(p.waiting) && n < flushCount && (n == 0 || bytes+int(p.waiting[n].cost) <= flushBytes) {
		bytes += int(p.waiting[n].cost)
		n++
	}
	batch := p.waiting[:n:n]
	p.waiting = p.waiting[n:]
	more := len(p.waiting) > 0
	if !more {
		p.waiting, p.urgent = nil, false
	}
	p.mu.Unlock()
	if n == 0 {
		return false
	}
	c.turn.CompareAndSwap(uint32(bucket), uint32((bucket+1)%c.timeline.Buckets()))
	if batch = c.young(batch); len(batch) > 0 {
		c.store(bucket, batch, onWire)
	}
	return more
}

// young returns the pushes of a batch that may still be stored. The others repeat an earlier push, and waited here
// until the timeline may have forgotten that, or might forget it before the last try to store them. young answers
// them, or lets names look again.
func (c *coalescer) young(batch []*queued) []*queued {
	last := c.s.cfg.Clock.Latest().Add(c.longest())
	aged := func(q *queued) bool { return !q.known.IsZero() && last.After(q.known) }
	if !slices.ContainsFunc(batch, aged) {
		return batch
	}
	kept := make([]*queued, 0, len(batch))
	for _, q := range batch {
		switch {
		case !aged(q):
			kept = append(kept, q)
		case q.asked != nil:
			c.s.names.again(q.asked)
		case c.s.cfg.NamesKeep > 0: // the journal is asked when the push comes again
			c.fail(q, errLate)
		default:
			c.fail(q,
				fmt.Errorf("%w: it is remembered for %s, and waited in this instance", ErrStaleUID, c.s.cfg.EndedKeep))
		}
	}
	return kept
}

// longest is how long the tries to store a batch may take.
func (c *coalescer) longest() time.Duration { return addAttempts * c.s.cfg.CallTimeout }

// errLate means that the push waited here so long that its sender may have sent it to another instance, and that the
// store may have forgotten that push's end.
var errLate = fmt.Errorf("%w: it waited too long in this instance", ErrUnavailable)

// late reports whether a push arrived so long ago that it must no longer be stored: an instance that was suspended must
// not bring back a message that another instance meanwhile accepted, canceled and forgot. late reads the wall clock
// too, because the monotonic clock stops while a machine is suspended.
func (c *coalescer) late(at time.Time) bool {
	limit := c.s.cfg.EndedKeep / 2
	return time.Since(at) > limit || time.Now().Round(0).Sub(at.Round(0)) > limit
}

// store adds the batch and answers every push.
func (c *coalescer) store(bucket message.Bucket, batch []*queued, onWire func()) {
	messages := make([]*message.Message, len(batch))
	for i, q := range batch {
		messages[i] = q.message
	}
	results, head, repeat, err := c.add(bucket, messages, batch[0].at, onWire)
	if err == nil && head > 0 {
		c.s.hasten(bucket, head)
	}
	var again []*queued
	tried := map[message.UID]bool{} // stored by an earlier try
	var verdicts []foreign
	if err == nil {
		verdicts = c.taken(batch, results, repeat)
	}
	for i, q := range batch {
		if err != nil {
			c.fail(q, err)
			continue
		}
		switch {
		case verdicts[i].err != nil:
			c.fail(q, verdicts[i].err)
		case verdicts[i].taken:
			c.s.log.Warn().Str("uid", string(q.message.UID)).Int("bucket", int(bucket)).
				Msg("a new uid was taken, and its push gets another; where this goes on, instances share a machine id")
			q.message.UID = ""
			if err := c.identify(bucket, q); err != nil {
				c.fail(q, err)
				continue
			}
			again = append(again, q)
		default:
			c.release(q)
			a := answer(q.message, results[i])
			if repeat && a.Duplicate && q.stores(a.UID) && !tried[a.UID] {
				a.Duplicate, tried[a.UID] = false, true
			}
			a.Unjudged = q.unjudged && a.Err == nil && !a.Duplicate && !a.Merged
			q.done(a)
		}
	}
	if len(again) > 0 {
		c.store(bucket, again, onWire)
	}
}

// stores reports whether a message that was found under uid after a repeated try is this push, stored by an earlier
// try. It is if the uid was assigned here, because no other push has that uid. It is not if a client sent the uid,
// because the client then pushed the message before. A push of the intake counts as stored by an earlier try: it may
// also have been stored by an earlier delivery, but that is rare and cannot be known here.
func (q *queued) stores(uid message.UID) bool {
	return uid == q.message.UID && (q.fresh || q.message.Stored > 0)
}

// fail answers a push that was not stored.
func (c *coalescer) fail(q *queued, err error) {
	c.release(q)
	q.done(Accepted{UID: q.message.UID, ID: q.message.ID, Due: q.message.Due, Err: err})
}

// identify assigns a uid to a message without one. If neither a name nor a key places the message, identify chooses a
// hash that lies in this bucket.
func (c *coalescer) identify(bucket message.Bucket, q *queued) error {
	m := q.message
	if m.UID != "" {
		return nil
	}
	hash := uint16(bucket)
	if name := message.HashedName(m.ID, m.Key); name != "" {
		hash = message.Hash(name)
	}
	uid, err := c.s.cfg.IDs.Next(hash)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	m.UID, q.fresh = uid, true
	return nil
}

// add stores the batch, and tries again after an unknown outcome: the same batch sent twice is stored once. If the
// outcome stays unknown, add returns ErrOutcomeUnknown. repeat reports whether an earlier try may have stored the
// batch. Before each try the oldest push must not be late.
//
// add does not go through Scheduler.change: it also tries again where nothing was written or the journal did not
// answer, each try has a time-out of its own, and the wait for the journal must not hold the wire.
func (c *coalescer) add(bucket message.Bucket, batch []*message.Message, oldest time.Time,
	onWire func()) (results []AddResult, head message.Milli, repeat bool, err error) {
	unknown, away := false, time.Time{}
	for sent := 1; sent <= addAttempts; sent++ {
		if c.late(oldest) {
			err = errLate
			break
		}
		ctx, cancel := context.WithTimeout(context.Background(), c.s.cfg.CallTimeout)
		started := time.Now()
		if err = c.s.cfg.Journal.Ready(); err == nil {
			var earlier message.Milli
			results, earlier, err = c.timeline.Add(ctx, bucket, batch, c.s.cfg.Clock.Milli())
			head = max(head, earlier) // a repeat does not make the head earlier than it is
			if err != nil && away.IsZero() && !errors.Is(err, ErrFull) && !errors.Is(err, ErrBehind) {
				away = started
				c.watch.suspect()
			}
		}
		onWire() // neither a repeat nor a wait for the journal holds up others
		if err == nil {
			err = c.await(ctx, bucket, batch, results)
		}
		cancel()
		c.s.metrics.flushSeconds.Observe(time.Since(started).Seconds())
		switch {
		case err == nil:
			return results, head, unknown, nil
		case (errors.Is(err, ErrFull) || errors.Is(err, ErrBehind)) && !unknown:
			return nil, 0, unknown, fmt.Errorf("add %d to bucket %d: %w", len(batch), bucket, err)
		case !errors.Is(err, ErrUnavailable):
			unknown = true
		}
		c.s.log.Warn().Err(err).Int("bucket", int(bucket)).Int("messages", len(batch)).Int("attempt", sent).
			Msg("add failed")
	}
	if unknown { // whatever error the last try met, an earlier try may have stored the batch
		return nil, 0, unknown, fmt.Errorf("add %d to bucket %d: %w: %v", len(batch), bucket, ErrOutcomeUnknown, err)
	}
	if !away.IsZero() {
		if alone := c.watch.verdict(bucket, away); alone != nil {
			return nil, 0, unknown, alone
		}
	}
	return nil, 0, unknown, fmt.Errorf("add %d to bucket %d: %w", len(batch), bucket, err)
}

// await waits until the journal holds the result of the batch, as far as the mode promises that. A duplicate waits for
// the push that it repeats.
func (c *coalescer) await(ctx context.Context, bucket message.Bucket, batch []*message.Message,
	results []AddResult) error {
	changes := make([]Recorded, 0, len(batch))
	for i, m := range batch {
		switch r := &results[i]; r.Code {
		case Added:
			changes = append(changes, Recorded{m.UID, 1, bucket, r.Number})
		case AddedCanceled:
			changes = append(changes, Recorded{m.UID, 2, bucket, r.Number})
		case AddDuplicate:
			if r.First.Kind == message.KindMerged {
				continue // only this push's uid is remembered here; the change is another message's
			}
			changes = append(changes, Recorded{r.First.UID, 1, bucket, r.Number})
		case AddMerged:
			changes = append(changes, Recorded{r.First.UID, r.First.Version, bucket, r.Number})
		}
	}
	return c.s.await(ctx, changes)
}
