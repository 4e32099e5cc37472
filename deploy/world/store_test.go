package world_test

import (
	"context"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// flaky is a store whose calls an instance cannot rely on: some are refused, of some the reply is lost, and some are
// executed long after the caller stopped waiting.
type flaky struct {
	scheduler.Timeline
	w *world
}

// unsure makes a call as the world decides.
func unsure[T any](f *flaky, ctx context.Context, do func(ctx context.Context) (T, error)) (T, error) {
	var none T
	ctx = context.WithoutCancel(ctx)
	switch f.w.fate() {
	case refused:
		return none, scheduler.ErrUnavailable
	case lost:
		_, _ = do(ctx)
		return none, scheduler.ErrOutcomeUnknown
	case late:
		after := f.w.below(3 * time.Second)
		time.AfterFunc(after, func() { _, _ = do(ctx) })
		return none, scheduler.ErrOutcomeUnknown
	}
	return do(ctx)
}

type added struct {
	results []scheduler.AddResult
	earlier []scheduler.Earlier
}

func (f *flaky) Add(ctx context.Context, bucket message.Bucket, batch []*message.Message,
	now message.Milli) ([]scheduler.AddResult, []scheduler.Earlier, error) {
	a, err := unsure(f, ctx, func(ctx context.Context) (a added, err error) {
		a.results, a.earlier, err = f.Timeline.Add(ctx, bucket, batch, now)
		return a, err
	})
	return a.results, a.earlier, err
}

func (f *flaky) Cancel(ctx context.Context, uid message.UID, now message.Milli) (scheduler.CancelResult, error) {
	return unsure(f, ctx, func(ctx context.Context) (scheduler.CancelResult, error) {
		return f.Timeline.Cancel(ctx, uid, now)
	})
}

func (f *flaky) Amend(ctx context.Context, a scheduler.Amend, now message.Milli) (scheduler.AmendResult, error) {
	return unsure(f, ctx, func(ctx context.Context) (scheduler.AmendResult, error) {
		return f.Timeline.Amend(ctx, a, now)
	})
}

func (f *flaky) Claim(ctx context.Context, bucket message.Bucket, req scheduler.Claim) (scheduler.Claimed, error) {
	return unsure(f, ctx, func(ctx context.Context) (scheduler.Claimed, error) {
		return f.Timeline.Claim(ctx, bucket, req)
	})
}

func (f *flaky) Finish(ctx context.Context, bucket message.Bucket, term uint64, ends []scheduler.End,
	now message.Milli) (scheduler.Effect, error) {
	return unsure(f, ctx, func(ctx context.Context) (scheduler.Effect, error) {
		return f.Timeline.Finish(ctx, bucket, term, ends, now)
	})
}

func (f *flaky) Return(ctx context.Context, bucket message.Bucket, term uint64, back []scheduler.Back,
	now message.Milli) (scheduler.Effect, error) {
	return unsure(f, ctx, func(ctx context.Context) (scheduler.Effect, error) {
		return f.Timeline.Return(ctx, bucket, term, back, now)
	})
}

type settled struct {
	all  []scheduler.Settled
	made scheduler.Effect
}

func (f *flaky) Settle(ctx context.Context, bucket message.Bucket, term uint64, items []scheduler.Settle,
	now message.Milli) ([]scheduler.Settled, scheduler.Effect, error) {
	s, err := unsure(f, ctx, func(ctx context.Context) (s settled, err error) {
		s.all, s.made, err = f.Timeline.Settle(ctx, bucket, term, items, now)
		return s, err
	})
	return s.all, s.made, err
}
