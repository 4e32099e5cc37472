package bridge

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/scheduler"
)

const (
	headerStatus = "Status"
	statusNobody = "503" // no responders
)

// reply handles everything that arrives on our inbox: acknowledgements, "no
// responders", barriers, and what consumers answer to the reply subject, which
// nobody asked them to.
func (p *Publisher) reply(msg *nats.Msg) {
	if len(msg.Subject) < len(p.inbox) {
		return
	}
	t, ok := parseToken(msg.Subject[len(p.inbox):])
	if !ok {
		return
	}
	if len(msg.Data) == 0 {
		if msg.Header == nil {
			p.cameBack(t)
		} else if status := msg.Header[headerStatus]; len(status) == 1 && status[0] == statusNobody {
			p.nobody(t)
		}
		return
	}
	ack, ok := parsePubAck(msg.Data)
	if !ok {
		return
	}
	e, ok := p.pending.takeAcked(t, ack.err == nil)
	if !ok {
		p.wish() // late, or of a stream that was not known
		return
	}
	p.acked(&e, &ack)
}

// acked gives a message the outcome that a stream decided.
func (p *Publisher) acked(e *entry, ack *pubAck) {
	if ack.err != nil {
		kind, surprise := classify(ack.err)
		if surprise {
			p.wish()
		}
		p.metrics.count(kind, 1)
		e.done(e.message, scheduler.Outcome{Kind: kind, Err: fmt.Errorf("publish to %s: %w", e.subject, ack.err)})
		return
	}
	o := scheduler.Outcome{Kind: scheduler.Delivered, Sequence: ack.sequence, Duplicate: ack.duplicate}
	if e.to != nil && string(ack.stream) == e.to.stream {
		o.Stream = e.to.stream
	} else {
		o.Stream = string(ack.stream)
		p.wish() // another stream holds the subject now
	}
	p.metrics.count(scheduler.Delivered, 1)
	e.done(e.message, o)
}

// nobody handles "no responders": on core nobody listens; where a stream
// should have been it is away. Nothing was stored or delivered.
func (p *Publisher) nobody(t token) {
	e, ok := p.pending.take(t)
	if !ok || e.message == nil {
		return
	}
	outcome := scheduler.Outcome{Kind: scheduler.NoListener, Err: fmt.Errorf("publish to %s: %w", e.subject, errNobody)}
	if e.to != nil {
		p.wish()
		outcome = scheduler.Outcome{Kind: scheduler.Unanswered, Err: fmt.Errorf("publish to %s: stream %s is away: %w", e.subject, e.to.stream, errNobody)}
	}
	p.resolve([]entry{e}, outcome)
}

// cameBack handles a barrier: the server has seen everything sent before it.
func (p *Publisher) cameBack(t token) {
	e, ok := p.pending.takeBarrier(t)
	if ok && p.barriers.passes(e.behind, p.nc.LastError(), time.Now()) {
		p.passed(e.behind)
	}
}
