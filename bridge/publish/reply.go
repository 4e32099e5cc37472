package publish

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/scheduler"
)

const statusNobody = "503" // no responders

// reply handles everything that arrives on our inbox: acknowledgements, "no responders", barriers, and unsolicited
// answers of consumers to the reply subject.
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
		} else if status := msg.Header[link.HeaderStatus]; len(status) == 1 && status[0] == statusNobody {
			p.nobody(t)
		}
		return
	}
	ack, ok := parsePubAck(msg.Data)
	if !ok {
		return
	}
	e, fate := p.pending.takeAcked(t, ack.stream)
	switch fate {
	case ackTaken:
		p.acked(&e, &ack)
	case ackLate: // perhaps a stream's, on a subject that counts as core
		p.hidden.doubt()
		p.wish()
	case ackOther:
		p.wish()
	}
}

// acked resolves a message with the outcome that a stream decided. If the stream was not known before, its refusal
// makes the outcome unknown, because other subscribers may have received the message.
func (p *Publisher) acked(e *entry, ack *pubAck) {
	if e.to == nil || e.to.hidden {
		p.hidden.answered(e.subject, string(ack.stream), time.Now())
	}
	if e.to == nil && ack.err != nil {
		p.wish()
		err := fmt.Errorf("publish to %s: a stream that is not among the listed ones: %w", e.subject, ack.err)
		p.resolve([]entry{*e}, scheduler.Outcome{Kind: scheduler.Unknown, Err: err})
		return
	}
	if ack.err != nil {
		kind, surprise := classify(ack.err)
		if surprise {
			p.wish()
		}
		p.metrics.outcomes[kind].Inc()
		e.done(e.message, scheduler.Outcome{Kind: kind, Err: fmt.Errorf("publish to %s: %w", e.subject, ack.err),
			Unvouched: len(ack.stream) == 0})
		return
	}
	o := scheduler.Outcome{Kind: scheduler.Delivered, Sequence: ack.sequence, Duplicate: ack.duplicate}
	if e.to != nil && string(ack.stream) == e.to.stream {
		o.Stream = e.to.stream
	} else {
		o.Stream = string(ack.stream)
		p.wish() // another stream holds the subject now
	}
	p.metrics.outcomes[scheduler.Delivered].Inc()
	e.done(e.message, o)
}

// nobody handles "no responders": on core there is no listener, and nothing was delivered; an expected stream is
// unreachable. The server's word cannot be told from that of a subscriber of the stream's subject, who may answer
// before the stream does.
func (p *Publisher) nobody(t token) {
	e, ok := p.pending.take(t)
	if !ok || e.message == nil {
		return
	}
	outcome := scheduler.Outcome{Kind: scheduler.NoListener, Err: fmt.Errorf("publish to %s: %w", e.subject, errNobody)}
	if e.to != nil {
		p.wish()
		outcome = scheduler.Outcome{Kind: scheduler.Unanswered, Unvouched: true,
			Err: fmt.Errorf("publish to %s: stream %s is away: %w", e.subject, e.to.stream, errNobody)}
	}
	p.resolve([]entry{e}, outcome)
}

// cameBack handles a barrier that came back: the server has processed everything sent before it.
func (p *Publisher) cameBack(t token) {
	now := time.Now()
	e, trip, ok := p.pending.takeBarrier(t, now)
	if ok && p.barriers.passes(e.behind, trip, p.nc.LastError, now) {
		p.passed(e.behind, trip)
	}
}
