package tarry

import (
	"context"
	"sync"
)

// gatherer carries the calls of many callers in few requests. While one request of a kind is on its way, further calls
// of that kind gather, and the next request carries them all. A call that comes alone goes at once, so nobody waits for
// company.
type gatherer[Q, A any] struct {
	// send makes one request for as many of the calls as it holds, tells each its outcome, and returns how many it has
	// dealt with.
	send func(kind string, all []*call[Q, A]) int

	mu sync.Mutex
	// waiting are, by kind with a request on its way, those that go with the next one.
	waiting map[string][]*call[Q, A]
}

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
	if !busy {
		g.send(kind, []*call[Q, A]{one})
		if next := g.next(kind); len(next) > 0 {
			go g.sendAll(kind, next) // ends once nobody waits
		}
	}
	select {
	case r := <-one.heard:
		return r.answer, r.err
	case <-ctx.Done():
		var none A
		return none, ctx.Err()
	}
}

// next takes those who wait. If nobody does, the kind has no request on its way.
func (g *gatherer[Q, A]) next(kind string) []*call[Q, A] {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.waiting[kind]
	if g.waiting[kind] = nil; len(all) == 0 {
		delete(g.waiting, kind)
	}
	return all
}

// sendAll sends until nobody waits. What a caller no longer waits for is left out.
func (g *gatherer[Q, A]) sendAll(kind string, all []*call[Q, A]) {
	for ; len(all) > 0; all = g.next(kind) {
		var open []*call[Q, A]
		for _, one := range all {
			if one.ctx.Err() == nil {
				open = append(open, one)
			}
		}
		for len(open) > 0 {
			open = open[g.send(kind, open):]
		}
	}
}
