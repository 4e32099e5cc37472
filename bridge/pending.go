package bridge

import (
	"sync"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
)

// pendings holds every publish that was handed to the client and has no
// outcome yet, and every barrier. An entry leaves it once, and who takes it out
// answers for it: an ack, a status, the time-out, a lost connection and a
// permission violation may all race for one message.
//
// There is no channel and no timer per message. Entries live in slots that are
// used again; a token names the slot and its generation, so that a late answer
// to an earlier message in the slot finds nothing. All entries wait equally
// long, so the list in order of arrival is the order of time-outs.
type pendings struct {
	timeout time.Duration
	limit   int

	mu    sync.Mutex
	slots []slot
	free  []int32
	head  int32 // the oldest, none when empty
	tail  int32
	count int
	idle  bool // the sweeper sleeps until kicked
	kick  chan struct{}
}

// token names an entry: the slot, then its generation in the low bits.
type token uint64

const (
	slotBits = 18
	genBits  = 30
	maxSlots = 1 << slotBits
	none     = int32(-1)
)

// slot is room for one entry. A free one has no message and no barrier.
type slot struct {
	entry
	gen        uint32
	used       bool
	prev, next int32
	until      time.Time
}

// entry is a publish under way, or a barrier behind some.
type entry struct {
	message *scheduler.Message
	subject string // it left on: its topic, or a partition of that
	done    func(*scheduler.Message, scheduler.Outcome)
	to      *route // nil for core
	// behind are the publishes that a barrier answers for; nil for a message.
	behind []token
	token  token
}

func newPendings(limit int, timeout time.Duration) *pendings {
	return &pendings{timeout: timeout, limit: min(limit, maxSlots), head: none, tail: none, kick: make(chan struct{}, 1)}
}

// add makes an entry; false when the table is full.
func (p *pendings) add(e entry, now time.Time) (token, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count >= p.limit {
		return 0, false
	}
	var i int32
	if n := len(p.free); n > 0 {
		i = p.free[n-1]
		p.free = p.free[:n-1]
	} else {
		i = int32(len(p.slots)) // below maxSlots, since count is below limit
		p.slots = append(p.slots, slot{})
	}
	s := &p.slots[i]
	s.gen = (s.gen + 1) & (1<<genBits - 1)
	s.entry, s.used, s.until = e, true, now.Add(p.timeout)
	s.token = token(i)<<genBits | token(s.gen)
	s.prev, s.next = p.tail, none
	if p.tail == none {
		p.head = i
	} else {
		p.slots[p.tail].next = i
	}
	p.tail = i
	p.count++
	if p.idle {
		p.idle = false
		select {
		case p.kick <- struct{}{}:
		default:
		}
	}
	return s.token, true
}

// take takes an entry out; false when it is gone already.
func (p *pendings) take(t token) (entry, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takeLocked(t)
}

// takeAcked takes out the message that a stream's answer belongs to. On core
// only a stored message counts: a refusal could be anybody's text.
func (p *pendings) takeAcked(t token, stored bool) (entry, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.holdsLocked(t) {
		return entry{}, false
	}
	if e := &p.slots[t>>genBits].entry; e.message == nil || e.to == nil && !stored {
		return entry{}, false
	}
	return p.takeLocked(t)
}

// takeBarrier takes out a barrier; false for a message.
func (p *pendings) takeBarrier(t token) (entry, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.holdsLocked(t) || p.slots[t>>genBits].behind == nil {
		return entry{}, false
	}
	return p.takeLocked(t)
}

// takeAll takes those of the tokens out that are still there.
func (p *pendings) takeAll(tokens []token, into []entry) []entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range tokens {
		if e, ok := p.takeLocked(t); ok {
			into = append(into, e)
		}
	}
	return into
}

// takeWhere takes every entry out that the rule names.
func (p *pendings) takeWhere(rule func(*entry) bool) []entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	var taken []entry
	for i := p.head; i != none; {
		s := &p.slots[i]
		i = s.next
		if rule(&s.entry) {
			e, _ := p.takeLocked(s.token)
			taken = append(taken, e)
		}
	}
	return taken
}

// overdue takes out what waits no longer at now, and says how long until the
// next entry is overdue. With nothing left it is 0, and kick will tell.
func (p *pendings) overdue(now time.Time) (taken []entry, next time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.head != none {
		s := &p.slots[p.head]
		if next = s.until.Sub(now); next > 0 {
			return taken, next
		}
		e, _ := p.takeLocked(s.token)
		taken = append(taken, e)
	}
	p.idle = true
	return taken, 0
}

// len is the number of entries.
func (p *pendings) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

func (p *pendings) holdsLocked(t token) bool {
	i := int(t >> genBits)
	if i >= len(p.slots) {
		return false
	}
	s := &p.slots[i]
	return s.used && s.token == t
}

func (p *pendings) takeLocked(t token) (entry, bool) {
	if !p.holdsLocked(t) {
		return entry{}, false
	}
	i := int32(t >> genBits)
	s := &p.slots[i]
	if s.prev == none {
		p.head = s.next
	} else {
		p.slots[s.prev].next = s.next
	}
	if s.next == none {
		p.tail = s.prev
	} else {
		p.slots[s.next].prev = s.prev
	}
	e := s.entry
	s.entry, s.used = entry{}, false
	p.free = append(p.free, i)
	p.count--
	return e, true
}
