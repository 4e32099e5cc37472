package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// polls are the polls that wait on this instance, by topic.
//
// The polls of a topic stand in a line, in order of arrival. The first of them looks for all: it asks the timeline once
// for what they want together, hands it out in their order, and then waits until the next message is due or somebody
// says that one came earlier. So a line costs the timeline the same however many polls stand in it, and the messages of
// a burst are shared in few calls. No goroutine belongs to a line: whoever stops being the first wakes the next.
type polls struct {
	s  *Scheduler
	mu sync.Mutex
	// lines has the topics that are polled, and those that were until a moment ago.
	lines  map[string]*line
	undone []undoing
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
	wake   chan struct{} // capacity 1: next or look changed
	left   time.Time     // since when nobody polls
}

// waiter is a poll that stands in a line.
type waiter struct {
	Poll
	ctx     context.Context // of its client
	since   message.Milli
	line    *line
	turn    chan struct{}        // capacity 1: it became the first
	served  chan []PulledMessage // capacity 1
	serving bool                 // a look is under way for it
	leaving bool
	err     error // of the last look
}

const (
	// passWanted bounds how many messages one look asks for.
	passWanted = 1000
	// passRest is the pause after a look that got less than it had been promised: others were quicker.
	passRest = 10 * time.Millisecond
	// passRetry is the pause after a look that failed.
	passRetry = 250 * time.Millisecond
	// lineKeep is how long a line is kept, and hears what comes earlier, once nobody polls. Whoever polls again meanwhile
	// need not look.
	lineKeep = time.Second
	// pollsLook is how often all lines are looked at, since what was said may be lost.
	pollsLook = time.Second
	// looksAtOnce is how many topics one call looks at.
	looksAtOnce = 1000
)

// undoing is a call of Lease with an unknown outcome.
type undoing struct {
	bucket message.Bucket
	nonce  Nonce
	until  time.Time // its leases are over then
}

// wait waits for messages until the poll's time is over, its client is gone or the instance stops.
func (q *polls) wait(ctx context.Context, p Poll) ([]PulledMessage, error) {
	w := q.join(ctx, p)
	var over <-chan time.Time
	if p.Wait > 0 {
		end := time.NewTimer(p.Wait)
		defer end.Stop()
		over = end.C
	}
	clock := time.NewTimer(0)
	defer clock.Stop()
	for {
		wake, tick := w.line.wake, clock.C
		switch wait, first := q.turn(w); {
		case !first:
			wake, tick = nil, nil
		case wait <= 0:
			q.pass(w)
			clock.Reset(0)
		default:
			clock.Reset(wait)
		}
		var found []PulledMessage
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
		case ctx.Err() == nil:
			return found, w.err
		case errors.Is(context.Cause(ctx), ErrStopping): // its client is still there
			return found, nil
		case p.Attempt == 0:
			q.s.GiveBack(ctx, found)
		}
		return nil, fmt.Errorf("pull: %w", ctx.Err())
	}
}

// join puts a poll into the line of its topic.
func (q *polls) join(ctx context.Context, p Poll) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[p.Topic]
	if l == nil {
		l = &line{topic: p.Topic, wake: make(chan struct{}, 1)}
		q.lines[p.Topic] = l
	}
	w := &waiter{Poll: p, ctx: ctx, since: q.s.cfg.Clock.Milli(), line: l, turn: make(chan struct{}, 1),
		served: make(chan []PulledMessage, 1)}
	l.polls = append(l.polls, w)
	if p.Wait == 0 {
		l.look = true // it cannot wait for what was not heard
		signal(l.wake)
	}
	q.s.metrics.polls.Inc()
	return w
}

// turn returns whether a poll is the first in its line, and then how long it may wait before it looks.
func (q *polls) turn(w *waiter) (wait time.Duration, first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := w.line
	switch rest := time.Until(l.rest); {
	case len(l.polls) == 0 || l.polls[0] != w:
		return 0, false
	case l.look || !l.looked:
		return rest, true
	case l.next == 0:
		return time.Hour, true
	default:
		return max(l.next.Time().Sub(q.s.cfg.Clock.Now()), rest), true
	}
}

// pass looks for the polls of a line, whose first one is w.
func (q *polls) pass(w *waiter) {
	l := w.line
	q.mu.Lock()
	var batch []*waiter
	wanted := 0
	for _, one := range l.polls {
		if one.ctx.Err() != nil { // it leaves
			continue
		}
		if wanted += one.Max; len(batch) > 0 && wanted > passWanted {
			break
		}
		one.serving = true
		batch = append(batch, one)
	}
	l.look, l.heard = false, 0
	q.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(w.ctx), q.s.cfg.CallTimeout)
	defer stop()
	found, next, aside, rest, err := q.s.handOut(ctx, l.topic, batch)
	now := q.s.cfg.Clock.Milli()

	q.mu.Lock()
	defer q.mu.Unlock()
	done := map[*waiter]bool{}
	for i, one := range batch {
		one.serving, one.err = false, nil
		var mine []PulledMessage
		if found != nil {
			mine = found[i]
		}
		if len(mine) == 0 {
			one.err = err
		}
		if len(mine) > 0 || one.Wait == 0 && !aside || one.leaving {
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
	l.next, l.looked, l.rest, l.look = next, err == nil, time.Now().Add(rest), l.look || aside
	if l.heard > 0 && (l.next == 0 || l.heard < l.next) {
		l.next = l.heard
	}
	q.moved(l)
}

// moved wakes the first poll of a line from which others went.
func (q *polls) moved(l *line) {
	if len(l.polls) > 0 {
		signal(l.polls[0].turn)
	} else {
		l.left = time.Now()
	}
}

// leave takes a poll out of its line. It returns what a look that was under way got for it.
func (q *polls) leave(w *waiter) []PulledMessage {
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

// Hear tells the polls of a topic that a message is due earlier than all that they know; without a topic, all polls
// look, at the pauses too.
func (s *Scheduler) Hear(topic string, due message.Milli) {
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
		signal(l.wake)
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
		signal(l.wake)
	}
}

// run looks at all lines from time to time, and repeats what is to be undone, until ctx ends.
func (q *polls) run(ctx context.Context) {
	tick := time.NewTicker(pollsLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		q.mu.Lock()
		topics := make([]TopicWant, 0, len(q.lines))
		for topic, l := range q.lines {
			switch {
			case len(l.polls) > 0:
				topics = append(topics, TopicWant{Topic: topic})
			case time.Since(l.left) > lineKeep:
				delete(q.lines, topic)
			}
		}
		undone := q.undone
		q.undone = nil
		q.mu.Unlock()
		for part := range slices.Chunk(topics, looksAtOnce) {
			q.lookAt(ctx, part)
		}
		q.s.undo(ctx, undone)
	}
}

// lookAt asks when the next messages of topics are due. What fails is asked the next time.
func (q *polls) lookAt(ctx context.Context, topics []TopicWant) {
	ctx, stop := context.WithTimeout(ctx, q.s.cfg.CallTimeout)
	defer stop()
	wants := make([]Want, q.s.cfg.Timeline.Buckets())
	for bucket := range wants {
		wants[bucket] = Want{Bucket: message.Bucket(bucket), Topics: topics}
	}
	for _, f := range q.s.cfg.Timeline.Ready(ctx, wants, q.s.cfg.Clock.Milli()) {
		q.mu.Lock()
		for i := range f.Topics {
			q.hear(q.lines[topics[i].Topic], f.Topics[i].Next)
		}
		q.mu.Unlock()
	}
}

// GiveBack undoes the leases of messages that cannot be handed to their consumer. It counts as no try.
func (s *Scheduler) GiveBack(ctx context.Context, found []PulledMessage) {
	var all []undoing
	for i := range found {
		m := &found[i]
		u := undoing{m.UID.Bucket(s.cfg.Timeline.Buckets()), m.Nonce, m.Until.Time()}
		if !slices.ContainsFunc(all, func(o undoing) bool { return o.bucket == u.bucket && o.nonce == u.nonce }) {
			all = append(all, u)
		}
	}
	s.undo(context.WithoutCancel(ctx), all)
}

// undo undoes calls of Lease. What is not answered is repeated until its leases are over.
func (s *Scheduler) undo(ctx context.Context, all []undoing) {
	for _, u := range all {
		call, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
		_, made, err := s.cfg.Timeline.Settle(call, u.bucket, 0, []Settle{{Verb: Undo, Nonce: u.nonce}},
			s.cfg.Clock.Milli())
		stop()
		if err == nil {
			s.hasten(u.bucket, made.Earlier)
		} else if s.cfg.Clock.Latest().Before(u.until) {
			s.polls.undoLater(u)
		}
	}
}

func (q *polls) undoLater(u undoing) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.undone = append(q.undone, u)
}

// handOut leases what is ready on a topic for polls, in their order. It returns what each gets, a time no later than
// when the next message is due, whether expired messages stood in the way of others, and how long to wait before the
// next look. An error means that no bucket answered.
func (s *Scheduler) handOut(ctx context.Context, topic string,
	batch []*waiter) (found [][]PulledMessage, next message.Milli, aside bool, rest time.Duration, err error) {
	for changed := 0; ; changed++ {
		paused, known, err := s.paused(ctx, topic)
		if err != nil {
			return nil, 0, false, passRetry, err
		}
		now := s.cfg.Clock.Milli()
		if paused {
			return nil, now.Add(pausesKeep), false, 0, nil
		}
		h := handing{s: s, topic: topic, batch: batch, pauses: known, now: now, next: map[message.Bucket]message.Milli{}}
		err = h.share(ctx)
		if err == nil {
			err = h.lease(ctx)
		}
		if errors.Is(err, ErrPausesChanged) && changed < passTries {
			s.pauses.forget()
			continue
		}
		if err != nil {
			return h.found, 0, false, passRetry, fmt.Errorf("pull: %w", err)
		}
		for _, due := range h.next {
			if due > 0 && (next == 0 || due < next) {
				next = due
			}
		}
		if h.got < h.promised && h.aside == 0 {
			rest = passRest
		}
		return h.found, next, h.aside > 0, rest, nil
	}
}

// handing is one look for the polls of a line.
type handing struct {
	s      *Scheduler
	topic  string
	batch  []*waiter
	pauses message.Milli
	now    message.Milli

	requests []LeaseRequest
	of       []int // the poll of each request
	promised int
	next     map[message.Bucket]message.Milli
	found    [][]PulledMessage
	got      int
	aside    int
}

// share divides what is ready among the polls, by the order over all buckets. With one bucket the calls of Lease find
// out by themselves.
func (h *handing) share(ctx context.Context) error {
	buckets, wanted := h.s.cfg.Timeline.Buckets(), 0
	for _, w := range h.batch {
		wanted += w.Max
	}
	if buckets == 1 {
		for i := range h.batch {
			h.request(i, map[message.Bucket]int{0: h.batch[i].Max}, 0)
		}
		return nil
	}
	places, err := h.look(ctx, wanted, wanted/int(buckets)+shareMore)
	if err != nil {
		return err
	}
	h.promised = min(len(places), wanted)
	for i, w := range h.batch {
		mine := places[:min(len(places), w.Max)]
		if places = places[len(mine):]; len(mine) == 0 {
			break
		}
		counts := map[message.Bucket]int{}
		for _, place := range mine {
			counts[place.bucket]++
		}
		h.request(i, counts, mine[0].bucket)
	}
	return nil
}

// shareMore is how many places of a bucket are asked for beyond its share. Most batches then need no second look, and
// none reads what all want from every bucket.
const shareMore = 32

// place is one of a ready message in the order of a topic.
type place struct {
	rank   int64
	bucket message.Bucket
}

// look returns the places of the first wanted messages over all buckets, of which it first asks each for each.
func (h *handing) look(ctx context.Context, wanted, each int) ([]place, error) {
	each = min(each, wanted)
	wants := make([]Want, h.s.cfg.Timeline.Buckets())
	for b := range wants {
		wants[b] = Want{Bucket: message.Bucket(b), Topics: []TopicWant{{h.topic, each}}}
	}
	var (
		places   []place
		answered bool
		err      error
		known    = int64(math.MaxInt64) // up to here all places are known
	)
	for b, f := range h.s.cfg.Timeline.Ready(ctx, wants, h.now) {
		if f.Err != nil || len(f.Topics) == 0 {
			err = cmp.Or(err, f.Err)
			continue
		}
		answered = true
		h.next[message.Bucket(b)] = f.Topics[0].Next
		ranks := f.Topics[0].Ranks
		for _, rank := range ranks {
			places = append(places, place{rank, message.Bucket(b)})
		}
		if len(ranks) == each {
			known = min(known, ranks[each-1])
		}
	}
	if !answered && err != nil {
		return nil, fmt.Errorf("look what is ready: %w", err)
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.bucket, b.bucket))
	})
	if each < wanted && known < math.MaxInt64 && (len(places) < wanted || places[wanted-1].rank > known) {
		return h.look(ctx, wanted, wanted)
	}
	return places, nil
}

// request adds the requests of a poll, which takes counts from the buckets; the first message is in the bucket first.
func (h *handing) request(i int, counts map[message.Bucket]int, first message.Bucket) {
	w := h.batch[i]
	length := cmp.Or(w.Lease, DefaultLease)
	if t := h.s.cfg.Topics.Of(h.topic); t != nil && t.Lease > 0 && w.Lease == 0 {
		length = t.Lease
	}
	nonce, keep := w.Attempt, attemptKeep
	if nonce == 0 {
		nonce, keep = newNonce(), grantKeep
	}
	for bucket, count := range counts {
		h.requests = append(h.requests, LeaseRequest{Bucket: bucket, Topic: h.topic, Limit: count,
			Bytes: w.Bytes / len(counts), Over: bucket == first, Nonce: nonce, Again: w.Attempt != 0, Keep: keep, Now: h.now,
			From: message.CeilMilli(h.s.cfg.Clock.Latest()), Length: length, Fixed: w.Lease > 0, Consumer: w.Consumer,
			Pauses: h.pauses})
		h.of = append(h.of, i)
	}
}

// lease sends the requests, and those of unknown outcome again. What stays unknown is undone.
func (h *handing) lease(ctx context.Context) error {
	h.found = make([][]PulledMessage, len(h.batch))
	left := make([]int, len(h.requests)) // places in requests
	for i := range left {
		left[i] = i
	}
	var away, paused error
	answered := len(left) == 0
	for again := false; len(left) > 0; again = true {
		requests, unknown := make([]LeaseRequest, len(left)), []int(nil)
		for at, i := range left {
			requests[at] = h.requests[i]
		}
		for at, l := range h.s.cfg.Timeline.Lease(ctx, requests) {
			r, poll := &requests[at], h.of[left[at]]
			switch {
			case l.Err == nil:
				answered = true
				if h.aside += l.Aside; !l.Known {
					h.next[r.Bucket] = l.Next
				}
				for _, m := range l.Messages {
					h.found[poll] = append(h.found[poll], PulledMessage{m, r.Nonce})
				}
				h.got += len(l.Messages)
			case errors.Is(l.Err, ErrPausesChanged):
				paused = l.Err
			case errors.Is(l.Err, ErrOutcomeUnknown) && !again:
				unknown = append(unknown, left[at])
			default:
				away = cmp.Or(away, l.Err)
				h.next[r.Bucket] = h.now.Add(passRetry)
				if errors.Is(l.Err, ErrOutcomeUnknown) && h.batch[poll].Attempt == 0 {
					h.s.polls.undoLater(undoing{r.Bucket, r.Nonce, r.From.Add(r.Length).Time()})
				}
			}
		}
		left = unknown
	}
	for _, mine := range h.found {
		sortPulled(mine)
	}
	switch {
	case h.got > 0:
		return nil
	case paused != nil:
		return paused
	case !answered:
		return away
	}
	return nil
}
