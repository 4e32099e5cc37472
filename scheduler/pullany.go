package scheduler

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// pullAny leases ready messages of several topics, or waits until some are. It waits in the lines of all of them for no
// messages, which asks nothing of the timeline beyond what the lines ask anyway.
func (s *Scheduler) pullAny(ctx context.Context, p Poll) ([]PulledMessage, error) {
	first := rand.IntN(len(p.Topics))
	p.Topics = slices.Concat(p.Topics[first:], p.Topics[:first]) // what is ready on one always must not keep others back
	until := time.Now().Add(p.Wait)
	woken := make([]bool, len(p.Topics))
	for {
		found, err := s.pullShares(ctx, p, woken)
		left := time.Until(until)
		if len(found) > 0 || err != nil || left <= 0 {
			return found, err
		}
		if slices.Contains(woken, true) { // others were quicker
			_ = Sleep(ctx, passRest)
		}
		if woken = s.awaitAny(ctx, p.Topics, left); !slices.Contains(woken, true) {
			return nil, nil
		}
	}
}

// pullShares leases what is ready: as equal shares as there are messages for. Of the topics that woke the poll it asks
// for one at least, which tells their lines when more will be ready.
func (s *Scheduler) pullShares(ctx context.Context, p Poll, woken []bool) (found []PulledMessage, err error) {
	ready, bytes := make([]int, len(p.Topics)), p.Bytes
	counts, err := s.PullCounts(ctx, p.Topics, []time.Duration{0})
	for i := range ready {
		if ready[i] = p.Max; err == nil { // else a bucket does not answer
			ready[i] = counts[i].Due[0]
		}
		if woken[i] {
			ready[i] = max(ready[i], 1)
		}
	}
	err = nil
	for i, n := range shares(ready, p.Max) {
		one := p
		one.Topic, one.Topics, one.Wait, one.Max, one.Bytes = p.Topics[i], nil, 0, n, bytes
		if n == 0 || bytes <= 0 {
			continue
		}
		if p.Attempt != 0 {
			one.Attempt = p.Attempt.on(one.Topic)
		}
		got, failed := s.polls.wait(ctx, one)
		if ctx.Err() != nil && failed != nil { // its client is gone
			if p.Attempt == 0 {
				s.GiveBack(ctx, found)
			}
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
func (s *Scheduler) awaitAny(ctx context.Context, topics []string, within time.Duration) (woken []bool) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	woken = make([]bool, len(topics))
	var group sync.WaitGroup
	for i, topic := range topics {
		group.Go(func() {
			_, err := s.polls.wait(ctx, Poll{Topic: topic, Wait: within, stays: true})
			if woken[i] = errors.Is(err, errMaybeReady); woken[i] {
				stop()
			}
		})
	}
	group.Wait()
	return woken
}
