package world_test

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// bus lets one call go on at a time: of a store, a database, NATS, ZooKeeper, or of a user. When everything in the
// bubble waits, the seed picks the call that goes on, so the order of two calls is the seed's and not the runtime's.
//
// Between two calls goroutines run in the order of the runtime. It draws which of two ready cases a select takes and
// which of two timers of one instant fires first. With deploy/world/run.sh these draws are the seed's too.
type bus struct {
	rnd  *rand.Rand
	news chan struct{} // capacity 1: somebody waits, or may go on

	mu      sync.Mutex
	waiting []*turn
	line    uint64   // a sum of the trace
	trace   []string // while traced
	traced  bool
	steps   int
}

// turn is one call's.
type turn struct {
	p    *process // nil for what belongs to no process
	what string
	roll *rand.Rand // what becomes of the call is drawn from it
	on   chan struct{}
	dead bool // its process is
}

func newBus(seed uint64) *bus {
	return &bus{rnd: rand.New(rand.NewPCG(seed, 3)), news: make(chan struct{}, 1)}
}

// enter returns when the call may go on.
func (b *bus) enter(p *process, what string) *turn {
	t := &turn{p: p, what: what, on: make(chan struct{})}
	b.mu.Lock()
	if t.dead = p.isDead(); !t.dead {
		b.waiting = append(b.waiting, t)
	}
	b.mu.Unlock()
	if t.dead {
		return t
	}
	b.look()
	<-t.on
	return t
}

// note adds to the trace what the seed decided.
func (b *bus) note(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.traced {
		b.trace = append(b.trace, "    "+what)
	}
}

// look has the bus look at who waits.
func (b *bus) look() {
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// run lets calls go on until over is closed.
func (b *bus) run(over <-chan struct{}) {
	for {
		select {
		case <-b.news:
		case <-over:
			return
		}
		for synctest.Wait(); b.next(); synctest.Wait() {
		}
	}
}

// next lets one call go on, and reports whether there was one.
func (b *bus) next() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	able := make([]*turn, 0, len(b.waiting))
	for _, t := range b.waiting {
		if t.dead = t.p.isDead(); t.dead || !t.p.isFrozen() {
			able = append(able, t)
		}
	}
	if len(able) == 0 {
		return false
	}
	slices.SortStableFunc(able, func(a, c *turn) int {
		return cmp.Or(cmp.Compare(a.p.id(), c.p.id()), cmp.Compare(a.what, c.what))
	})
	t := able[b.rnd.IntN(len(able))]
	t.roll = rand.New(rand.NewPCG(b.rnd.Uint64(), 4))
	b.waiting = slices.DeleteFunc(b.waiting, func(other *turn) bool { return other == t })
	sum := fnv.New64a()
	step := fmt.Sprint(time.Now().UnixMicro(), " ", t.p.id(), " ", t.what)
	fmt.Fprint(sum, b.line, step)
	b.line = sum.Sum64()
	b.steps++
	if b.traced {
		b.trace = append(b.trace, step)
	}
	close(t.on)
	return true
}
