package ops

import (
	"context"
	"errors"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Named names one message: by its uid, or by its own id, alone or on a topic and within a key.
type Named struct {
	ID    string  `json:"id"`
	Topic string  `json:"topic" in:"query"` // empty: any
	Key   *string `json:"key" in:"query"`   // nil: any; a message's key may be empty
}

// get answers with a message, live or remembered.
func (o *Ops) get(ctx context.Context, by *Caller, in *Named) (*Info, error) {
	ref, err := by.Ref(in)
	if err != nil {
		return nil, err
	}
	info, err := o.Service.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	if !by.MaySee() { // a caller that may only push sees its message's outcome
		info.Headers, info.Body = nil, nil
	} else if !info.State.Kept() {
		o.addContent(ctx, &info)
	}
	by.Version = info.Version
	return new(InfoOf(&info)), nil
}

// contentWithin bounds how long the journal is asked for a content, without which the answer is whole but for that.
const contentWithin = time.Second

// addContent adds headers and body of a message that has ended, of which the store keeps neither and the journal both.
func (o *Ops) addContent(ctx context.Context, info *message.Info) {
	if o.Journal == nil {
		return
	}
	ctx, stop := context.WithTimeout(ctx, contentWithin)
	defer stop()
	if r, err := o.Journal.Whole(ctx, info.UID); err == nil {
		info.Headers, info.Body = r.Headers, r.Body
	}
}

// cancel cancels a message and answers with the actual outcome.
func (o *Ops) cancel(ctx context.Context, by *Caller, in *Named) (*Canceled, error) {
	ref, err := by.Ref(in)
	if err != nil {
		return nil, err
	}
	var result scheduler.CancelResult
	if ref, err = o.Permitted(ctx, by, ref); err == nil {
		result, err = o.Service.Cancel(ctx, ref)
	}
	if err != nil && !errors.Is(err, scheduler.ErrUnknownID) { // Cancel answers the zero result with this error
		return nil, err
	}
	result.Info.IntakeUnknown = result.Info.IntakeUnknown || errors.Is(err, scheduler.ErrInIntake)
	canceled, refused := Cancel(in.ID, &result)
	return orRefused(&canceled, refused)
}

// orRefused returns an answer, or a problem as an error.
func orRefused[T any](answer *T, p *Problem) (*T, error) {
	if p != nil {
		return nil, &Refused{*p}
	}
	return answer, nil
}

// Reschedule changes one waiting message.
type Reschedule struct {
	Named
	Version uint64 `json:"version" in:"header If-Match"` // that the message must have, or 0 for any
	scheduler.Edit
}

func (in *Reschedule) check() error {
	if in.At == nil && in.Delay == nil && in.Shift == nil && in.Priority == nil && in.Headers == nil && in.Body == nil {
		return &wire.Error{Word: WordNoChange, Field: "reschedule",
			Detail: "changes nothing; want at least one of delay, at, shift, priority, body and headers"}
	}
	return checkWhen(&in.Edit)
}

// checkWhen refuses an edit with more than one due time.
func checkWhen(e *scheduler.Edit) error {
	if e.At != nil && (e.Delay != nil || e.Shift != nil) || e.Delay != nil && e.Shift != nil {
		return &wire.Error{Word: wire.WordDelayAndAt, Field: wire.FieldDelay,
			Detail: "and at and shift exclude each other; want one of them"}
	}
	return nil
}

// reschedule changes a waiting message and answers with the actual outcome.
func (o *Ops) reschedule(ctx context.Context, by *Caller, in *Reschedule) (*Rescheduled, error) {
	if err := by.mayEdit(in.Headers != nil, in.Body != nil); err != nil {
		return nil, err
	}
	in.Edit.Version, in.Fit = in.Version, o.Limits()
	return o.amend(ctx, by, &in.Named, in.Edit)
}

// Run makes one waiting message due now.
type Run struct {
	Named
	Version uint64 `json:"version" in:"header If-Match"`
}

// run makes a waiting message due at once.
func (o *Ops) run(ctx context.Context, by *Caller, in *Run) (*Rescheduled, error) {
	return o.amend(ctx, by, &in.Named, scheduler.Edit{Run: true, Version: in.Version})
}

func (o *Ops) amend(ctx context.Context, by *Caller, in *Named, e scheduler.Edit) (*Rescheduled, error) {
	ref, err := by.Ref(in)
	if err == nil {
		ref, err = o.Permitted(ctx, by, ref)
	}
	if err != nil {
		return nil, err
	}
	result, err := o.Service.Reschedule(ctx, ref, e)
	if err != nil {
		return nil, err
	}
	by.Version = result.Info.Version // also after a refusal: it saves the look-up
	amended, refused := Amend(in.ID, &result)
	return orRefused(&amended, refused)
}

// Release frees a message that a consumer holds.
type Release struct {
	Named
	Reason string `json:"reason"`
}

// release frees a message that a consumer holds, and answers with the message as it is now and who held it.
func (o *Ops) release(ctx context.Context, by *Caller, in *Release) (*Info, error) {
	ref, err := by.Ref(&in.Named)
	if err != nil {
		return nil, err
	}
	o.Begin(ctx, by.Audit("release", false).Str("id", in.ID))
	if ref, err = o.Permitted(ctx, by, ref); err != nil {
		return nil, err
	}
	info, err := o.Service.Release(ctx, ref, in.Reason)
	info.Headers, info.Body = nil, nil
	return new(InfoOf(&info)), err
}

// RestoreOne restores one message.
type RestoreOne struct {
	Named
	DryRun bool `json:"dry_run"`
}

// restoreOne restores one message, whether or not it is already due.
func (o *Ops) restoreOne(ctx context.Context, by *Caller, in *RestoreOne) (*record.RestoreReport, error) {
	ref, err := by.Ref(&in.Named)
	if err != nil {
		return nil, err
	}
	o.Begin(ctx, by.Audit("restore", in.DryRun).Str("id", in.ID))
	if ref.UID == "" || ref.Topic != "" { // a question, which takes nothing of the time of the restore
		asking, enough := context.WithTimeout(ctx, o.Timeout)
		defer enough()
		if ref.UID, err = o.Journal.Resolve(asking, ref); err != nil {
			return nil, Unanswered("journal", err)
		}
	}
	ctx, stop := context.WithTimeout(ctx, o.Timeout)
	defer stop()
	report, err := o.Journal.Restore(ctx, record.RestoreRequest{UID: ref.UID, Overdue: true, DryRun: in.DryRun}, nil)
	if err == nil && report.Read == 0 {
		err = scheduler.ErrUnknownID
	}
	report.DryRun = in.DryRun
	return &report, err
}
