package publish

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// hidden records what answers reveal about subjects that the list of streams lacks, or shows under another stream: the
// server maps them to other subjects, or their stream lies in another domain or account or was created a moment ago. A
// stream's answer is the only sign of that.
//
// The answer arrives after the barrier of a core publish, so a subject counts as core only if no stream has answered
// within some time after a publish. The result is kept for a while, so that the outcomes of later messages need not
// wait. The announcement of any change of streams discards the subjects found to be core. The server sends it after it
// has created the stream, so for that moment a message that its listener has received counts as delivered although the
// new stream may have refused it.
//
// Both maps are bounded. A forgotten result is determined again.
type hidden struct {
	some atomic.Bool // held has entries

	mu   sync.Mutex
	core map[string]time.Time // subject → when it was found to be core
	held map[string]*heldBy   // subject → the stream that answers there
	// blind reports that new streams are not announced, so that nothing counts as core for long.
	blind bool
}

type heldBy struct {
	route
	answered time.Time
}

const (
	hiddenMax    = 10_000
	coreLife     = time.Minute
	heldLife     = 10 * time.Minute // without an answer
	graceLeast   = 100 * time.Millisecond
	graceTimes   = 10 // round trips to the server and back
	graceDivisor = 4  // of the publish time-out, at most
)

// grace returns how long a core publish waits for the answer of a stream after its barrier, which took the given trip.
func grace(trip, timeout time.Duration) time.Duration {
	return min(max(graceLeast, graceTimes*trip), timeout/graceDivisor)
}

// route returns the stream that answered on the subject, or nil.
func (h *hidden) route(subject string) *route {
	if !h.some.Load() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if by := h.held[subject]; by != nil {
		return &by.route
	}
	return nil
}

// answered records that a stream answered on the subject. stream is empty if the answer is an error without the name.
func (h *hidden) answered(subject, stream string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.core, subject)
	by := h.held[subject]
	switch {
	case by == nil && len(h.held) >= hiddenMax:
		clear(h.held)
		fallthrough
	case by == nil, by.stream != stream && stream != "":
		// The lane is the subject's own: any subscriber can name any stream in an answer, and must not be able to hold
		// back that stream's messages.
		by = &heldBy{route: route{stream: stream, lane: message.LaneCore.Lane(subject), hidden: true}}
		if h.held == nil {
			h.held = map[string]*heldBy{}
		}
		h.held[subject] = by
		h.some.Store(true)
	}
	by.answered = now
}

// silent records that a stream which had answered on the subject no longer does. It may be unreachable, so it is
// forgotten only after a while.
func (h *hidden) silent(subject string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if by := h.held[subject]; by != nil && now.Sub(by.answered) > heldLife {
		h.dropLocked(subject)
	}
}

func (h *hidden) dropLocked(subject string) {
	delete(h.held, subject)
	h.some.Store(len(h.held) > 0)
}

// listed forgets the results that a new list settles: streams that are gone from it, and subjects that are listed under
// their stream.
func (h *hidden) listed(next *routes, gone map[string]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for subject, by := range h.held {
		if to := next.match(subject); gone[by.stream] || to != nil && to.stream == by.stream {
			h.dropLocked(subject)
		}
	}
}

// isCore reports whether the subject was recently found to be core.
func (h *hidden) isCore(subject string, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := h.core[subject]
	return ok && now.Sub(at) < coreLife
}

// foundCore records that nothing answered on the subject in time.
func (h *hidden) foundCore(subject string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.blind || h.held[subject] != nil {
		return
	}
	if h.core == nil || len(h.core) >= hiddenMax {
		h.core = make(map[string]time.Time)
	}
	h.core[subject] = now
}

// doubt forgets which subjects are core, because the streams changed, or because one may have answered after a subject
// was found to be core.
func (h *hidden) doubt() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.core)
}

// noNews records that the server does not announce new streams.
func (h *hidden) noNews() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.blind = true
	clear(h.core)
}
