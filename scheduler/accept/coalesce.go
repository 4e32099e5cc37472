package accept

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// queued is a push on its way into the timeline.
type queued struct {
	message *message.Message
	done    func(scheduler.Accepted)
	fresh   bool // its uid was assigned here
	cost    int64
	at      time.Time
	// unjudged: it is unknown whether the name was used before.
	unjudged bool
	// known is the time until which the timeline certainly remembers what the push was judged by: the first push with
	// this uid, or what names found under its name. It is zero if there is no such time.
	known  time.Time
	asked  *asked // set if names found it: past known, names looks again
	repeat bool   // an earlier try may have stored it
	// restored: what it merges into was brought to a bucket that is being filled.
	restored bool
}

// coalescer gathers pushes so that one call of the timeline stores many. A free flusher takes whatever has gathered at
// once. While its flush is under way more pushes gather, so batches grow with the load and a single push waits for no
// other. Only pushes from the intake wait a moment for more, because the stream has already answered their producers.
// Pushes without a key or id all go to one bucket until its flusher takes them, then to the next, so that a flush is
// one script.
type coalescer struct {
	s        *Producers
	timeline scheduler.Acceptor
	watch    *scheduler.Watch
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

func newCoalescer(s *Producers) *coalescer {
	c := &coalescer{s: s, timeline: s.cfg.Timeline, watch: s.cfg.Watch, tokens: make(chan struct{}, flushers),
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
		if bucket := (first + i) % n; c.watch.Answers(bucket) {
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
	q.cost, q.at = int64(messageCost+q.message.Size()), time.Now()
	if n, bytes := c.size.Add(1), c.bytes.Add(q.cost); n > maxQueued || bytes > maxBytes {
		c.release(q)
		return fmt.Errorf("%w: the limit is %d pushes or %d MiB", scheduler.ErrBusy, maxQueued, maxBytes>>20)
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
		return scheduler.ErrStopping
	}
	p.waiting = append(p.waiting, q)
	urgent := q.message.Stored == 0 || len(p.waiting) >= gatherCount ||
		q.message.Due < message.Milli(q.at.Add(dueSoon).UnixMilli())
	p.urgent = p.urgent || urgent
	p.mu.Unlock()
	scheduler.Signal(p.ready)
	if urgent {
		scheduler.Signal(p.hurry)
	}
	return nil
}

// gather lets more pushes arrive before a flush, unless a push must not wait.
func (p *pushQueue) gather(ctx context.Context) {
	p.mu.Lock()
	urgent := p.urgent
	p.mu.Unlock()
	if urgent {
		return
	}
	select {
	case <-p.hurry:
	case <-time.After(gatherPause):
	case <-ctx.Done():
	}
}

func (c *coalescer) release(q *queued) {
	c.size.Add(-1)
	c.bytes.Add(-q.cost)
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
		c.fail(q, fmt.Errorf("%w: %w", scheduler.ErrUnavailable, scheduler.ErrStopping))
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
	aged := func(q *queued) bool { return !q.known.IsZero() && last.After(q.known) || c.slow(q) }
	if !slices.ContainsFunc(batch, aged) {
		return batch
	}
	kept := make([]*queued, 0, len(batch))
	for _, q := range batch {
		switch {
		case !aged(q):
			kept = append(kept, q)
		case c.slow(q):
			c.fail(q, errLate)
		case q.asked != nil:
			c.s.names.again(q.asked)
		case c.s.cfg.NamesKeep > 0: // the journal is asked when the push comes again
			c.fail(q, errLate)
		default:
			c.fail(q,
				fmt.Errorf("%w: it is remembered for %s, and waited in this instance", scheduler.ErrStaleUID, c.s.cfg.EndedKeep))
		}
	}
	return kept
}

// longest is how long the tries to store a batch may take.
func (c *coalescer) longest() time.Duration { return addAttempts * c.s.cfg.CallTimeout }

// errLate means that the push waited here so long that its sender may have sent it to another instance, and that the
// store may have forgotten that push's end.
var errLate = fmt.Errorf("%w: it waited too long in this instance", scheduler.ErrUnavailable)

// late reports whether a push arrived so long ago that it must no longer be stored: an instance that was suspended must
// not bring back a message that another instance meanwhile accepted, canceled and forgot. late reads the wall clock
// too, because the monotonic clock stops while a machine is suspended.
func (c *coalescer) late(at time.Time) bool {
	return longer(at, c.s.cfg.EndedKeep/2)
}

func longer(since time.Time, limit time.Duration) bool {
	return time.Since(since) > limit || time.Now().Round(0).Sub(since.Round(0)) > limit
}

// callWait is how long at most a push with a call waits here until it is stored. Another instance may store its repeat
// meanwhile, within a minute, and must still remember that then: a third of CallKeep is left for what the network and
// this instance hold up before it is queued.
const callWait = scheduler.CallKeep / 3

// slow reports whether a push with a call may no longer be stored, or might not be by the last try.
func (c *coalescer) slow(q *queued) bool {
	return q.message.Call != "" && longer(q.at, callWait-c.longest())
}

// store adds the batch and answers every push. It tries again with those whose outcome is unknown: a push that is sent
// twice is stored once. If the outcome stays unknown, the answer is ErrOutcomeUnknown. Before each try the oldest push
// must not be late.
//
// store does not go through Scheduler.change: it also tries again where nothing was written or the journal did not
// answer, each try has a time-out of its own, and the wait for the journal must not hold the wire.
func (c *coalescer) store(bucket message.Bucket, batch []*queued, onWire func()) {
	oldest := slices.MinFunc(batch, func(a, b *queued) int { return a.at.Compare(b.at) }).at // names holds some up
	b := &adding{coalescer: c, bucket: bucket, left: batch, stored: map[message.UID]bool{}}
	var err error
	away := time.Time{}
tries:
	for sent := 1; sent <= addAttempts && len(b.left) > 0; sent++ {
		if c.late(oldest) {
			err = errLate
			break
		}
		ctx, cancel := context.WithTimeout(context.Background(), c.s.cfg.CallTimeout)
		started := time.Now()
		var results []scheduler.AddResult
		if err = c.s.cfg.Journal.Ready(); err == nil {
			results, err = b.add(ctx)
			if err != nil && away.IsZero() && !errors.Is(err, scheduler.ErrFull) && !errors.Is(err, scheduler.ErrBehind) {
				away = started
				c.watch.Suspect()
			}
		}
		onWire() // neither a repeat nor a wait for the journal holds up others
		if err == nil {
			err = b.answer(ctx, results)
		}
		cancel()
		c.s.metrics.flushSeconds.Observe(time.Since(started).Seconds())
		switch {
		case err == nil:
			break tries
		case (errors.Is(err, scheduler.ErrFull) || errors.Is(err, scheduler.ErrBehind)) && !b.repeat:
			away = time.Time{}
			break tries
		case !errors.Is(err, scheduler.ErrUnavailable):
			b.repeat = true
		}
		c.s.log.Warn().Err(err).Int("bucket", int(bucket)).Int("messages", len(b.left)).Int("attempt", sent).
			Msg("add failed")
	}
	if err != nil {
		b.fail(err, away)
	}
	if len(b.again) > 0 {
		c.store(bucket, b.again, onWire)
	}
}

// adding is a batch on its way to the store.
type adding struct {
	*coalescer
	bucket  message.Bucket
	left    []*queued // not answered yet
	again   []*queued // their uids were taken; they got others
	earlier []scheduler.Earlier
	repeat  bool                 // an earlier try may have stored them
	stored  map[message.UID]bool // answered as stored by an earlier try
}

// add sends what is left to the store.
func (b *adding) add(ctx context.Context) ([]scheduler.AddResult, error) {
	messages := make([]*message.Message, len(b.left))
	for i, q := range b.left {
		messages[i] = q.message
	}
	results, earlier, err := b.timeline.Add(ctx, b.bucket, messages, b.s.cfg.Clock.Milli())
	b.earlier = append(b.earlier, earlier...)
	return results, err
}

// answer answers each push as soon as the journal holds the result, as far as the mode promises that. It returns an
// error if the journal does not hold all in time; left are then the others.
func (b *adding) answer(ctx context.Context, results []scheduler.AddResult) error {
	var (
		verdicts = b.taken(b.left, results, b.repeat)
		waiting  = make([]*queued, 0, len(b.left))
		places   = make([]int, 0, len(b.left)) // of waiting in results
		changes  = make([]scheduler.Recorded, 0, len(b.left))
	)
	for i, q := range b.left {
		change, waits := awaited(q.message, b.bucket, &results[i])
		switch {
		case verdicts[i].err != nil:
			b.coalescer.fail(q, verdicts[i].err)
		case verdicts[i].taken:
			b.s.log.Warn().Str("uid", string(q.message.UID)).Int("bucket", int(b.bucket)).
				Msg("a new uid was taken, and its push gets another; where this goes on, instances share a machine id")
			q.message.UID = ""
			if err := b.identify(b.bucket, q); err != nil {
				b.coalescer.fail(q, err)
				continue
			}
			b.again = append(b.again, q)
		case results[i].Code == scheduler.AddFilling:
			q.repeat = q.repeat || b.repeat
			b.s.names.filling(q, b.bucket, results[i].Number)
		case waits:
			waiting, places, changes = append(waiting, q), append(places, i), append(changes, change)
		default:
			b.done(q, results[i], false)
		}
	}
	b.left = waiting
	err := b.s.cfg.Journal.Await(ctx, changes, func(i int, bare bool) {
		b.done(waiting[i], results[places[i]], bare)
		waiting[i] = nil
	})
	b.left = slices.DeleteFunc(waiting, func(q *queued) bool { return q == nil })
	if len(b.left) < len(results) {
		b.s.hasten(b.bucket, b.earlier)
		b.earlier = nil
	}
	if err != nil {
		return fmt.Errorf("wait for the journal: %w: %w", scheduler.ErrOutcomeUnknown, err)
	}
	return nil
}

// awaited returns the change that the journal must hold before a push is answered, if there is one. A duplicate waits
// for the push that it repeats, unless that will never be there.
func awaited(m *message.Message, bucket message.Bucket, r *scheduler.AddResult) (change scheduler.Recorded,
	waits bool) {
	switch {
	case r.Code == scheduler.Added:
		return scheduler.Recorded{UID: m.UID, Version: 1, Bucket: bucket, Number: r.Number}, true
	case r.Code == scheduler.AddedCanceled:
		return scheduler.Recorded{UID: m.UID, Version: 2, Bucket: bucket, Number: r.Number}, true
	case r.Code == scheduler.AddDuplicate && r.First.Kind != message.KindMerged && !r.First.EndOnly():
		return scheduler.Recorded{UID: r.First.UID, Version: 1, Bucket: bucket, Number: r.Number}, true
	case r.Code == scheduler.AddMerged:
		return scheduler.Recorded{UID: r.First.UID, Version: r.First.Version, Bucket: bucket, Number: r.Number}, true
	}
	return scheduler.Recorded{}, false // of a push that was merged, only its uid is remembered here
}

// done answers a push that was added.
func (b *adding) done(q *queued, r scheduler.AddResult, bare bool) {
	b.release(q)
	a := Answer(q.message, r)
	if b.repeat && a.Duplicate && q.stores(a.UID) && !b.stored[a.UID] {
		a.Duplicate, b.stored[a.UID] = false, true
	}
	a.Unjudged = q.unjudged && a.Err == nil && !a.Duplicate && !a.Merged
	a.Bare = bare
	q.done(a)
}

// fail answers what is left after the last try. away is when the store first did not answer, or zero.
func (b *adding) fail(err error, away time.Time) {
	if b.repeat { // whatever error the last try met, an earlier try may have stored the batch
		err = fmt.Errorf("%w: %v", scheduler.ErrOutcomeUnknown, err)
	} else if !away.IsZero() {
		if alone := b.watch.Verdict(b.bucket, away); alone != nil {
			err = alone
		}
	}
	for _, q := range b.left {
		b.coalescer.fail(q, fmt.Errorf("add %d to bucket %d: %w", len(b.left), b.bucket, err))
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
	q.fail(err)
}

// fail answers a push that is not stored, as far as is known.
func (q *queued) fail(err error) {
	if q.repeat && !errors.Is(err, scheduler.ErrOutcomeUnknown) {
		err = fmt.Errorf("%w: %v", scheduler.ErrOutcomeUnknown, err)
	}
	q.done(scheduler.Accepted{UID: q.message.UID, ID: q.message.ID, Due: q.message.Due, Err: err})
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
		return fmt.Errorf("%w: %w", scheduler.ErrUnavailable, err)
	}
	m.UID, q.fresh = uid, true
	return nil
}
