package app

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/lead"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// gate guards the scheduler until the store is prepared, and while the store is not the leader's: nothing may be
// written to, or answered from, a store that may be the wrong one. It blocks the calls rather than an API's routes:
// some routes answer from the journal while the store is unreachable, and need the store only for a part of their
// answer.
type gate struct {
	service *scheduler.Scheduler
	leader  *lead.Leader
	open    atomic.Bool
	same    *sameStore
}

func (g *gate) isClosed() bool { return !g.open.Load() || g.same.other.Load() }

func (g *gate) closed() error {
	if g.same.other.Load() {
		return errOtherStore
	}
	return fmt.Errorf("%w: starting, see /readyz", scheduler.ErrUnavailable)
}

// through calls the scheduler unless the gate is closed.
func through[T any](g *gate, do func() (T, error)) (T, error) {
	if g.isClosed() {
		var none T
		return none, g.closed()
	}
	return do()
}

// AcceptAll pushes a batch.
func (g *gate) AcceptAll(ctx context.Context, batch []*scheduler.Push) []scheduler.Accepted {
	if !g.isClosed() {
		return g.service.AcceptAll(ctx, batch)
	}
	results := make([]scheduler.Accepted, len(batch))
	for i, p := range batch {
		results[i] = scheduler.Accepted{UID: p.UID, ID: p.ID, Err: g.closed()}
	}
	return results
}

// Accept queues a push.
func (g *gate) Accept(p *scheduler.Push, done func(scheduler.Accepted)) {
	if g.isClosed() {
		done(scheduler.Accepted{UID: p.UID, ID: p.ID, Err: g.closed()})
		return
	}
	g.service.Accept(p, done)
}

// Get finds one message, with the reason why it is held back.
func (g *gate) Get(ctx context.Context, ref scheduler.Ref) (message.Info, error) {
	return through(g, func() (message.Info, error) {
		info, err := g.service.Get(ctx, ref)
		if lane := info.Mark.Lane; lane != "" {
			info.ParkedWhy = g.leader.Why(lane, info.Topic)
		}
		return info, err
	})
}

// Resolve returns the one message that a change would apply to.
func (g *gate) Resolve(ctx context.Context, ref scheduler.Ref) (message.Info, error) {
	return through(g, func() (message.Info, error) { return g.service.Resolve(ctx, ref) })
}

// Cancel cancels a waiting message.
func (g *gate) Cancel(ctx context.Context, ref scheduler.Ref) (scheduler.CancelResult, error) {
	return through(g, func() (scheduler.CancelResult, error) { return g.service.Cancel(ctx, ref) })
}

// Reschedule changes a waiting message.
func (g *gate) Reschedule(ctx context.Context, ref scheduler.Ref, e scheduler.Edit) (scheduler.AmendResult, error) {
	return through(g, func() (scheduler.AmendResult, error) { return g.service.Reschedule(ctx, ref, e) })
}

// CancelMany cancels the selected messages.
func (g *gate) CancelMany(ctx context.Context, sel scheduler.Selection,
	progress func(scheduler.Report)) (scheduler.Report, error) {
	return through(g, func() (scheduler.Report, error) { return g.service.CancelMany(ctx, sel, progress) })
}

// RescheduleMany changes the selected messages.
func (g *gate) RescheduleMany(ctx context.Context, sel scheduler.Selection, e scheduler.Edit,
	progress func(scheduler.Report)) (scheduler.Report, error) {
	return through(g, func() (scheduler.Report, error) { return g.service.RescheduleMany(ctx, sel, e, progress) })
}

// Dead lists dead messages.
func (g *gate) Dead(ctx context.Context, topic, cursor string, limit int) ([]message.Info, string, error) {
	if g.isClosed() {
		return nil, "", g.closed()
	}
	return g.service.Dead(ctx, topic, cursor, limit)
}

// RequeueOne pushes a dead message again.
func (g *gate) RequeueOne(ctx context.Context, ref scheduler.Ref, r scheduler.Requeue) (scheduler.Accepted, error) {
	return through(g, func() (scheduler.Accepted, error) { return g.service.RequeueOne(ctx, ref, r) })
}

// RequeueMany pushes the selected dead messages again.
func (g *gate) RequeueMany(ctx context.Context, sel scheduler.Selection, r scheduler.Requeue,
	progress func(scheduler.Report)) (scheduler.Report, error) {
	return through(g, func() (scheduler.Report, error) { return g.service.RequeueMany(ctx, sel, r, progress) })
}

// PurgeOne removes a dead message for good.
func (g *gate) PurgeOne(ctx context.Context, ref scheduler.Ref) error {
	_, err := through(g, func() (struct{}, error) { return struct{}{}, g.service.PurgeOne(ctx, ref) })
	return err
}

// PurgeMany removes the selected dead messages for good.
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

// Pauses lists the paused patterns.
func (g *gate) Pauses(ctx context.Context) ([]scheduler.Pause, error) {
	return through(g, func() ([]scheduler.Pause, error) { return g.service.Pauses(ctx) })
}

// ParkedLanes lists the lanes that hold messages back.
func (g *gate) ParkedLanes(ctx context.Context) ([]scheduler.Parked, error) {
	return through(g, func() ([]scheduler.Parked, error) { return g.leader.ParkedLanes(ctx) })
}

// ParkedTopics returns why messages of topics are held back.
func (g *gate) ParkedTopics(ctx context.Context, topics []string) (map[string]string, error) {
	return through(g, func() (map[string]string, error) { return g.leader.ParkedTopics(ctx, topics) })
}

// Pause holds back a pattern of topics.
func (g *gate) Pause(ctx context.Context, pattern, by string) (inEffect bool, err error) {
	return through(g, func() (bool, error) { return g.service.Pause(ctx, pattern, by) })
}

// Resume ends the pause of a pattern.
func (g *gate) Resume(ctx context.Context, pattern string) (was, inEffect bool, err error) {
	if g.isClosed() {
		return false, false, g.closed()
	}
	return g.service.Resume(ctx, pattern)
}
