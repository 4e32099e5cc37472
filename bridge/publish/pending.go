package publish

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// pendings holds every publish that was handed to the client and has no outcome yet, and every barrier. An entry leaves
// it once, and whichever goroutine takes it out decides its outcome: an ack, a status, the time-out, a lost connection
// and a permission violation may all race for one message.
//
// There is no channel and no timer per message. Entries live in slots that are reused; a token names the slot and its
// generation, so that a late answer to an earlier message in the slot finds nothing. All entries wait equally long, so
// the list in order of arrival is the order of time-outs.
type pendings struct {
	timeout time.Duration
	limit   int

	mu    sync.Mutex
	slots []slot
	free  []int32
	head  int32 // the oldest, none when empty
	tail  int32
	count int
	heard []lingering
	idle  bool // the sweeper sleeps until kicked
	kick  chan struct{}
}

// lingering holds publishes that the server has processed. A stream may answer them until the given time.
type lingering struct {
	tokens []token
	until  time.Time
}

// token names an entry: the slot, then its generation in the low bits. The generation is random: a client that knows
// one token cannot guess another.
type token uint64

const (
	slotBits = 18
	genBits  = 42
	maxSlots = 1 << slotBits
	none     = int32(-1)
)

// slot is room for one entry. A free one has no message and no barrier.
type slot struct {
	entry
	used       bool
	prev, next int32
	until      time.Time
}

// entry is a pending publish, or a barrier behind some publishes.
type entry struct {
	message *message.Message
	subject string // the subject it left on: its topic, or a partition of it
	done    func(*message.Message, scheduler.Outcome)
	to      *route  // nil for core
	noReply bool    // it has no reply subject, so no answer is possible
	other   *string // a stream other than to's that answered
	// behind are the publishes whose outcome a barrier decides; nil for a message.
	behind []token
	token  token
}

func newPendings(limit int, timeout time.Duration) *pendings {
	return &pendings{timeout: timeout, limit: min(limit, maxSlots), head: none, tail: none,
		kick: make(chan struct{}, 1)}
}

// add makes an entry; it returns false when the table is full.
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
	s.entry, s.used, s.until = e, true, now.Add(p.timeout)
	s.token = token(i)<<genBits | token(rand.Uint64()&(1<<genBits-1))
	s.prev, s.next = p.tail, none
	if p.tail == none {
		p.head = i
	} else {
		p.slots[p.tail].next = i
	}
	p.tail = i
	p.count++
	if p.idle {
		p.kickLocked()
	}
	return s.token, true
}

func (p *pendings) kickLocked() {
	p.idle = false
	scheduler.Signal(p.kick)
}

// take takes an entry out; it returns false when the entry is gone already.
func (p *pendings) take(t token) (entry, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takeLocked(t)
}

// ackFate is the treatment of a stream's answer.
type ackFate int

const (
	ackLate  ackFate = iota // its publish is no longer pending
	ackOther                // from another stream than the expected one, which may still answer
	ackTaken
)

// takeAcked takes out the message that the answer of the stream belongs to. An error may lack the stream's name.
func (p *pendings) takeAcked(t token, stream []byte) (entry, ackFate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.holdsLocked(t) {
		return entry{}, ackLate
	}
	e := &p.slots[t>>genBits].entry
	switch {
	case e.message == nil:
		return entry{}, ackOther
	case e.to != nil && e.to.stream != string(stream) && e.to.stream != "" && len(stream) > 0:
		other := string(stream)
		e.other = &other
		return entry{}, ackOther
	}
	taken, _ := p.takeLocked(t)
	return taken, ackTaken
}

// takeBarrier takes out a barrier and returns its round-trip time; it returns false for a message.
func (p *pendings) takeBarrier(t token, now time.Time) (e entry, trip time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.holdsLocked(t) || p.slots[t>>genBits].behind == nil {
		return entry{}, 0, false
	}
	trip = now.Sub(p.slots[t>>genBits].until) + p.timeout
	e, ok = p.takeLocked(t)
	return e, trip, ok
}

// takeHeard takes out the entries of those tokens that the rule selects, and leaves the others for as long as a stream
// may answer.
func (p *pendings) takeHeard(tokens []token, until time.Time, rule func(*entry) bool) (taken []entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken = make([]entry, 0, len(tokens))
	linger := tokens[:0]
	for _, t := range tokens {
		if !p.holdsLocked(t) {
			continue
		}
		if !rule(&p.slots[t>>genBits].entry) {
			linger = append(linger, t)
		} else if e, ok := p.takeLocked(t); ok {
			taken = append(taken, e)
		}
	}
	if len(linger) > 0 {
		if n := len(p.heard); n > 0 && until.Before(p.heard[n-1].until) {
			until = p.heard[n-1].until // overdue expects them in order of time
		}
		// The sweeper may sleep until a later time-out.
		if p.heard = append(p.heard, lingering{tokens: linger, until: until}); len(p.heard) == 1 {
			p.kickLocked()
		}
	}
	return taken
}

// takeAll takes out the entries of the tokens that are still there.
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

// takeWhere takes out every entry that the rule selects.
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

// overdue takes out the entries whose time-out has passed at now, and the publishes that the server processed and no
// stream answered in time. It returns the time until the next one. If no entry is left that is 0, and kick signals the
// next entry.
func (p *pendings) overdue(now time.Time) (taken, heard []entry, next time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.heard) > 0 && !p.heard[0].until.After(now) {
		for _, t := range p.heard[0].tokens {
			if e, ok := p.takeLocked(t); ok {
				heard = append(heard, e)
			}
		}
		p.heard[0] = lingering{}
		p.heard = p.heard[1:]
	}
	for p.head != none {
		s := &p.slots[p.head]
		if next = s.until.Sub(now); next > 0 {
			break
		}
		e, _ := p.takeLocked(s.token)
		taken = append(taken, e)
	}
	switch {
	case len(p.heard) > 0:
		if first := p.heard[0].until.Sub(now); next <= 0 || first < next {
			next = first
		}
	case p.head == none:
		p.idle, p.heard, next = true, nil, 0
	}
	return taken, heard, next
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

// Tokens end the reply subjects of publishes: six bits a character, in characters that are valid in every subject.
const tokenAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"

const tokenLen = (slotBits + genBits) / 6

// appendToken appends t to b, always with tokenLen characters.
func appendToken(b []byte, t token) []byte {
	for shift := slotBits + genBits - 6; shift >= 0; shift -= 6 {
		b = append(b, tokenAlphabet[t>>shift&63])
	}
	return b
}

// parseToken is the inverse of appendToken.
func parseToken(s string) (t token, ok bool) {
	if len(s) != tokenLen {
		return 0, false
	}
	for i := range tokenLen {
		c := s[i]
		var v token
		switch {
		case '0' <= c && c <= '9':
			v = token(c - '0')
		case 'A' <= c && c <= 'Z':
			v = token(c-'A') + 10
		case 'a' <= c && c <= 'z':
			v = token(c-'a') + 36
		case c == '-':
			v = 62
		case c == '_':
			v = 63
		default:
			return 0, false
		}
		t = t<<6 | v
	}
	return t, true
}
