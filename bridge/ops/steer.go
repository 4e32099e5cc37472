package ops

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Amend returns the answer to a change of the message named id, or the problem that prevented it.
func Amend(id string, r *scheduler.AmendResult) (Rescheduled, *Problem) {
	i := &r.Info
	switch r.Code {
	case scheduler.AmendDone:
		durable := ""
		if i.Bare {
			durable = DurableRedis
		}
		return Rescheduled{
			ID: name(i), UID: string(i.UID), State: i.State.String(), Due: FormatTime(int64(i.Due)),
			Version:  i.Version,
			Priority: i.Priority, Topic: i.Topic, Durable: durable,
		}, nil
	case scheduler.AmendInFlight:
		return Rescheduled{}, inFlight(id, i)
	case scheduler.AmendMaybe:
		return Rescheduled{}, conflict(id, i, WordMaybeDelivered,
			"an attempt with an unknown outcome may have reached a consumer; nothing was changed")
	case scheduler.AmendVersion:
		p := conflict(id, i, WordVersion, fmt.Sprintf("the message has the version %d; nothing was changed", i.Version))
		p.Status, p.Version = http.StatusPreconditionFailed, i.Version
		return Rescheduled{}, p
	case scheduler.AmendEnded:
		return Rescheduled{}, ended(id, i)
	}
	p := unknown(id, i)
	return Rescheduled{}, &p
}

// Requeued returns the answer to a requeue of the dead message that ref names. An unknown outcome carries the id to ask
// again with (requeueing is idempotent), and the uid under which the new message waits if it was made.
func Requeued(ref scheduler.Ref, a scheduler.Accepted) Result {
	r := Accepted(a, "")
	if r.Problem != nil && r.Problem.Word == WordOutcomeUnknown {
		r.Problem.ID = cmp.Or(string(ref.UID), ref.ID)
	}
	return r
}

// ReportOf returns the answer to an operation on many messages.
func ReportOf(r scheduler.Report, dryRun bool) Report {
	return Report{dryRun, r, intake(r.IntakeUnknown)}
}

// Stopped returns the problem that stopped an operation on many messages early, with a report of what it had done.
func Stopped(r scheduler.Report, dryRun bool, err error) Problem {
	p := ProblemOf(err)
	p.Report = new(ReportOf(r, dryRun))
	return p
}

// verbs are the verbs of the scheduler by the words of the routes.
var verbs = map[string]scheduler.Verb{VerbAck: scheduler.Ack, VerbNack: scheduler.Nack,
	VerbDead: scheduler.Bury, VerbExtend: scheduler.Extend, VerbRelease: scheduler.Release}

// SettlementOf converts a settlement of the lease of a receipt into the scheduler's form.
func SettlementOf(verb string, r Receipt, s *Settlement) scheduler.Settlement {
	one := scheduler.Settlement{Verb: verbs[verb], Delay: s.Delay, Lease: s.Lease, Reason: s.Reason,
		Receipt: scheduler.Receipt{UID: message.UID(r.UID), Nonce: scheduler.Nonce(r.Nonce), Topic: r.Topic}}
	if one.Verb == scheduler.Nack {
		one.Reason, one.Said = "", s.Reason
	}
	return one
}

// SettledOf returns the answer to a settlement, or the problem that its lease does not hold.
func SettledOf(uid string, r *scheduler.Settled) (Settled, *Problem) {
	i := &r.Info
	if r.Code == scheduler.SettleLost {
		p := &Problem{Status: http.StatusConflict, Word: WordLeaseLost,
			Detail: "the lease is not in force: it ended, was settled in another way, or never existed", UID: uid}
		if i.State != message.StateNone {
			p.State, p.At = i.State.String(), FormatTime(int64(i.EndedAt))
		}
		return Settled{}, p
	}
	if r.Unjournaled {
		return Settled{}, &Problem{Status: http.StatusGatewayTimeout, Word: WordNotJournaled, UID: uid,
			State: i.State.String(), Version: i.Version,
			Detail: "it is settled, and the journal does not have that yet; once it does, the same again is answered with 200"}
	}
	a := Settled{UID: uid, State: i.State.String(), Version: i.Version,
		Duplicate: r.Code == scheduler.SettleAgain, LeaseUntil: FormatTime(int64(r.Until))}
	if i.State == message.StateWaiting {
		a.Due = FormatTime(int64(i.Due))
	}
	return a, nil
}

// PulledOf returns a leased message as its consumer gets it, at a time by the clock that bounds its lease.
func PulledOf(m *scheduler.PulledMessage, now message.Milli) Pulled {
	p := Pulled{ID: cmp.Or(m.ID, string(m.UID)),
		Receipt: Receipt{UID: string(m.UID), Nonce: uint64(m.Nonce), Topic: m.Topic}, Key: m.Key, Body: m.Body,
		Priority: m.Priority, Due: int64(m.Due), Attempt: m.Attempt + m.Mark.Refusals,
		LeaseUntil: int64(m.Until), LeaseMS: int64(m.Until - now)}
	p.Headers = make([]wire.Header, len(m.Headers))
	for i, h := range m.Headers {
		p.Headers[i] = wire.Header(h)
	}
	return p
}
