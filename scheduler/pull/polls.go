package pull

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

// polls are the polls that wait on this instance, by topic.
//
// The polls of a topic stand in a line, in order of arrival. The first of them looks for all: it asks the timeline once
// for what they want together, hands it out in their order, and then waits until the next message is due or somebody
// says that one came earlier. So a line costs the timeline the same however many polls stand in it, and the messages of
// a burst are shared in few calls. No goroutine belongs to a line: a poll that stops being the first wakes the next.
type polls struct {
	s  *Consumers
	mu sync.Mutex
	// lines has the topics that are polled, and those that were until a moment ago.
	lines  map[string]*line
	undone map[undoing]message.Milli
}

// line holds the polls of one topic.
type line struct {
	topic string
	polls []*waiter
	// next is a time no later than when the next message is due, 0 if none waits. It holds if the line has looked, since
	// then what comes earlier is heard.
	next   message.Milli
	looked bool
	look   bool          // the first poll is to look now
	heard  message.Milli // the earliest time heard during a look, or 0
	rest   time.Time     // no look before
	short  bool          // polls without room were left out of the last look
	gained bool          // the last look got messages
	wake   chan struct{} // capacity 1: next or look changed
	left   time.Time     // since when nobody polls
}

// waiter is a poll that stands in a line.
type waiter struct {
	scheduler.Poll
	ctx     context.Context // of its client
	since   message.Milli
	line    *line
	turn    chan struct{}                  // capacity 1: it became the first
	served  chan []scheduler.PulledMessage // capacity 1
	serving bool                           // a look is under way for it
	leaving bool
	room    int   // that it reserved for a look, in bytes
	ended   bool  // a later sending of its attempt came
	lost    error // not all that its attempt took is known
	err     error // of the last look
}

const (
	// passWanted bounds how many messages one look asks for.
	passWanted = 1000
	// passRest is the pause after a look that got less than it had been promised: others were quicker.
	passRest = 10 * time.Millisecond
	// passRetry is the pause after a look that failed, and for polls without room.
	passRetry = 250 * time.Millisecond
	// pollRoom is how many bytes a poll reserves for each message that it asks for: few are larger.
	pollRoom = 1 << 20
	// lineKeep is how long a line outlives its last poll, and hears what comes earlier. A poll that comes meanwhile need
	// not look.
	lineKeep = time.Second
	// pollsLook is how often all lines are looked at, since what was said may be lost.
	pollsLook = time.Second
	// looksAtOnce is how many topics one call looks at.
	looksAtOnce = 1000
)

// undoing is a call of Lease that is to be undone, until its leases are over.
type undoing struct {
	bucket message.Bucket
	nonce  scheduler.Nonce
}

// errMaybeReady ends a poll for no messages.
var errMaybeReady = errors.New("a message may be ready")

// errEnded ends a poll of whose attempt a later sending came.
var errEnded = errors.New("a later sending of this poll came")

// wait waits for messages until the poll's time is over, its client is gone or the instance stops. A poll for no
// messages ends where another would look, and at once if that is beyond its time. One that stays does not end for what
// comes after it, and looks for others.
func (q *polls) wait(ctx context.Context, p scheduler.Poll) ([]scheduler.PulledMessage, error) {
	w := q.join(ctx, p)
	var over <-chan time.Time
	if p.Wait > 0 {
		over = time.After(p.Wait)
	}
	clock := time.NewTimer(0)
	defer clock.Stop()
	for {
		wake, tick := w.line.wake, clock.C
		switch wait, first, asked := q.turn(w); {
		case !first:
			wake, tick = nil, nil
		case p.Max == 0 && wait <= 0 && !(p.Stays && asked):
			q.leaveAt(w)
			return nil, errMaybeReady
		case p.Max == 0 && wait > p.Wait && !p.Stays:
			q.leave(w)
			return nil, nil
		case wait <= 0:
			q.pass(w)
			clock.Reset(0)
		default:
			clock.Reset(wait)
		}
		var found []scheduler.PulledMessage
		select {
		case <-w.turn:
			continue
		case <-wake:
			continue
		case <-tick:
			continue
		case found = <-w.served:
		case <-over:
			found = q.leave(w)
		case <-ctx.Done():
			found = q.leave(w)
		}
		switch {
		case len(found) == 0 && w.ended:
			return nil, errEnded
		case ctx.Err() == nil:
			return found, w.err
		case errors.Is(context.Cause(ctx), scheduler.ErrStopping): // its client is still there
			return found, nil
		}
		q.s.GiveBack(ctx, found)
		return nil, fmt.Errorf("pull: %w", ctx.Err())
	}
}

// join puts a poll into the line of its topic.
func (q *polls) join(ctx context.Context, p scheduler.Poll) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[p.Topic]
	if l == nil {
		l = &line{topic: p.Topic, wake: make(chan struct{}, 1)}
		q.lines[p.Topic] = l
	}
	w := &waiter{Poll: p, ctx: ctx, since: q.s.cfg.Clock.Milli(), line: l, turn: make(chan struct{}, 1),
		served: make(chan []scheduler.PulledMessage, 1)}
	l.polls = append(l.polls, w)
	if p.Wait == 0 || l.short {
		l.look = true // it cannot wait for what was not heard
		scheduler.Signal(l.wake)
	}
	q.s.metrics.polls.Inc()
	return w
}

// turn returns whether a poll is the first in its line, and then how long it may wait before it looks. asked: it is to
// look whether or not a message is due.
func (q *polls) turn(w *waiter) (wait time.Duration, first, asked bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := w.line
	switch rest := time.Until(l.rest); {
	case len(l.polls) == 0 || l.polls[0] != w:
		return 0, false, false
	case l.look || !l.looked:
		return rest, true, true
	case l.next == 0:
		return time.Hour, true, false
	default:
		return max(l.next.Time().Sub(q.s.cfg.Clock.Now()), rest), true, false
	}
}

// pass looks for the polls of a line, whose first one is w.
func (q *polls) pass(w *waiter) {
	l := w.line
	q.mu.Lock()
	var batch []*waiter
	l.short = false
	l.polls = slices.DeleteFunc(l.polls, func(one *waiter) (ends bool) {
		if one.ctx.Err() != nil || one.Max == 0 { // it leaves
			return false
		}
		if one.reserve(min(one.Bytes, one.Max*pollRoom), len(batch) == 0) {
			one.serving = true
			batch = append(batch, one)
			return false
		}
		// Those that were served may have had the room.
		l.short, ends = true, one.Wait == 0 && (len(batch) == 0 || one.err != nil && !l.gained)
		if one.err = scheduler.ErrNoRoom; ends {
			one.served <- nil
			q.s.metrics.polls.Dec()
		}
		return ends
	})
	if len(batch) == 0 && !w.Stays {
		if l.short {
			l.look, l.looked, l.next = false, true, q.s.cfg.Clock.Milli().Add(passRetry)
		}
		if len(l.polls) == 0 || l.polls[0] != w {
			q.moved(l)
		}
		q.mu.Unlock()
		return
	}
	l.look, l.heard = false, 0
	q.mu.Unlock()
	found, next, more, rest, err := q.s.handOut(context.WithoutCancel(w.ctx), l.topic, batch)
	now := q.s.cfg.Clock.Milli()

	q.mu.Lock()
	defer q.mu.Unlock()
	done, got := map[*waiter]bool{}, 0
	for i, one := range batch {
		one.serving, one.err = false, one.lost
		one.unreserve()
		mine := found[i]
		got += len(mine)
		if len(mine) == 0 {
			one.err = cmp.Or(one.lost, err)
		}
		if len(mine) > 0 || one.Wait == 0 && !more || one.leaving || one.ended || one.lost != nil {
			done[one] = true
			one.served <- mine
		}
		for j := range mine {
			if due := mine[j].Due; one.since < due {
				q.s.metrics.wakeSeconds.Observe(float64(now-due) / 1000)
			}
		}
		q.s.metrics.pulled.Add(float64(len(mine)))
	}
	l.polls = slices.DeleteFunc(l.polls, func(one *waiter) bool { return done[one] })
	q.s.metrics.polls.Sub(float64(len(done)))
	l.next, l.looked, l.rest, l.look = next, err == nil, time.Now().Add(rest), l.look || more
	if l.heard > 0 && (l.next == 0 || l.heard < l.next) {
		l.next = l.heard
	}
	l.gained = got > 0
	if again := now.Add(passRetry); l.short && l.gained {
		l.look = true
	} else if l.short && (l.next == 0 || again < l.next) { // room becomes free without a word
		l.next = again
	}
	q.moved(l)
}

// moved wakes the first poll of a line from which others went.
func (q *polls) moved(l *line) {
	if len(l.polls) > 0 {
		scheduler.Signal(l.polls[0].turn)
	} else {
		l.left = time.Now()
	}
}

// leave takes a poll out of its line. It returns what a look that was under way got for it.
func (q *polls) leave(w *waiter) []scheduler.PulledMessage {
	q.mu.Lock()
	if w.serving {
		w.leaving = true
		q.mu.Unlock()
		return <-w.served
	}
	defer q.mu.Unlock()
	select {
	case found := <-w.served:
		return found
	default:
	}
	w.line.polls = slices.DeleteFunc(w.line.polls, func(one *waiter) bool { return one == w })
	q.s.metrics.polls.Dec()
	q.moved(w.line)
	return nil
}

// leaveAt takes out a poll that is to ask for what may be ready. The others behind it need not leave for the same: they
// look when it asks, or a moment later.
func (q *polls) leaveAt(w *waiter) {
	q.mu.Lock()
	if l := w.line; w.Stays && len(l.polls) > 1 {
		l.next = q.s.cfg.Clock.Milli().Add(passRest)
	}
	q.mu.Unlock()
	q.leave(w)
}

// Hasten informs the leader and waiting consumers of orders that begin earlier.
func (s *Consumers) Hasten(bucket message.Bucket, earlier []scheduler.Earlier) {
	for _, e := range earlier {
		if e.Topic == "" {
			s.cfg.Announce(bucket, e.Due)
			continue
		}
		s.Hear(e.Topic, e.Due)
		s.cfg.AnnouncePull(e.Topic, e.Due)
	}
}

// Hear tells the polls of a topic that a message is due earlier than all that they know; without a topic, all polls
// look, at the pauses too.
func (s *Consumers) Hear(topic string, due message.Milli) {
	q := &s.polls
	if topic == "" {
		s.pauses.forget()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if topic != "" {
		q.hear(q.lines[topic], due)
		return
	}
	for _, l := range q.lines {
		l.look = true
		scheduler.Signal(l.wake)
	}
}

func (q *polls) hear(l *line, due message.Milli) {
	if l == nil || due == 0 {
		return
	}
	if l.heard == 0 || due < l.heard {
		l.heard = due
	}
	if l.next == 0 || due < l.next {
		l.next = due
		scheduler.Signal(l.wake)
	}
}

// run looks at all lines from time to time, and repeats what is to be undone, until ctx ends.
func (q *polls) run(ctx context.Context) {
	tick := time.Tick(pollsLook)
	var undo sync.WaitGroup // aside: a bucket that does not answer must not hold up the look
	defer undo.Wait()
	undo.Go(func() {
		for ctx.Err() == nil {
			_ = scheduler.Sleep(ctx, pollsLook)
			q.mu.Lock()
			undone := q.undone
			q.undone = map[undoing]message.Milli{}
			q.mu.Unlock()
			q.s.undo(ctx, undone)
		}
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		q.mu.Lock()
		topics := make([]scheduler.TopicWant, 0, len(q.lines))
		for topic, l := range q.lines {
			switch {
			case len(l.polls) > 0:
				topics = append(topics, scheduler.TopicWant{Topic: topic})
			case time.Since(l.left) > lineKeep:
				delete(q.lines, topic)
			}
		}
		q.mu.Unlock()
		for part := range slices.Chunk(topics, looksAtOnce) {
			for _, f := range q.s.ready(ctx, part, q.s.cfg.Clock.Milli()) { // what fails is asked the next time
				q.mu.Lock()
				for i := range f.Topics {
					q.hear(q.lines[part[i].Topic], f.Topics[i].Next)
				}
				q.mu.Unlock()
			}
		}
	}
}

// ready asks what is ready on topics, by bucket. It leaves out buckets that are known not to answer.
func (s *Consumers) ready(ctx context.Context, topics []scheduler.TopicWant,
	now message.Milli) map[message.Bucket]scheduler.Found {
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	var wants []scheduler.Want
	for bucket := range s.cfg.Timeline.Buckets() {
		if s.cfg.Watch.Answers(bucket) {
			wants = append(wants, scheduler.Want{Bucket: bucket, Topics: topics})
		}
	}
	found := make(map[message.Bucket]scheduler.Found, len(wants))
	for i, f := range s.cfg.Timeline.Ready(ctx, wants, now) {
		if found[wants[i].Bucket] = f; f.Err != nil {
			s.cfg.Watch.Suspect()
		}
	}
	return found
}

// GiveBack undoes the leases of messages that cannot be handed to their consumer. It counts as no try. What a later
// sending of the poll's attempt knows stays with that.
func (s *Consumers) GiveBack(ctx context.Context, found []scheduler.PulledMessage) {
	all := map[undoing]message.Milli{}
	for i := range found {
		u := undoing{found[i].UID.Bucket(s.cfg.Timeline.Buckets()), found[i].Nonce}
		all[u] = max(all[u], found[i].Until)
	}
	s.undo(context.WithoutCancel(ctx), all)
}

// undo undoes calls of Lease, those of a bucket together. What is not answered is repeated until its leases are over.
func (s *Consumers) undo(ctx context.Context, all map[undoing]message.Milli) {
	parts := map[message.Bucket][]undoing{}
	for u := range all {
		parts[u.bucket] = append(parts[u.bucket], u)
	}
	for bucket, part := range parts {
		items := make([]scheduler.Settle, len(part))
		for i := range part {
			items[i] = scheduler.Settle{Verb: scheduler.Undo, Nonce: part[i].nonce}
		}
		call, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
		settled, made, _ := s.cfg.Timeline.Settle(call, bucket, 0, items, s.cfg.Clock.Milli())
		stop()
		s.Hasten(bucket, made.Earlier)
		for _, u := range part[len(settled):] {
			if s.cfg.Clock.Milli() < all[u] {
				s.polls.undoLater(u, all[u])
			}
		}
	}
}

func (q *polls) undoLater(u undoing, until message.Milli) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.undone[u] = until
}
