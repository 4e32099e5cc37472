package scheduler

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Poll asks for ready messages of a topic.
type Poll struct {
	Topic string
	// Max and Bytes bound the messages; the first may weigh more.
	Max, Bytes int
	// Lease is how long the messages are leased; 0 leaves it to each message, its topic and DefaultLease.
	Lease    time.Duration
	Consumer string
}

// PulledMessage is a leased message with what settles its lease.
type PulledMessage struct {
	LeasedMessage
	Nonce Nonce
}

const (
	// DefaultLease applies if neither the poll, nor the message, nor its topic says how long a lease is.
	DefaultLease = 30 * time.Second
	// grantKeep is how long a call of Lease is known after its last lease is over. A call and its repeat take less.
	grantKeep = 30 * time.Second
	// pausesKeep is how long the pauses are believed that hold a topic back. Pauses that do not are believed until
	// Lease answers that there are later ones.
	pausesKeep = time.Second
	// passTries is how often a poll begins anew because the pauses changed under it.
	passTries = 3
)

// Pull leases ready messages: the highest priority first, then the earliest due, then the first accepted, over all
// buckets. It returns none if nothing is ready or the topic is paused. A bucket that does not answer is left out; an
// error means that none answered.
func (s *Scheduler) Pull(ctx context.Context, p Poll) ([]PulledMessage, error) {
	if err := s.cfg.Admit(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	var all []PulledMessage
	for changed := 0; p.Max > 0 && p.Bytes > 0; {
		paused, known, err := s.paused(ctx, p.Topic)
		var found []PulledMessage
		aside := 0
		if err == nil && !paused {
			found, aside, err = s.take(ctx, &p, known, len(all) == 0)
		}
		if errors.Is(err, ErrPausesChanged) && changed < passTries {
			changed++
			s.pauses.forget()
			continue
		}
		if err != nil && len(all) == 0 {
			return nil, err
		}
		all = append(all, found...)
		if aside == 0 { // else what expired stood before others
			break
		}
		p.Max -= len(found)
		for i := range found {
			p.Bytes -= weigh(found[i].Message)
		}
	}
	return all, nil
}

// take leases what a poll wants, and returns how many messages past their time to live it set aside. First it looks
// what is ready in each bucket, so that the order holds over all of them.
func (s *Scheduler) take(ctx context.Context, p *Poll, pauses message.Milli,
	first bool) (found []PulledMessage, aside int, err error) {
	now := s.cfg.Clock.Milli()
	shares, err := s.shares(ctx, p, now)
	if err != nil {
		return nil, 0, err
	}
	length := cmp.Or(p.Lease, DefaultLease)
	if t := s.cfg.Topics.Of(p.Topic); t != nil && t.Lease > 0 && p.Lease == 0 {
		length = t.Lease
	}
	var (
		from     = message.CeilMilli(s.cfg.Clock.Latest())
		nonce    = newNonce()
		requests []LeaseRequest
	)
	for _, share := range shares {
		requests = append(requests, LeaseRequest{Bucket: share.bucket, Topic: p.Topic, Limit: share.count,
			Bytes: p.Bytes / len(shares), Over: first && share.first, Nonce: nonce, Keep: grantKeep, Now: now, From: from,
			Length: length, Fixed: p.Lease > 0, Consumer: p.Consumer, Pauses: pauses})
	}
	return s.lease(ctx, requests)
}

// lease sends the requests, and again those of unknown outcome, and returns the messages in the order of the topic.
func (s *Scheduler) lease(ctx context.Context,
	requests []LeaseRequest) (found []PulledMessage, aside int, err error) {
	var away error
	answered := false
	for again := false; len(requests) > 0; again = true {
		var unknown []LeaseRequest
		for i, l := range s.cfg.Timeline.Lease(ctx, requests) {
			switch {
			case l.Err == nil:
				answered = true
				aside += l.Aside
				for _, m := range l.Messages {
					found = append(found, PulledMessage{m, requests[i].Nonce})
				}
			case errors.Is(l.Err, ErrOutcomeUnknown) && !again:
				unknown = append(unknown, requests[i])
			case errors.Is(l.Err, ErrPausesChanged):
				err = l.Err
			default:
				away = cmp.Or(away, l.Err)
			}
		}
		requests = unknown
	}
	slices.SortFunc(found, func(a, b PulledMessage) int {
		return cmp.Or(cmp.Compare(a.Rank(), b.Rank()), a.UID.Compare(b.UID))
	})
	switch {
	case len(found) > 0: // what other buckets hold is left for the next poll
		return found, aside, nil
	case err != nil:
		return nil, 0, err
	case !answered && away != nil:
		return nil, 0, fmt.Errorf("pull: %w", away)
	}
	return nil, aside, nil
}

// share is what a poll takes from one bucket.
type share struct {
	bucket message.Bucket
	count  int
	first  bool // the first message of all is there
}

// shares divides a poll among the buckets by the order of what is ready in them.
func (s *Scheduler) shares(ctx context.Context, p *Poll, now message.Milli) (shares []share, err error) {
	n := s.cfg.Timeline.Buckets()
	if n == 1 {
		return []share{{count: p.Max, first: true}}, nil
	}
	wants := make([]Want, n)
	for b := range n {
		wants[b] = Want{Bucket: b, Topics: []TopicWant{{p.Topic, p.Max}}}
	}
	type place struct {
		rank   int64
		bucket message.Bucket
	}
	var places []place
	answered := false
	for b, f := range s.cfg.Timeline.Ready(ctx, wants, now) {
		if f.Err != nil || len(f.Topics) == 0 {
			err = cmp.Or(err, f.Err)
			continue
		}
		answered = true
		for _, rank := range f.Topics[0].Ranks {
			places = append(places, place{rank, message.Bucket(b)})
		}
	}
	if !answered && err != nil {
		return nil, fmt.Errorf("look what is ready: %w", err)
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.bucket, b.bucket))
	})
	at := map[message.Bucket]int{}
	for i, place := range places[:min(len(places), p.Max)] {
		where, known := at[place.bucket]
		if !known {
			where = len(shares)
			at[place.bucket] = where
			shares = append(shares, share{bucket: place.bucket, first: i == 0})
		}
		shares[where].count++
	}
	return shares, nil
}

// newNonce returns a nonce that cannot be guessed.
func newNonce() Nonce {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // never fails
		if n := Nonce(binary.BigEndian.Uint64(b[:])); n > 0 {
			return n
		}
	}
}

// knownPauses are the pauses as this instance last read them.
type knownPauses struct {
	mu      sync.Mutex
	list    []Pause
	changed message.Milli
	read    time.Time
}

// forget makes the next poll read the pauses.
func (k *knownPauses) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.read = time.Time{}
}

// paused reports whether a topic is paused, and the time of the last change of pauses that this is by.
func (s *Scheduler) paused(ctx context.Context, topic string) (paused bool, changed message.Milli, err error) {
	k := &s.pauses
	k.mu.Lock()
	defer k.mu.Unlock()
	holds := func() bool {
		return slices.ContainsFunc(k.list, func(p Pause) bool { return Matches(p.Pattern, topic) })
	}
	if k.read.IsZero() || holds() && time.Since(k.read) > pausesKeep {
		list, changed, err := s.cfg.Timeline.Pauses(ctx)
		if err != nil {
			return false, 0, Looked("read the pauses", err)
		}
		k.list, k.changed, k.read = list, changed, time.Now()
	}
	return holds(), k.changed, nil
}

// countPulled adds what consumers pull to the counts of topics.
func (s *Scheduler) countPulled(ctx context.Context, counts []TopicCount) error {
	if len(counts) == 0 {
		return nil
	}
	topics := make([]string, len(counts))
	for i := range counts {
		topics[i] = counts[i].Topic
	}
	pulled, err := s.cfg.Timeline.Pulled(ctx, topics, []message.Milli{s.cfg.Clock.Milli()})
	if err != nil {
		return err
	}
	for i := range counts {
		c := &counts[i]
		c.Ready, c.Leased = pulled[i].Due[0], pulled[i].Leased
		c.Waiting = max(c.Waiting-c.Ready, 0)
	}
	return nil
}

// view shows a message that consumers pull as it is for them: ready, or leased by one of them.
func (s *Scheduler) view(ctx context.Context, info *message.Info) error {
	switch {
	case !info.Pull:
	case info.State == message.StateWaiting && info.Due <= s.cfg.Clock.Milli():
		info.State = message.StateReady
	case info.State == message.StateInFlight:
		page, err := s.cfg.Timeline.Leases(ctx, info.UID.Bucket(s.cfg.Timeline.Buckets()),
			LeaseQuery{UIDs: []message.UID{info.UID}, Limit: 1}, s.cfg.Clock.Milli())
		if err != nil {
			return Looked("look up a lease", err)
		}
		for i := range page.Leases {
			info.Held = &page.Leases[i].Holding
		}
	}
	return nil
}
