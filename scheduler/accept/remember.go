package accept

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// names judges pushes whose name or uid the timeline may have forgotten by what the journal remembers, before they are
// queued. These are pushes under a name in mode reject, consumers' retries among them; pushes that repeat a uid older
// than the memory of ends; and pushes that the intake stored longer ago than that.
//
// The journal's answer counts only if the timeline knows nothing. A push that the journal does not remember is simply
// queued: the script that adds it judges it by what the timeline knows then. A push that the journal remembers is
// answered from the journal only if the timeline, asked afterwards, knows neither its name nor its uid.
//
// A look-up takes a batch, and holds no right to flush meanwhile. Pushes without a name do not pass through names.
// Merging pushes do, although they need no look-up: pushes under one name must be stored in order, so all of them pass
// through one queue.
type names struct {
	s      *Producers
	queues [lookers]lookQueue

	mu     sync.Mutex
	closed bool
	away   time.Time // the journal did not answer; it is not asked before this time
}

// lookQueue holds the pushes for a sequence of look-ups.
type lookQueue struct {
	ready   chan struct{} // capacity 1: something was put
	waiting []*asked      // under names.mu
}

// asked is a push that waits for the journal, or for earlier pushes that do.
type asked struct {
	*queued
	bucket message.Bucket
	// stale: the uid is so old that the timeline may have forgotten the message that it belongs to.
	stale bool
	// filling is the certification under which the timeline may miss the message that the push belongs to, or 0.
	filling uint64
}

// merges reports whether the push may merge into another message.
func (a *asked) merges() bool { return a.message.Merge != message.MergeReject }

// asks reports whether the push needs an answer from the journal.
func (a *asked) asks() bool { return a.stale || a.filling > 0 || !a.merges() }

const (
	// lookers is how many look-ups run at once. lookCount is how many pushes one look-up takes.
	lookers   = 4
	lookCount = 250
	// namesWait is how long the journal may take if the push can go on without its answer. namesAway is how long the
	// journal is left alone after that, so that pushes do not wait for it one after the other.
	namesWait = 500 * time.Millisecond
	namesAway = 5 * time.Second
)

func newNames(s *Producers) *names {
	n := &names{s: s}
	for i := range n.queues {
		n.queues[i].ready = make(chan struct{}, 1)
	}
	return n
}

// stale reports whether a push repeats a uid that the timeline may have forgotten. NATS stamps the uids of the intake
// by a clock that may be ahead, so that for these their age by that clock counts too.
func (n *names) stale(p *scheduler.Push, now time.Time) bool {
	return p.UID != "" && max(now.Sub(p.UID.Time()), p.Age) > n.s.cfg.EndedKeep
}

// takes reports whether a push passes through names.
func (n *names) takes(m *message.Message, stale bool) bool {
	return n.s.cfg.NamesKeep > 0 && (stale || m.ID != "")
}

func (n *names) put(a *asked) error {
	if err := n.s.queues.admit(a.queued); err != nil {
		return err
	}
	return n.queue(a)
}

// again looks once more for a push that was judged by what the timeline may have forgotten since.
func (n *names) again(a *asked) {
	a.known, a.asked = time.Time{}, nil // the second look says anew how long it holds
	if err := n.queue(a); err != nil {
		a.fail(err)
	}
}

// filling asks the journal about a push that meets nothing while its bucket is filled under a certification.
func (n *names) filling(q *queued, bucket message.Bucket, number uint64) {
	if n.s.cfg.NamesKeep == 0 {
		n.s.queues.fail(q, errFilling)
		return
	}
	n.again(&asked{queued: q, bucket: bucket, filling: number})
}

// errFilling means that a push may belong to a message that the bucket does not have yet.
var errFilling = fmt.Errorf("%w: the store is being filled from the journal, and may lack the message that this push "+
	"belongs to", scheduler.ErrUnavailable)

// queue queues an admitted push. A push that it refuses no longer counts.
func (n *names) queue(a *asked) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		n.s.queues.release(a.queued)
		return scheduler.ErrStopping
	}
	text := cmp.Or(a.message.ID, string(a.message.UID))
	q := &n.queues[message.Hash(text)%lookers]
	q.waiting = append(q.waiting, a)
	scheduler.Signal(q.ready)
	return nil
}

// run does the look-ups of one queue until ctx ends. The pushes left then were never sent.
func (n *names) run(ctx context.Context, q *lookQueue) {
	for ctx.Err() == nil {
		select {
		case <-q.ready:
		case <-ctx.Done():
		}
		for ctx.Err() == nil {
			batch := n.take(q, lookCount)
			if len(batch) == 0 {
				break
			}
			n.look(batch)
		}
	}
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	for _, a := range n.take(q, maxQueued) {
		n.s.queues.fail(a.queued, fmt.Errorf("%w: %w", scheduler.ErrUnavailable, scheduler.ErrStopping))
	}
}

func (n *names) take(q *lookQueue, most int) []*asked {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := min(len(q.waiting), most)
	batch := q.waiting[:count:count]
	if q.waiting = q.waiting[count:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
	return batch
}

// look asks the journal about a batch and queues what it does not remember.
func (n *names) look(batch []*asked) {
	var about []*asked
	for _, a := range batch {
		if a.asks() {
			about = append(about, a)
		}
	}
	remembered, err := n.ask(about)
	next := 0 // of those asked about
	for _, a := range batch {
		switch {
		case !a.asks():
			n.enqueue(a)
		case err != nil && a.filling > 0 && (n.s.cfg.NamesSure || a.merges()):
			n.s.queues.fail(a.queued, errFilling)
		case err != nil && (n.s.cfg.NamesSure || a.stale && a.message.Stored == 0):
			n.s.queues.fail(a.queued,
				fmt.Errorf("%w: the journal does not know whether the name was used", scheduler.ErrUnavailable))
		case err != nil:
			n.s.metrics.unjudged.Inc()
			a.unjudged, a.message.Judged = true, a.filling
			n.enqueue(a)
		default:
			n.decide(a, remembered[next])
			next++
		}
	}
}

func (n *names) ask(batch []*asked) ([][]message.Info, error) {
	if len(batch) == 0 {
		return nil, nil
	}
	if err := n.s.cfg.Journal.Ready(); err != nil && n.s.cfg.NamesSure {
		return nil, err // refused at once, like a push that needs no look-up
	}
	n.mu.Lock()
	away := !n.s.cfg.NamesSure && time.Now().Before(n.away)
	n.mu.Unlock()
	if away {
		return nil, scheduler.ErrUnavailable
	}
	messages := make([]*message.Message, len(batch))
	for i, a := range batch {
		messages[i] = a.message
		if !a.stale && a.filling == 0 { // the timeline knows its uid, if anybody does
			m := *a.message
			m.UID = ""
			messages[i] = &m
		}
	}
	wait := n.s.cfg.CallTimeout
	if !n.s.cfg.NamesSure {
		wait = min(wait, namesWait)
	}
	ctx, stop := context.WithTimeout(context.Background(), wait)
	defer stop()
	remembered, err := n.s.cfg.Journal.Remembered(ctx, messages)
	if err != nil {
		n.s.log.Warn().Err(err).Int("messages", len(batch)).Msg("names cannot be judged by the journal")
		n.mu.Lock()
		n.away = time.Now().Add(namesAway)
		n.mu.Unlock()
	}
	return remembered, err
}

// decide answers a push that the journal remembers and the timeline does not, or not for long, and queues every other
// push.
func (n *names) decide(a *asked, remembered []message.Info) {
	since := n.s.cfg.Clock.Milli().Add(-n.s.cfg.NamesKeep)
	remembered = slices.DeleteFunc(remembered, func(i message.Info) bool {
		return i.UID != a.message.UID && !i.State.Kept() && i.EndedAt < since
	})
	result, repeated := judged(a.message, remembered)
	if !repeated && a.stale && a.message.Stored == 0 && a.merges() {
		// The push may have been merged into another message; the journal has no record of that under this uid.
		n.s.queues.fail(a.queued, fmt.Errorf("%w: the journal does not know it, and what merged is remembered for %s",
			scheduler.ErrStaleUID, n.s.cfg.EndedKeep))
		return
	}
	if !repeated {
		a.message.Judged = a.filling
	}
	if !repeated && a.filling > 0 && a.merges() {
		living := slices.IndexFunc(remembered, func(i message.Info) bool { return !i.State.Ended() })
		// A push that comes again may have merged before: neither the journal nor a store that is filled knows that.
		if !a.fresh || living >= 0 && (a.restored || n.restore(remembered[living].UID) != nil) {
			n.s.queues.fail(a.queued, errFilling)
			return
		}
		if a.restored = living >= 0; a.restored {
			a.message.Judged = 0
		}
	}
	if !repeated {
		n.enqueue(a)
		return
	}
	if err := n.s.queues.watch.Refuse(a.bucket); err != nil {
		n.s.queues.fail(a.queued, err)
		return
	}
	known, until, err := n.known(a.message, result.First.UID == a.message.UID)
	soon := n.s.cfg.Clock.Latest().Add(2 * n.s.queues.longest())
	switch {
	case err != nil:
		n.s.queues.watch.Suspect() // so that the next push of this bucket need not wait as long
		n.s.queues.fail(a.queued, err)
	case known && (until.IsZero() || !result.First.State.Ended()): // else the journal lags, and the timeline judges
		n.enqueue(a)
	case known && until.After(soon):
		if a.known.IsZero() {
			a.asked = a
			a.known = until
		}
		n.enqueue(a)
	case result.First.UID != a.message.UID && !result.First.State.Ended() && a.message.Attempt > result.First.Attempt:
		// A consumer has had a message that the store does not have yet. The journal may lack its delivery.
		n.s.queues.fail(a.queued, errFilling)
	default: // the timeline has forgotten it, or would by the time that the push is stored
		n.s.queues.release(a.queued)
		a.done(Answer(a.message, result))
	}
}

// restore brings the message that a push merges into, so that the push need not wait until all are restored.
func (n *names) restore(uid message.UID) error {
	ctx, stop := context.WithTimeout(context.Background(), n.s.cfg.CallTimeout)
	defer stop()
	err := n.s.cfg.Journal.Restore(ctx, uid)
	if err != nil {
		n.s.log.Warn().Err(err).Str("uid", string(uid)).Msg("a message that a push merges into is not restored yet")
	}
	return err
}

// known reports whether the timeline knows a push's uid or its name, and until when if all that it knows has ended. Of
// a push that the journal knows by its uid, the name does not matter: it may have another life by now.
func (n *names) known(m *message.Message, byUID bool) (known bool, until time.Time, err error) {
	ctx, stop := context.WithTimeout(context.Background(), n.s.cfg.CallTimeout)
	defer stop()
	refs := []scheduler.Ref{{UID: m.UID}}
	if m.ID != "" && !byUID {
		refs = append(refs, scheduler.Ref{ID: m.ID, Topic: m.Topic, Key: m.Key, Keyed: true})
	}
	for _, ref := range refs {
		found, err := n.s.cfg.Timeline.Find(ctx, ref)
		if errors.Is(err, scheduler.ErrUnreadable) {
			return true, time.Time{}, nil // the add then refuses this push alone
		}
		if err != nil {
			return false, time.Time{}, fmt.Errorf("%w: look whether the name is in use: %v", scheduler.ErrUnavailable, err)
		}
		for i := range found {
			end := found[i].EndedAt.Time().Add(n.s.cfg.EndedKeep)
			if !found[i].State.Ended() || found[i].State.Kept() {
				return true, time.Time{}, nil
			}
			if until.IsZero() || end.Before(until) {
				until = end
			}
		}
		if len(found) > 0 {
			return true, until, nil
		}
	}
	return false, time.Time{}, nil
}

func (n *names) enqueue(a *asked) {
	if err := n.s.queues.enqueue(a.bucket, a.queued); err != nil {
		a.fail(err)
	}
}

// judged returns the outcome of a push according to the messages that the journal remembers, the latest first, as the
// timeline would judge it (schedulertest, Add). repeated is false if the push is a message of its own.
func judged(m *message.Message, remembered []message.Info) (r scheduler.AddResult, repeated bool) {
	for _, i := range remembered {
		if i.UID == m.UID {
			if i.Topic != m.Topic && !i.EndOnly() {
				return scheduler.AddResult{Code: scheduler.AddConflict, First: i}, true
			}
			return scheduler.AddResult{Code: scheduler.AddDuplicate, First: i}, true
		}
	}
	if len(remembered) == 0 || m.Merge != message.MergeReject {
		return scheduler.AddResult{}, false
	}
	last := remembered[0]
	r = scheduler.AddResult{Code: scheduler.AddConflict, First: last}
	over := last.State.Ended() && last.State != message.StateDelivered
	switch {
	case over && (m.Attempt <= 1 || m.Attempt > last.Attempt):
		return r, true
	case m.Attempt > last.Attempt && (last.State != message.StateWaiting || last.Mark.Uncertain):
		return scheduler.AddResult{}, false // a consumer received it and sent it back
	case m.Attempt < last.Attempt:
		if slices.ContainsFunc(remembered,
			func(i message.Info) bool { return i.Attempt == m.Attempt && i.Digest == m.Digest }) {
			r.Code = scheduler.AddDuplicate
		}
	case m.Digest == last.Digest:
		r.Code = scheduler.AddDuplicate
	}
	return r, true
}
