package answer

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// Edit is a change of a waiting message as the scheduler takes it. Headers and body are shared where they can be.
func Edit(e *wire.Edit) scheduler.Edit {
	s := scheduler.Edit{
		HasAt: e.HasAt, Delay: e.Delay, HasDelay: e.HasDelay, Shift: e.Shift, HasShift: e.HasShift,
		Priority: e.Priority, HasPriority: e.HasPriority,
		Headers: headers(e.Headers), HasHeaders: e.HasHeaders, Body: e.Body, HasBody: e.HasBody, Version: e.Version,
	}
	if e.HasAt {
		s.At = scheduler.CeilMilli(e.At)
	}
	return s
}

// Amend answers the change of the message called id, or what stands in its way.
func Amend(id string, r *scheduler.AmendResult) (wire.Rescheduled, *wire.Problem) {
	i := &r.Info
	switch r.Code {
	case scheduler.AmendDone:
		return wire.Rescheduled{
			ID: name(i), UID: string(i.UID), State: i.State.String(), Due: wire.FormatTime(int64(i.Due)),
			Version:  i.Version,
			Priority: i.Priority, Topic: i.Topic,
		}, nil
	case scheduler.AmendInFlight:
		return wire.Rescheduled{}, inFlight(id, i)
	case scheduler.AmendMaybe:
		return wire.Rescheduled{}, conflict(id, i, WordMaybeDelivered,
			"an attempt with an unknown outcome may have reached a consumer; nothing was changed")
	case scheduler.AmendVersion:
		p := conflict(id, i, WordVersion, fmt.Sprintf("the message has the version %d; nothing was changed", i.Version))
		p.Status, p.Version = http.StatusPreconditionFailed, i.Version
		return wire.Rescheduled{}, p
	case scheduler.AmendEnded:
		return wire.Rescheduled{}, ended(id, i)
	}
	p := Problem(scheduler.ErrUnknownID)
	p.ID = id
	return wire.Rescheduled{}, &p
}

// Selection picks waiting messages as the scheduler takes it, with durations counted from now.
func Selection(s *wire.Selection, now time.Time) (scheduler.Selection, error) {
	sel := scheduler.Selection{Topic: s.Topic, Key: s.Key, HasKey: s.HasKey, DryRun: s.DryRun}
	var from, to time.Time
	if s.HasFrom {
		from = s.From.Ahead(now)
	}
	if s.HasTo {
		to = s.To.Ahead(now)
	}
	return sel, bounds(&sel, from, to, s.HasFrom, s.HasTo, wire.FieldDueFrom, wire.FieldDueTo)
}

// DeadSelection picks dead messages by topic and by when they died, with durations counted back from now.
func DeadSelection(o *wire.DeadOrder, now time.Time) (scheduler.Selection, error) {
	sel := scheduler.Selection{Topic: o.Topic, DryRun: o.DryRun}
	var from, to time.Time
	if o.HasFrom {
		from = o.From.Ago(now)
	}
	if o.HasTo {
		to = o.To.Ago(now)
	}
	if o.HasOlder {
		to = now.Add(-o.Older)
	}
	return sel, bounds(&sel, from, to, o.HasFrom, o.HasTo || o.HasOlder, wire.FieldFrom, wire.FieldTo)
}

// bounds sets the bounds of a selection, in whole milliseconds on the inside of what was asked. A bound before 1970
// must not become 0, which is none.
func bounds(sel *scheduler.Selection, from, to time.Time, hasFrom, hasTo bool, nameFrom, nameTo string) error {
	if hasFrom && hasTo && from.After(to) {
		return &wire.Error{Word: "invalid_" + nameFrom, Field: nameFrom, Detail: "lies after " + nameTo}
	}
	if hasFrom {
		sel.From = max(scheduler.CeilMilli(from), 0)
	}
	if hasTo {
		sel.To = max(scheduler.Milli(to.UnixMilli()), 1)
	}
	return nil
}

// Requeue is how dead messages get another life.
func Requeue(o *wire.DeadOrder) scheduler.Requeue {
	return scheduler.Requeue{Delay: o.Delay, Headers: headers(o.Headers), HasHeaders: o.HasHeaders, Body: o.Body,
		HasBody: o.HasBody}
}

// Requeued answers a requeue of the dead message that ref names. An unknown outcome carries the id to ask again with
// (requeueing is idempotent), and the uid under which the new message waits if it was made.
func Requeued(ref scheduler.Ref, a scheduler.Accepted) wire.Result {
	r := Accepted(a)
	if r.Problem != nil && r.Problem.Word == WordOutcomeUnknown {
		r.Problem.ID = cmp.Or(string(ref.UID), ref.ID)
	}
	return r
}

// Report answers an operation on many.
func Report(r scheduler.Report, dryRun bool) wire.Report {
	return wire.Report{
		DryRun: dryRun, Looked: r.Looked, Matched: r.Matched, Done: r.Done, InFlight: r.InFlight, Maybe: r.Maybe,
		Ended: r.Ended, Failed: r.Failed,
	}
}

// Stopped is why an operation on many ended before it had come to the end, with what was done until then.
func Stopped(r scheduler.Report, dryRun bool, err error) wire.Problem {
	p := Problem(err)
	report := Report(r, dryRun)
	p.Report = &report
	return p
}
