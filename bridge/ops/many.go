package ops

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// A long operation may read the whole journal. It has no time-out: it ends when it is done, when its client goes away
// or when the instance stops.

// exclusive lets few operations of a kind run at a time.
type exclusive struct {
	what  string
	turns chan struct{}
}

func newExclusive(what string, most int) exclusive { return exclusive{what, make(chan struct{}, most)} }

// manyAtOnce is how many operations on many messages of a kind may run at a time. Each makes a few dozen changes in the
// store at once.
const manyAtOnce = 4

// long runs an operation, unless as many as may of its kind are running, and returns its report, which form completes.
func long[R any](ctx context.Context, by *Caller, kind exclusive, form func(*R) any,
	do func(ctx context.Context, progress func(R)) (R, error)) (any, error) {
	select {
	case kind.turns <- struct{}{}:
	default:
		return nil, Refuse(http.StatusConflict, WordAlreadyRunning,
			"a %s is running on this instance already, and no more than %d may at a time; wait for its end", kind.what,
			cap(kind.turns))
	}
	var progress func(R)
	if by.Long != nil {
		var tell func(any)
		var end func()
		ctx, tell, end = by.Long(ctx)
		defer end()
		if tell != nil {
			progress = func(report R) { tell(form(&report)) }
			progress(*new(R))
		}
	}
	defer func() { <-kind.turns }() // it is over before its report is complete: the client may start the next
	report, err := do(ctx, progress)
	if known := (*Refused)(nil); !errors.As(err, &known) {
		err = cause(ctx, err)
	}
	return form(&report), err
}

// cause returns why an operation ended. If its context ended, that is the cause, even if the operation returned another
// error.
func cause(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() == nil:
		return err
	case errors.Is(context.Cause(ctx), scheduler.ErrStopping):
		return scheduler.ErrStopping
	}
	return context.Canceled
}

// An operation on many messages works in bounded steps and is long. However it ends, its answer reports its progress,
// and so does its audit line, which remains even if the client has gone. An operation on everything by mistake is worse
// than a refusal, so it has to be requested explicitly: {"all":true}.

// Selection selects waiting messages for an operation on many. Without a topic, a key and a bound it is refused unless
// it says all.
type Selection struct {
	Topic   string  `json:"topic" as:"pattern"` // empty: all
	Key     *string `json:"key"`
	DueFrom *When   `json:"due_from"` // bounds, both inclusive; a duration counts from now on
	DueTo   *When   `json:"due_to"`
	// AcceptedTo leaves out what was accepted later, so that an act takes no more than was counted before it. A duration
	// counts back from now.
	AcceptedTo *When `json:"accepted_to"`
	All        bool  `json:"all"`
	DryRun     bool  `json:"dry_run"`
}

func (s *Selection) check() error {
	if s.Topic == "" && s.Key == nil && s.DueFrom == nil && s.DueTo == nil && !s.All {
		return &wire.Error{Word: WordSelection, Field: "selection",
			Detail: `is empty; want a topic, a key or a bound of due, or "all":true for every message`}
	}
	if s.Key != nil && *s.Key != "" {
		if err := wire.CheckKey(*s.Key); err != nil {
			return err
		}
	}
	return checkRange(s.DueFrom, s.DueTo, FieldDueFrom, FieldDueTo)
}

// checkRange refuses bounds with nothing between them, where that can be decided without a clock.
func checkRange(from, to *When, fieldFrom, fieldTo string) error {
	if from != nil && to != nil && from.Relative == to.Relative && (from.Span > to.Span || from.At.After(to.At)) {
		return wire.Invalid(fieldFrom, "lies after "+fieldTo)
	}
	return nil
}

// selection returns a selection in the scheduler's form, with durations counted from now.
func (s *Selection) selection(now time.Time) (sel scheduler.Selection, err error) {
	sel = scheduler.Selection{Topic: s.Topic, DryRun: s.DryRun}
	if s.Key != nil {
		sel.Key, sel.HasKey = *s.Key, true
	}
	var from, to *time.Time
	if s.DueFrom != nil {
		from = new(s.DueFrom.Ahead(now))
	}
	if s.DueTo != nil {
		to = new(s.DueTo.Ahead(now))
	}
	if s.AcceptedTo != nil {
		sel.AcceptedTo = max(message.Milli(s.AcceptedTo.Ago(now).UnixMilli()), 1)
	}
	return sel, bounds(&sel, from, to, FieldDueFrom, FieldDueTo)
}

// bounds sets the bounds of a selection, rounded inward to whole milliseconds. A bound before 1970 must not become 0,
// which means no bound.
func bounds(sel *scheduler.Selection, from, to *time.Time, nameFrom, nameTo string) error {
	if from != nil && to != nil && from.After(*to) {
		return wire.Invalid(nameFrom, "lies after "+nameTo)
	}
	if from != nil {
		sel.From = max(message.CeilMilli(*from), 0)
	}
	if to != nil {
		sel.To = max(message.Milli(to.UnixMilli()), 1)
	}
	return nil
}

// counted works through a selection and counts.
type counted func(ctx context.Context, progress func(scheduler.Report)) (scheduler.Report, error)

// cancelMany cancels the waiting messages that are selected.
func (o *Ops) cancelMany(ctx context.Context, by *Caller, in *Selection) (any, error) {
	selected, err := in.selection(o.Now())
	if err != nil {
		return nil, err
	}
	return o.many(ctx, by, o.canceling, "cancel", selected,
		func(ctx context.Context, progress func(scheduler.Report)) (scheduler.Report, error) {
			return o.Service.CancelMany(ctx, selected, progress)
		})
}

// RescheduleMany moves the selected messages.
type RescheduleMany struct {
	Selection
	At    *message.Milli `json:"at"`
	Delay *time.Duration `json:"delay"`
	Shift *time.Duration `json:"shift"`
}

func (in *RescheduleMany) edit() scheduler.Edit {
	return scheduler.Edit{At: in.At, Delay: in.Delay, Shift: in.Shift}
}

func (in *RescheduleMany) check() error {
	if err := in.Selection.check(); err != nil {
		return err
	}
	if in.At == nil && in.Delay == nil && in.Shift == nil {
		return &wire.Error{Word: WordNoChange, Field: "reschedule",
			Detail: "changes nothing; want one of delay, at and shift"}
	}
	return checkWhen(new(in.edit()))
}

// rescheduleMany moves the waiting messages that are selected.
func (o *Ops) rescheduleMany(ctx context.Context, by *Caller, in *RescheduleMany) (any, error) {
	selected, err := in.selection(o.Now())
	if err != nil {
		return nil, err
	}
	return o.many(ctx, by, o.rescheduling, "reschedule", selected,
		func(ctx context.Context, progress func(scheduler.Report)) (scheduler.Report, error) {
			return o.Service.RescheduleMany(ctx, selected, in.edit(), progress)
		})
}

// many runs an operation on the selected messages.
func (o *Ops) many(ctx context.Context, by *Caller, kind exclusive, what string, selected scheduler.Selection,
	do counted) (any, error) {
	line := by.Audit(what, selected.DryRun).Str("topic", selected.Topic)
	if selected.HasKey {
		line.Str("key", selected.Key)
	}
	if selected.Cause != "" {
		line.Str("cause", selected.Cause)
	}
	line.time("accepted_to", int64(selected.AcceptedTo))
	line.time("from", int64(selected.From))
	line.time("to", int64(selected.To))
	o.Begin(ctx, line)
	form := func(r *scheduler.Report) any { return ReportOf(*r, selected.DryRun) }
	return long(ctx, by, kind, form, func(ctx context.Context, progress func(scheduler.Report)) (scheduler.Report, error) {
		report, err := do(ctx, progress)
		// logged too, because the caller may have gone
		line.Int("matched", report.Matched).Int("done", report.Done).Int("failed", report.Failed)
		if !errors.Is(err, scheduler.ErrOutcomeUnknown) {
			err = cause(ctx, err)
		}
		if err != nil { // the caller should learn how much was done
			err = fmt.Errorf("%w: %w", err, &Refused{Stopped(report, selected.DryRun, err)})
		}
		return report, err
	})
}
