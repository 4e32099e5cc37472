package tarry

import (
	"context"
	"slices"
	"sync"
	"time"
)

// gatherer carries the calls of many callers in few requests. While one request of a kind is on its way, further calls
// of that kind gather, and the next request carries them all. A call that comes alone goes at once, so nobody waits for
// company; nor does anybody wait for an answer that takes long: what has waited for holdMost goes in a request beside.
type gatherer[Q, A any] struct {
	// fits returns how many of the calls one request holds, at least one.
	fits func(all []*call[Q, A]) int
	// send makes one request for all of the calls and tells each its outcome.
	send func(kind string, all []*call[Q, A])

	mu sync.Mutex
	// waiting are, by kind with a request on its way, those that go with the next one.
	waiting map[string][]*call[Q, A]
}

// holdMost bounds how long a call waits for the answer to a request before it. Without a journal answers come sooner.
const holdMost = 20 * time.Millisecond

// call is what one caller asks.
type call[Q, A any] struct {
	ctx   context.Context // of the caller
	ask   Q
	heard chan reply[A] // capacity 1
}

type reply[A any] struct {
	answer A
	err    error
}

func (c *call[Q, A]) tell(answer A, err error) { c.heard <- reply[A]{answer, err} }

// do makes a call. If ctx ends first, the call may be on its way.
func (g *gatherer[Q, A]) do(ctx context.Context, kind string, ask Q) (A, error) {
	one := &call[Q, A]{ctx, ask, make(chan reply[A], 1)}
	g.mu.Lock()
	waiting, busy := g.waiting[kind]
	if busy {
		waiting = append(waiting, one)
	} else if g.waiting == nil {
		g.waiting = map[string][]*call[Q, A]{}
	}
	g.waiting[kind] = waiting
	g.mu.Unlock()
	var held <-chan time.Time
	if busy {
		held = time.After(holdMost)
	} else {
		g.send(kind, []*call[Q, A]{one})
		if next := g.next(kind, true); len(next) > 0 {
			go g.sendAll(kind, next) // ends once nobody waits
		}
	}
	for {
		select {
		case r := <-one.heard:
			return r.answer, r.err
		case <-held:
			if g.waits(kind, one) {
				go g.sendOnce(kind, g.next(kind, false))
			}
		case <-ctx.Done():
			var none A
			return none, ctx.Err()
		}
	}
}

// waits reports whether a call is in no request yet.
func (g *gatherer[Q, A]) waits(kind string, one *call[Q, A]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.waiting[kind], one)
}

// next takes those who wait. free says that no request of the kind is on its way if nobody does.
func (g *gatherer[Q, A]) next(kind string, free bool) []*call[Q, A] {
	g.mu.Lock()
	defer g.mu.Unlock()
	all, busy := g.waiting[kind]
	switch {
	case len(all) > 0:
		g.waiting[kind] = nil
	case busy && free:
		delete(g.waiting, kind)
	}
	return all
}

// sendAll sends until nobody waits.
func (g *gatherer[Q, A]) sendAll(kind string, all []*call[Q, A]) {
	for ; len(all) > 0; all = g.next(kind, true) {
		g.sendOnce(kind, all)
	}
}

// sendOnce sends calls in as many requests as they need, beside each other. What a caller no longer waits for is left
// out.
func (g *gatherer[Q, A]) sendOnce(kind string, all []*call[Q, A]) {
	all = slices.DeleteFunc(all, func(one *call[Q, A]) bool { return one.ctx.Err() != nil })
	var requests sync.WaitGroup
	for len(all) > 0 {
		n := g.fits(all)
		part := all[:n:n]
		requests.Go(func() { g.send(kind, part) })
		all = all[n:]
	}
	requests.Wait()
}
