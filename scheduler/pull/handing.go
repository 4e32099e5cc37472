package pull

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// handOut leases what is ready on a topic for polls, in their order. It returns what each gets, a time no later than
// when the next message is due, whether more may be ready than was asked for or could be seen, and how long to wait
// before the next look. An error means that no bucket answered.
func (s *Consumers) handOut(ctx context.Context, topic string,
	batch []*waiter) (found [][]scheduler.PulledMessage, next message.Milli, more bool, rest time.Duration, err error) {
	found = make([][]scheduler.PulledMessage, len(batch))
	for changed := 0; ; changed++ {
		paused, known, err := s.paused(ctx, topic)
		if err != nil {
			return found, 0, false, passRetry, err
		}
		now := s.cfg.Clock.Milli()
		if paused {
			return found, now.Add(pausesKeep), false, 0, nil
		}
		h := handing{s: s, topic: topic, batch: batch, pauses: known, now: now, found: found,
			next: map[message.Bucket]message.Milli{}}
		err = h.share(ctx)
		if err == nil {
			err = h.lease(ctx)
		}
		if errors.Is(err, scheduler.ErrPausesChanged) && changed < passTries {
			s.pauses.forget()
			continue
		}
		if err != nil {
			return found, 0, false, passRetry, fmt.Errorf("pull: %w", err)
		}
		for _, due := range h.next {
			if due > 0 && (next == 0 || due < next) {
				next = due
			}
		}
		if h.got < h.promised && h.aside == 0 {
			rest = passRest
		}
		return found, next, h.aside > 0 || h.left && max(h.promised, h.got) >= h.asked, rest, nil
	}
}

// handing is one look for the polls of a line.
type handing struct {
	s      *Consumers
	topic  string
	batch  []*waiter
	pauses message.Milli
	now    message.Milli

	requests []scheduler.LeaseRequest
	of       []int // the poll of each request
	asked    int   // how many messages the look asks for
	left     bool  // the polls want more than that
	promised int
	next     map[message.Bucket]message.Milli
	found    [][]scheduler.PulledMessage
	got      int
	aside    int
}

// share divides what is ready among the polls, by the order over all buckets. With one bucket the calls of Lease find
// out by themselves.
func (h *handing) share(ctx context.Context) error {
	buckets := h.s.cfg.Timeline.Buckets()
	for i, w := range h.batch {
		if h.left = h.left || i > 0 && h.asked+w.Max > passWanted; h.left {
			break
		}
		if h.asked += w.Max; buckets == 1 {
			h.request(i, map[message.Bucket]int{0: w.Max}, 0)
		}
	}
	if buckets == 1 && len(h.batch) > 0 {
		return nil
	}
	places, err := h.look(ctx, h.asked, h.asked/int(buckets)+shareMore)
	if err != nil {
		return err
	}
	h.promised = min(len(places), h.asked)
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
	var (
		places   []place
		answered bool
		err      error
		known    = int64(math.MaxInt64) // up to here all places are known
	)
	for b, f := range h.s.ready(ctx, []scheduler.TopicWant{{Topic: h.topic, Count: each}}, h.now) {
		if f.Err != nil || len(f.Topics) == 0 {
			err = cmp.Or(err, f.Err)
			continue
		}
		answered = true
		h.next[b] = f.Topics[0].Next
		ranks := f.Topics[0].Ranks
		for _, rank := range ranks {
			places = append(places, place{rank, b})
		}
		if each > 0 && len(ranks) == each {
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
	length := cmp.Or(w.Lease, scheduler.DefaultLease)
	if t := h.s.cfg.Topics.Of(h.topic); t != nil && t.Lease > 0 && w.Lease == 0 {
		length = t.Lease
	}
	nonce, keep := w.Attempt, attemptKeep
	if nonce == 0 {
		nonce, keep = newNonce(), grantKeep
	}
	for bucket, count := range counts {
		h.requests = append(h.requests, scheduler.LeaseRequest{Bucket: bucket, Topic: h.topic, Limit: count,
			Bytes: w.Bytes / len(counts), Over: bucket == first, Page: leasePage, Nonce: nonce, Again: w.Attempt != 0,
			Keep: keep, Now: h.now, From: message.CeilMilli(h.s.cfg.Clock.Latest()), Length: length, Fixed: w.Lease > 0,
			Consumer: w.Consumer, Pauses: h.pauses})
		h.of = append(h.of, i)
	}
}

// lease sends the requests, those of unknown outcome again, and more for what did not fit into a page. What stays
// unknown is undone, or left to the repeat of an attempt.
func (h *handing) lease(ctx context.Context) error {
	left, unknown := make([]int, len(h.requests)), map[int]bool{} // places in requests
	for i := range left {
		left[i] = i
	}
	var away, paused error
	answered := len(left) == 0
	for len(left) > 0 {
		requests, next := make([]scheduler.LeaseRequest, len(left)), []int(nil)
		for at, i := range left {
			requests[at] = h.requests[i]
		}
		call, stop := context.WithTimeout(ctx, h.s.cfg.CallTimeout) // a page each: all may take longer
		leased := h.s.cfg.Timeline.Lease(call, requests)
		stop()
		for at, l := range leased {
			r, i := &requests[at], left[at]
			switch poll := h.of[i]; {
			case l.Err == nil:
				answered = true
				if h.take(r, poll, &l) {
					next, h.of = append(next, len(h.requests)), append(h.of, poll)
					h.requests = append(h.requests, beyond(r, &l))
				}
			case unknown[i]: // whatever it says, the first call may have leased
				away = cmp.Or(away, fmt.Errorf("%w: %v", scheduler.ErrOutcomeUnknown, l.Err))
				h.next[r.Bucket] = h.now.Add(passRetry)
				if r.Again || r.Limit == 0 { // a repeat is to bring all
					h.batch[poll].lost = fmt.Errorf("pull: %w", away)
				} else {
					h.s.polls.undoLater(undoing{r.Bucket, r.Nonce}, r.From.Add(longestLease))
				}
			case errors.Is(l.Err, scheduler.ErrPausesChanged):
				paused = l.Err
			case errors.Is(l.Err, scheduler.ErrOutcomeUnknown):
				unknown[i], next = true, append(next, i)
			default:
				away = cmp.Or(away, l.Err)
				h.next[r.Bucket] = h.now.Add(passRetry)
				if r.Limit == 0 && r.Skip > 0 { // it has more
					h.batch[poll].lost = fmt.Errorf("pull: %w", away)
				}
			}
		}
		left = next
	}
	for i, mine := range h.found {
		if sortPulled(mine); h.batch[i].lost != nil {
			h.found[i] = nil
		}
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

// take takes what a request brought for a poll, and reports whether to ask for more.
func (h *handing) take(r *scheduler.LeaseRequest, poll int, l *scheduler.Leased) (more bool) {
	w := h.batch[poll]
	if h.aside += l.Aside; !l.Known {
		h.next[r.Bucket] = l.Next
	} else if len(l.Messages) == 0 && r.Limit > 0 {
		w.ended = true
		h.next[r.Bucket] = h.now // it looked for nobody
	}
	for _, m := range l.Messages {
		h.found[poll] = append(h.found[poll], scheduler.PulledMessage{LeasedMessage: m, Nonce: r.Nonce})
	}
	h.got += len(l.Messages)
	return (w.hold(l.Messages) || l.Known) && l.Skip > 0
}

// beyond returns the request for what did not fit into the page of an answer. A poll that its client repeats takes all
// under one nonce, for which the repeat asks; of another each page can be undone by itself.
func beyond(r *scheduler.LeaseRequest, l *scheduler.Leased) scheduler.LeaseRequest {
	more := *r
	more.Skip, more.Over = l.Skip, false
	if more.Limit > 0 {
		more.Limit -= len(l.Messages)
		for i := range l.Messages {
			more.Bytes -= l.Messages[i].Size()
		}
		if !r.Again && !l.Known {
			more.Skip, more.Nonce = 0, newNonce()
		}
	}
	return more
}
