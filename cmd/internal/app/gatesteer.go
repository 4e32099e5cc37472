package app

import (
	"context"

	"github.com/tarry-mq/tarry/scheduler"
)

// through does it once the gate is open.
func through[T any](g *gate, do func() (T, error)) (T, error) {
	if g.isClosed() {
		var none T
		return none, g.closed()
	}
	return do()
}

// Reschedule changes a waiting message.
func (g *gate) Reschedule(ctx context.Context, ref scheduler.Ref, e scheduler.Edit) (scheduler.AmendResult, error) {
	return through(g, func() (scheduler.AmendResult, error) { return g.service.Reschedule(ctx, ref, e) })
}

// CancelMany cancels what is selected.
func (g *gate) CancelMany(ctx context.Context, sel scheduler.Selection,
	progress func(scheduler.Report)) (scheduler.Report, error) {
	return through(g, func() (scheduler.Report, error) { return g.service.CancelMany(ctx, sel, progress) })
}

// RescheduleMany changes what is selected.
func (g *gate) RescheduleMany(ctx context.Context, sel scheduler.Selection, e scheduler.Edit,
	progress func(scheduler.Report)) (scheduler.Report, error) {
	return through(g, func() (scheduler.Report, error) { return g.service.RescheduleMany(ctx, sel, e, progress) })
}

// Dead lists dead messages.
func (g *gate) Dead(ctx context.Context, topic, cursor string, limit int) ([]scheduler.Info, string, error) {
	if g.isClosed() {
		return nil, "", g.closed()
	}
	return g.service.Dead(ctx, topic, cursor, limit)
}

// RequeueOne gives a dead message another life.
func (g *gate) RequeueOne(ctx context.Context, ref scheduler.Ref, r scheduler.Requeue) (scheduler.Accepted, error) {
	return through(g, func() (scheduler.Accepted, error) { return g.service.RequeueOne(ctx, ref, r) })
}

// RequeueMany does it to all that are selected.
func (g *gate) RequeueMany(ctx context.Context, sel scheduler.Selection, r scheduler.Requeue,
	progress func(scheduler.Report)) (scheduler.Report, error) {
	return through(g, func() (scheduler.Report, error) { return g.service.RequeueMany(ctx, sel, r, progress) })
}

// PurgeOne ends a dead message for good.
func (g *gate) PurgeOne(ctx context.Context, ref scheduler.Ref) error {
	_, err := through(g, func() (struct{}, error) { return struct{}{}, g.service.PurgeOne(ctx, ref) })
	return err
}

// PurgeMany does it to all that are selected.
func (g *gate) PurgeMany(ctx context.Context, sel scheduler.Selection,
	progress func(scheduler.Report)) (scheduler.Report, error) {
	return through(g, func() (scheduler.Report, error) { return g.service.PurgeMany(ctx, sel, progress) })
}

// TopicCount returns the counts of one topic.
func (g *gate) TopicCount(ctx context.Context, topic string) (scheduler.TopicCount, error) {
	return through(g, func() (scheduler.TopicCount, error) { return g.service.TopicCount(ctx, topic) })
}

// TopicCounts returns the counts of a page of topics.
func (g *gate) TopicCounts(ctx context.Context, after string, limit int) ([]scheduler.TopicCount, error) {
	return through(g, func() ([]scheduler.TopicCount, error) { return g.service.TopicCounts(ctx, after, limit) })
}

// Pauses lists what is paused.
func (g *gate) Pauses(ctx context.Context) ([]scheduler.Pause, error) {
	return through(g, func() ([]scheduler.Pause, error) { return g.service.Pauses(ctx) })
}

// ParkedLanes lists what holds messages back.
func (g *gate) ParkedLanes(ctx context.Context) ([]scheduler.Parked, error) {
	return through(g, func() ([]scheduler.Parked, error) { return g.service.ParkedLanes(ctx) })
}

// ParkedTopics says why messages of topics are held back.
func (g *gate) ParkedTopics(ctx context.Context, topics []string) (map[string]string, error) {
	return through(g, func() (map[string]string, error) { return g.service.ParkedTopics(ctx, topics) })
}

// Pause holds a pattern of topics back.
func (g *gate) Pause(ctx context.Context, pattern, by string) (inEffect bool, err error) {
	return through(g, func() (bool, error) { return g.service.Pause(ctx, pattern, by) })
}

// Resume lets it go again.
func (g *gate) Resume(ctx context.Context, pattern string) (was, inEffect bool, err error) {
	if g.isClosed() {
		return false, false, g.closed()
	}
	return g.service.Resume(ctx, pattern)
}
