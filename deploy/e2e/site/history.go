package site

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
const SeqHeader = "X-Seq"

// Sent is a message as the load pushed it, and the answer.
type Sent struct {
	Seq     int
	subject string
	stream  bool // a stream holds the subject
	Body    []byte
	header  nats.Header // the user's, without tags
	Id, Key string

	pushed    time.Time // when its push began
	NotBefore time.Time // no consumer may see it earlier
	notAfter  time.Time // its due time is not later; zero where that is not known
	Kept      bool      // the push was acknowledged
	KeptAt    time.Time // when that was known
	Uid       string    // as answered; empty if the answer has none
	Due       int64     // as answered, unix ms; 0 if the answer has none
}

// Canceled is the answer to one cancel. The word is empty when none came.
type Canceled struct {
	Seq   int
	Begun time.Time
	At    time.Time // of the answer
	Word  string
}

// OkCancel is the word of a cancel that was answered OK.
const OkCancel = "canceled"

// Arrival is a message as a consumer got it.
type Arrival struct {
	Seq     int // -1: it is none of ours
	At      time.Time
	Subject string
	header  nats.Header
	Body    []byte
	Stored  uint64 // its sequence in the stream; 0 on core NATS
}

// Window is when a duplicate can be the fault of what was done to the system.
type Window struct {
	Why      string
	From, to time.Time       // to is zero while it is open
	Recorded map[string]bool // Nats-Msg-Ids of what must not arrive again
	Lost     bool            // the store lost what it had answered: see outrunLocked
}

// leading is one leadership, as logged.
type leading struct {
	instance string
	term     uint64
	at       time.Time
}

// History is all that happened. Many goroutines write it; it is read when they are done.
type History struct {
	ns       string // the namespace whose messages these are
	Mu       sync.Mutex
	Sent     map[int]*Sent
	canceled []Canceled
	Arrivals []Arrival
	windows  []Window
	Leaders  []leading
	killed   []time.Time // when nats-server was killed: see sparedLocked
	Lossy    bool        // acknowledged messages may have been lost, boundedly
	kept     int
	seen     map[int]bool
	waiting  map[chan Arrival]func(Arrival) bool
}

func NewHistory(ns string) *History {
	return &History{ns: ns, Sent: map[int]*Sent{}, seen: map[int]bool{}, waiting: map[chan Arrival]func(Arrival) bool{}}
}

// Pushed records a message before it is pushed, so that no arrival can be faster.
func (h *History) Pushed(s *Sent) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	s.pushed, h.Sent[s.Seq] = time.Now(), s
}

// Acknowledged records the answer to the push of s.
func (h *History) Acknowledged(s *Sent, uid string, due int64, notAfter time.Time) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	s.Kept, s.KeptAt, s.Uid, s.Due, s.notAfter = true, time.Now(), uid, due, notAfter
	h.kept++
}

func (h *History) Cancel(c Canceled) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.canceled = append(h.canceled, c)
}

// arrived records what a consumer got.
func (h *History) arrived(subject string, header nats.Header, body []byte, stored uint64) {
	a := Arrival{Seq: -1, At: time.Now(), Subject: subject, header: header, Body: body, Stored: stored}
	if seq, err := strconv.Atoi(header.Get(SeqHeader)); err == nil {
		a.Seq = seq
	}
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.Arrivals = append(h.Arrivals, a)
	h.seen[a.Seq] = true
	for c, match := range h.waiting {
		if match(a) {
			c <- a // it has room for the one
			delete(h.waiting, c)
		}
	}
}

// next waits for the next arrival that matches.
func (h *History) next(ctx context.Context, match func(Arrival) bool) (Arrival, error) {
	c := make(chan Arrival, 1)
	h.Mu.Lock()
	h.waiting[c] = match
	h.Mu.Unlock()
	select {
	case a := <-c:
		return a, nil
	case <-ctx.Done():
		return Arrival{}, context.Cause(ctx)
	}
}

// Open begins a window; close ends it.
func (h *History) Open(why string, from time.Time) (closed func()) {
	return h.Begin(Window{Why: why, From: from})
}

func (h *History) Begin(w Window) (closed func()) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	i := len(h.windows)
	h.windows = append(h.windows, w)
	return func() {
		h.Mu.Lock()
		defer h.Mu.Unlock()
		h.windows[i].to = time.Now()
	}
}

// Missing is how many messages that must arrive have not yet.
func (h *History) Missing() (n int, example *Sent) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	spared := h.sparedLocked()
	for seq, s := range h.Sent {
		if s.Kept && !h.seen[seq] && !spared[seq] {
			n, example = n+1, s
		}
	}
	return n, example
}

// NatsDies records that nats-server is killed now.
func (h *History) NatsDies() {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.killed = append(h.killed, time.Now())
}

// coreInFlight is how long before its server is killed a core message may have been on the way to its consumer.
const coreInFlight = 500 * time.Millisecond

func (h *History) diedWithNATSLocked(s *Sent) bool {
	return !s.stream && slices.ContainsFunc(h.killed, func(at time.Time) bool {
		since := at.Sub(s.NotBefore)
		return since >= 0 && since < coreInFlight
	})
}

// outrunLocked reports whether the journal may lack the acceptance of a message, though it has later changes of it: the
// store lost the outbox in which the acceptance waited for the drainer, or the fence of the recovery refused it, after
// another writer had journaled a delivery. If nobody answered its push, the journal may have nothing of it.
func (h *History) outrunLocked(s *Sent) bool {
	return s != nil && slices.ContainsFunc(h.windows, func(w Window) bool { return w.Lost && s.pushed.Before(w.to) })
}

// lostAfterLocked reports whether the store lost something at or after a time of the journal's. It answers for rows
// that lack the acceptance and with it the content, of which nobody can tell which push they are.
func (h *History) lostAfterLocked(at int64) bool {
	return slices.ContainsFunc(h.windows, func(w Window) bool { return w.Lost && time.UnixMilli(at).Before(w.to) })
}

// anewLocked reports whether a message may have come under another uid than that of its answer: the store lost what a
// first try of the push had done before the journal had it, and nobody had answered that try.
func (h *History) anewLocked(s *Sent) bool {
	return slices.ContainsFunc(h.windows, func(w Window) bool {
		return w.Lost && s.pushed.Before(w.to) && (!s.Kept || s.KeptAt.After(w.From))
	})
}

// LostWithNATS are the accepted messages that a killed nats-server took along.
func (h *History) LostWithNATS() (uids []string) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	for seq, s := range h.Sent {
		if s.Kept && s.Uid != "" && !h.seen[seq] && h.diedWithNATSLocked(s) {
			uids = append(uids, s.Uid)
		}
	}
	return uids
}

// sparedLocked are messages that need not arrive: canceled or perhaps canceled; and on core those that were due just
// before nats-server was killed. It had answered for them, and died with what it had not yet written to the consumer:
// core NATS keeps nothing. The load cancels without a topic, so that no tombstone is left.
func (h *History) sparedLocked() map[int]bool {
	spared := map[int]bool{}
	for seq, s := range h.Sent {
		spared[seq] = h.diedWithNATSLocked(s)
	}
	for _, c := range h.canceled {
		switch {
		case c.Word == "in_flight", c.Word == "already_delivered", c.Word == "unavailable": // nothing was done: it must
		case (c.Word == "unknown_id" || c.Word == "in_intake") && !h.Lossy:
			// by tag: it had not been accepted yet, and must arrive later
		default:
			spared[c.Seq] = true
		}
	}
	return spared
}

// Counts are how many messages were kept and how many arrivals came.
func (h *History) Counts() (kept, arrivals int) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	return h.kept, len(h.Arrivals)
}

// Snapshot is a copy whose records may be changed one by one.
func (h *History) Snapshot() *History {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	c := NewHistory(h.ns)
	for seq, s := range h.Sent {
		one := *s
		c.Sent[seq] = &one
	}
	c.canceled = append(c.canceled, h.canceled...)
	for _, a := range h.Arrivals {
		a.header = maps.Clone(a.header)
		c.Arrivals = append(c.Arrivals, a)
	}
	c.windows = append(c.windows, h.windows...)
	c.Leaders = append(c.Leaders, h.Leaders...)
	c.killed = append(c.killed, h.killed...)
	c.Lossy = h.Lossy
	return c
}
