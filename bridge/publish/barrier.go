package publish

import (
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/scheduler"
)

// barriers holds the barriers that came back before nats.go reported an error that the server had sent ahead of them.
//
// If a core publish lacks permission, the server refuses it with -ERR, in order with everything else. nats.go reads the
// refusal before the barrier and remembers it as the connection's last error, but it calls the error handler from
// another goroutine. The barrier may therefore arrive before that call. A barrier that finds a last error which the
// handler has not seen waits for the handler. It looks under mu, so that the handler can see nothing meanwhile. Handler
// calls are ordered, so once it has seen that error it has seen all earlier ones, and the publishes that they refused
// are out of the table. If it is never called, the time-out of the messages ends the wait, and no barrier waits
// for that error again.
//
// Only a violation that is immediately followed by another kind of error, like a slow consumer, could be overlooked; a
// connection used by the Publisher alone has no such errors.
type barriers struct {
	timeout time.Duration

	mu      sync.Mutex
	seen    error // the last one the handler was called with
	waiting []held
}

type held struct {
	behind []token
	trip   time.Duration // the barrier's round trip
	on     error
	since  time.Time
}

// passes reports whether the outcome of the publishes behind a barrier can be decided now; if not, it keeps them until
// the handler has been called with the last error.
func (b *barriers) passes(behind []token, trip time.Duration, lastError func() error, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := lastError()
	if len(b.waiting) > 0 && now.Sub(b.waiting[0].since) > b.timeout {
		b.seen, b.waiting = b.waiting[0].on, nil
	}
	if b.seen == last || !errors.Is(last, nats.ErrPermissionViolation) { // the very same error, not its kind
		return true
	}
	b.waiting = append(b.waiting, held{behind: behind, trip: trip, on: last, since: now})
	return false
}

// start marks an error from before the first barrier as seen.
func (b *barriers) start(last error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = last
}

// saw records that the handler was called with err and returns the barriers that waited for it.
func (b *barriers) saw(err error) (free []held) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = err
	rest := b.waiting[:0]
	for _, h := range b.waiting {
		if h.on == err { // the very same error, not its kind
			free = append(free, h)
		} else {
			rest = append(rest, h)
		}
	}
	clear(b.waiting[len(rest):])
	b.waiting = rest
	return free
}

// forget drops the waiting barriers: the connection is gone, and with it the messages.
func (b *barriers) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = nil
}

// passed decides the outcome of the publishes behind a barrier: at once if the subject is known to be core, else after
// the time that a stream may take to answer.
func (p *Publisher) passed(behind []token, trip time.Duration) {
	now := time.Now()
	subject, known := "", false // consecutive messages often have the same subject
	heard := p.pending.takeHeard(behind, now.Add(grace(trip, p.cfg.Timeout)), func(e *entry) bool {
		if e.subject != subject {
			subject, known = e.subject, p.hidden.isCore(e.subject, now)
		}
		return known || e.noReply
	})
	p.resolve(heard, scheduler.Outcome{Kind: scheduler.Delivered})
}

// asyncError is called by nats.go with errors that the server reports outside of an answer. If the server denies a
// subject, asyncError at once refuses the publishes that wait on it.
func (p *Publisher) asyncError(err error) {
	if d, ok := parseDenied(err); ok {
		p.denied(d, err)
	}
	for _, h := range p.barriers.saw(err) {
		p.passed(h.behind, h.trip)
	}
}

func (p *Publisher) denied(d denied, err error) {
	refused := scheduler.Outcome{Kind: scheduler.Refused, Err: err}
	switch {
	case d.verb == "Publish":
		p.resolve(
			p.pending.takeWhere(func(e *entry) bool { return e.message != nil && e.subject == d.subject }), refused)
	case d.verb == "Publish with Reply" && len(d.subject) > len(p.inbox) && d.subject[:len(p.inbox)] == p.inbox:
		if t, ok := parseToken(d.subject[len(p.inbox):]); ok {
			p.resolve(p.pending.takeAll([]token{t}, nil), refused)
		}
	case d.verb == "Subscription" && d.subject == link.Advisories:
		p.hidden.noNews()
	case d.verb == "Subscription" && d.subject == p.inbox+"*":
		p.deaf.Store(true)
		p.log.Error().Str("subject", p.inbox+"*").Msg(
			"nats does not let this user listen for answers; nothing can be delivered")
		p.resolve(p.pending.takeWhere(func(*entry) bool { return true }),
			scheduler.Outcome{Kind: scheduler.Unknown, Err: err})
	}
}
