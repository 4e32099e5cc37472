package pull

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
)

// pullAny leases ready messages of several topics, or waits until some are. It waits in the lines of all of them for no
// messages, which asks nothing of the timeline beyond what the lines ask anyway.
func (s *Consumers) pullAny(ctx context.Context, p scheduler.Poll) ([]scheduler.PulledMessage, error) {
	woken := map[string]bool{}
	for until := time.Now().Add(p.Wait); ; {
		first := rand.IntN(len(p.Topics)) // what is always ready on one must not keep others back
		p.Topics = slices.Concat(p.Topics[first:], p.Topics[:first])
		found, err := s.pullShares(ctx, p, woken)
		left := time.Until(until)
		switch {
		case errors.Is(err, errEnded):
			return nil, nil
		case len(found) > 0 || left <= 0 || ctx.Err() != nil:
			return found, err
		case err != nil:
			_ = scheduler.Sleep(ctx, min(passRetry, left))
		default:
			if len(woken) > 0 { // others were quicker
				_ = scheduler.Sleep(ctx, passRest)
			}
			woken = s.awaitAny(ctx, p.Topics, left)
		}
	}
}

// pullShares leases what is ready: as equal shares as there are messages for. If nothing is, it asks for one of each
// topic that woke the poll, which tells their lines when more will be ready.
func (s *Consumers) pullShares(ctx context.Context, p scheduler.Poll,
	woken map[string]bool) (found []scheduler.PulledMessage, err error) {
	ready, err := s.readyOn(ctx, p.Topics, p.Max)
	if err == nil && slices.Max(ready) == 0 {
		for i, topic := range p.Topics {
			if woken[topic] {
				ready[i] = 1
			}
		}
	}
	bytes := p.Bytes
	for i, n := range shares(ready, p.Max) {
		one := p
		one.Topic, one.Topics, one.Wait, one.Max, one.Bytes = p.Topics[i], nil, 0, n, bytes
		if n == 0 || bytes <= 0 {
			continue
		}
		if p.Attempt != 0 {
			one.Attempt = partOf(p.Attempt, one.Topic)
		}
		got, failed := s.polls.wait(ctx, one)
		if ctx.Err() != nil && failed != nil { // its client is gone
			s.GiveBack(ctx, found)
			return nil, failed
		}
		for i := range got {
			bytes -= got[i].Size()
		}
		found, err = append(found, got...), cmp.Or(err, failed)
	}
	if len(found) > 0 {
		err = nil
	}
	return found, err
}

// readyOn returns how many messages are ready on topics that are not paused, as far as most matters. A bucket that does
// not answer is left out; an error means that none answered.
func (s *Consumers) readyOn(ctx context.Context, topics []string, most int) (ready []int, err error) {
	ready, answered := make([]int, len(topics)), false
	wants := make([]scheduler.TopicWant, len(topics))
	for i, topic := range topics {
		wants[i] = scheduler.TopicWant{Topic: topic,
			Count: min(most, most/int(s.cfg.Timeline.Buckets())+shareMore)}
	}
	for _, f := range s.ready(ctx, wants, s.cfg.Clock.Milli()) {
		for i := range f.Topics {
			ready[i] += len(f.Topics[i].Ranks)
		}
		answered, err = answered || f.Err == nil, cmp.Or(err, f.Err)
	}
	for i, topic := range topics {
		if paused, _, err := s.paused(ctx, topic); paused && err == nil {
			ready[i] = 0
		}
	}
	if answered || err == nil {
		return ready, nil
	}
	return ready, fmt.Errorf("pull: %w", scheduler.Looked("look what is ready", err))
}

// shares divides most among topics, by how many of each are ready.
func shares(ready []int, most int) []int {
	all := make([]int, len(ready))
	for open := len(ready); most > 0 && open > 0; {
		each := max(most/open, 1)
		open = 0
		for i := range all {
			n := min(each, ready[i]-all[i], most)
			all[i], most = all[i]+n, most-n
			if all[i] < ready[i] {
				open++
			}
		}
	}
	return all
}

// awaitAny waits until a message may be ready, and returns on which topics that is. It is none once the time is over,
// the client is gone or the instance stops.
func (s *Consumers) awaitAny(ctx context.Context, topics []string, within time.Duration) map[string]bool {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	woken, ends := map[string]bool{}, make(chan string, len(topics))
	for _, topic := range topics {
		go func() { // ends with ctx, and is waited for
			if _, err := s.polls.wait(ctx, scheduler.Poll{Topic: topic, Wait: within, Stays: true}); !errors.Is(err,
				errMaybeReady) {
				topic = ""
			}
			ends <- topic
		}()
	}
	for range topics {
		if topic := <-ends; topic != "" {
			woken[topic] = true
			stop()
		}
	}
	return woken
}
