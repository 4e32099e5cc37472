package lead

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// flight holds the messages of a bucket that this leader has claimed and that have neither ended nor returned yet. It
// also notices that the store may hold claims that it does not know, because a reply was lost.
type flight struct {
	doubt atomic.Bool // the store may hold claims that messages does not

	mu       sync.Mutex
	messages map[message.UID]*message.Message
	weight   int       // total size of the bodies
	strange  int       // polls in a row that saw more claims than messages
	compared time.Time // when claims were last compared one by one
}

const (
	// strangePolls is how many polls in a row must see more claims in the store than in memory before the claims are
	// compared one by one. A claim on its way looks the same for a moment.
	strangePolls = 5
	// comparePause is how long a claim that Redis executed late may go unnoticed under a load in which memory always
	// holds more messages than the store has claims.
	comparePause = 30 * time.Second
)

func newFlight() *flight {
	return &flight{messages: map[message.UID]*message.Message{}, compared: time.Now()}
}

func (f *flight) add(claimed []*message.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range claimed {
		if earlier := f.messages[m.UID]; earlier != nil { // returned; the settler does not know yet
			f.weight -= len(earlier.Body)
		}
		f.messages[m.UID] = m
		f.weight += len(m.Body)
	}
}

// drop removes n claims. A message that was returned may be claimed again already: that claim has another number and
// stays.
func (f *flight) drop(n int, claim func(int) (message.UID, uint64)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range n {
		uid, number := claim(i)
		if m := f.messages[uid]; m != nil && m.Claim == number {
			delete(f.messages, uid)
			f.weight -= len(m.Body)
		}
	}
}

// load returns how many messages are in flight, and the size of their bodies.
func (f *flight) load() (messages, bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.messages), f.weight
}

// compare compares the store's number of claims with memory and returns how many messages are in flight here. If the
// store has more claims for a while, a reply was lost.
func (f *flight) compare(claimed int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.strange++
	if claimed <= len(f.messages) {
		f.strange = 0
	}
	if f.strange >= strangePolls || time.Since(f.compared) > comparePause {
		f.doubt.Store(true)
	}
	return len(f.messages)
}

// lost returns the claims of the store that are not known here. Their messages were never handed to NATS, so their
// marks stay.
func (f *flight) lost(held []scheduler.Held) (lost []scheduler.Back) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range held {
		if m := f.messages[h.UID]; m == nil || m.Claim != h.Claim {
			lost = append(lost, scheduler.Back{UID: h.UID, Claim: h.Claim, Keep: true})
		}
	}
	return lost
}

// reconciled ends the doubt, once the claims have been compared one by one.
func (f *flight) reconciled() {
	f.mu.Lock()
	f.strange, f.compared = 0, time.Now()
	f.mu.Unlock()
	f.doubt.Store(false)
}
