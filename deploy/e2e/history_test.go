package e2e_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// The header by which the harness knows its messages again.
const seqHeader = "X-Seq"

// sent is a message as the load pushed it, and the answer.
type sent struct {
	seq     int
	subject string
	stream  bool // a stream holds the subject
	body    []byte
	header  nats.Header // the user's, without tags
	id, key string

	notBefore time.Time // no consumer may see it earlier
	notAfter  time.Time // its due time is not later; zero where that is not known
	kept      bool      // the push was acknowledged
	keptAt    time.Time // when that was known
	uid       string    // as answered; empty if the answer has none
	due       int64     // as answered, unix ms; 0 if the answer has none
}

// canceled is the answer to one cancel. The word is empty when none came.
type canceled struct {
	seq  int
	at   time.Time // of the answer
	word string
}

// okCancel is the word of a cancel that was answered OK.
const okCancel = "canceled"

// arrival is a message as a consumer got it.
type arrival struct {
	seq     int // -1: it is none of ours
	at      time.Time
	subject string
	header  nats.Header
	body    []byte
	stored  uint64 // its sequence in the stream; 0 on core NATS
}

// window is when a duplicate can be the fault of what was done to the system.
type window struct {
	why      string
	from, to time.Time // to is zero while it is open
	since    time.Time // what was first seen before this must not arrive again; zero: anything may
}

// leading is one leadership, as logged.
type leading struct {
	instance string
	term     uint64
	at       time.Time
}

// history is all that happened. Many goroutines write it; it is read when they are done.
type history struct {
	ns       string // the namespace whose messages these are
	mu       sync.Mutex
	sent     map[int]*sent
	canceled []canceled
	arrivals []arrival
	windows  []window
	leaders  []leading
	killed   []time.Time // when nats-server was killed: see sparedLocked
	lossy    bool        // acknowledged messages may have been lost, boundedly
	kept     int
	seen     map[int]bool
	waiting  map[chan arrival]func(arrival) bool
}

func newHistory(ns string) *history {
	return &history{ns: ns, sent: map[int]*sent{}, seen: map[int]bool{}, waiting: map[chan arrival]func(arrival) bool{}}
}

// pushed records a message before it is pushed, so that no arrival can be faster.
func (h *history) pushed(s *sent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent[s.seq] = s
}

// acknowledged records the answer to the push of s.
func (h *history) acknowledged(s *sent, uid string, due int64, notAfter time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.kept, s.keptAt, s.uid, s.due, s.notAfter = true, time.Now(), uid, due, notAfter
	h.kept++
}

func (h *history) cancel(c canceled) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.canceled = append(h.canceled, c)
}

// arrived records what a consumer got.
func (h *history) arrived(subject string, header nats.Header, body []byte, stored uint64) {
	a := arrival{seq: -1, at: time.Now(), subject: subject, header: header, body: body, stored: stored}
	if seq, err := strconv.Atoi(header.Get(seqHeader)); err == nil {
		a.seq = seq
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.arrivals = append(h.arrivals, a)
	h.seen[a.seq] = true
	for c, match := range h.waiting {
		if match(a) {
			c <- a // it has room for the one
			delete(h.waiting, c)
		}
	}
}

// next waits for the next arrival that matches.
func (h *history) next(ctx context.Context, match func(arrival) bool) (arrival, error) {
	c := make(chan arrival, 1)
	h.mu.Lock()
	h.waiting[c] = match
	h.mu.Unlock()
	select {
	case a := <-c:
		return a, nil
	case <-ctx.Done():
		return arrival{}, context.Cause(ctx)
	}
}

// open begins a window; close ends it.
func (h *history) open(why string, from time.Time) (closed func()) {
	return h.begin(window{why: why, from: from})
}

func (h *history) begin(w window) (closed func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := len(h.windows)
	h.windows = append(h.windows, w)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.windows[i].to = time.Now()
	}
}

// missing is how many messages that must arrive have not yet.
func (h *history) missing() (n int, example *sent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	spared := h.sparedLocked()
	for seq, s := range h.sent {
		if s.kept && !h.seen[seq] && !spared[seq] {
			n, example = n+1, s
		}
	}
	return n, example
}

// natsDies records that nats-server is killed now.
func (h *history) natsDies() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.killed = append(h.killed, time.Now())
}

// coreInFlight is how long before its server is killed a core message may have been on the way to its consumer.
const coreInFlight = 500 * time.Millisecond

func (h *history) diedWithNATSLocked(s *sent) bool {
	return !s.stream && slices.ContainsFunc(h.killed, func(at time.Time) bool {
		since := at.Sub(s.notBefore)
		return since >= 0 && since < coreInFlight
	})
}

// lostWithNATS are the accepted messages that a killed nats-server took along.
func (h *history) lostWithNATS() (uids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for seq, s := range h.sent {
		if s.kept && s.uid != "" && !h.seen[seq] && h.diedWithNATSLocked(s) {
			uids = append(uids, s.uid)
		}
	}
	return uids
}

// sparedLocked are messages that need not arrive: canceled or perhaps canceled; and on core those that were due just
// before nats-server was killed. It had answered for them, and died with what it had not yet written to the consumer:
// core NATS keeps nothing. The load cancels without a topic, so that no tombstone is left.
func (h *history) sparedLocked() map[int]bool {
	spared := map[int]bool{}
	for seq, s := range h.sent {
		spared[seq] = h.diedWithNATSLocked(s)
	}
	for _, c := range h.canceled {
		switch {
		case c.word == "in_flight", c.word == "already_delivered", c.word == "unavailable": // nothing was done: it must
		case c.word == "unknown_id" && !h.lossy: // by tag: it had not been accepted yet, and must arrive later
		default:
			spared[c.seq] = true
		}
	}
	return spared
}

// counts are how many messages were kept and how many arrivals came.
func (h *history) counts() (kept, arrivals int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kept, len(h.arrivals)
}

// snapshot is a copy whose records may be changed one by one.
func (h *history) snapshot() *history {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := newHistory(h.ns)
	for seq, s := range h.sent {
		one := *s
		c.sent[seq] = &one
	}
	c.canceled = append(c.canceled, h.canceled...)
	for _, a := range h.arrivals {
		a.header = maps.Clone(a.header)
		c.arrivals = append(c.arrivals, a)
	}
	c.windows = append(c.windows, h.windows...)
	c.leaders = append(c.leaders, h.leaders...)
	c.killed = append(c.killed, h.killed...)
	c.lossy = h.lossy
	return c
}
