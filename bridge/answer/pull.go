package answer

import (
	"net/http"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// WordNotLeased answers a release of a message that no consumer holds.
const WordNotLeased = "not_leased"

// WordLeaseLost answers a receipt whose lease no longer holds, or never did.
const WordLeaseLost = "lease_lost"

// verbs are the verbs of the scheduler by the words of the routes.
var verbs = map[string]scheduler.Verb{wire.VerbAck: scheduler.Ack, wire.VerbNack: scheduler.Nack,
	wire.VerbDead: scheduler.Bury, wire.VerbExtend: scheduler.Extend, wire.VerbRelease: scheduler.Release}

// Settlement converts a settlement of the lease of a receipt into the scheduler's form.
func Settlement(verb string, r wire.Receipt, s *wire.Settlement) scheduler.Settlement {
	return scheduler.Settlement{Verb: verbs[verb], Delay: s.Delay, HasDelay: s.HasDelay, Lease: s.Lease, Reason: s.Reason,
		Receipt: scheduler.Receipt{UID: message.UID(r.UID), Nonce: scheduler.Nonce(r.Nonce), Topic: r.Topic}}
}

// Settled returns the answer to a settlement, or the problem that its lease does not hold.
func Settled(uid string, r *scheduler.Settled) (wire.Settled, *wire.Problem) {
	i := &r.Info
	if r.Code == scheduler.SettleLost {
		p := &wire.Problem{Status: http.StatusConflict, Word: WordLeaseLost,
			Detail: "the lease is not in force: it ended, was settled in another way, or never existed", UID: uid}
		if i.State != message.StateNone {
			p.State, p.At = i.State.String(), wire.FormatTime(int64(i.EndedAt))
		}
		return wire.Settled{}, p
	}
	a := wire.Settled{UID: uid, State: i.State.String(), Version: i.Version,
		Duplicate: r.Code == scheduler.SettleAgain, LeaseUntil: wire.FormatTime(int64(r.Until))}
	if i.State == message.StateWaiting {
		a.Due = wire.FormatTime(int64(i.Due))
	}
	return a, nil
}

// Pulled returns a leased message as its consumer gets it, at a time by the clock that bounds its lease.
func Pulled(m *scheduler.PulledMessage, now message.Milli) wire.Pulled {
	p := wire.Pulled{ID: m.ID, Receipt: wire.Receipt{UID: string(m.UID), Nonce: uint64(m.Nonce), Topic: m.Topic},
		Key: m.Key, Body: m.Body, Priority: m.Priority, Due: int64(m.Due), Attempt: m.Attempt + m.Mark.Refusals,
		LeaseUntil: int64(m.Until), LeaseMS: int64(m.Until - now)}
	if p.ID == "" {
		p.ID = string(m.UID)
	}
	p.Headers = make([]wire.Header, len(m.Headers))
	for i, h := range m.Headers {
		p.Headers[i] = wire.Header(h)
	}
	return p
}
