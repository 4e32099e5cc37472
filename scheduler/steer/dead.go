package steer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/accept"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// RequeueOne gives a dead message another life: a new message under the same name, whose attempts count from 1 again.
// If the dead message may have been delivered, the new one is uncertain from the start, edited or not: a cancel of it
// answers CancelMaybe, and it cannot be rescheduled, edited or run. A later retry of the dead message by a consumer,
// under a uid of its own, counts as a retry of the new one, because id and attempt do not distinguish the lives.
//
// An error carries in UID the uid of the new message, so that it can be looked up after ErrOutcomeUnknown. Requeueing
// is idempotent.
func (s *Scheduler) RequeueOne(ctx context.Context, ref scheduler.Ref, r scheduler.Requeue) (scheduler.Accepted,
	error) {
	info, err := s.dead(ctx, ref)
	if err != nil {
		return scheduler.Accepted{}, fmt.Errorf("requeue: %w", err)
	}
	now := s.cfg.Clock.Latest()
	m := info.Message
	m.Attempt, m.Mark, m.Origin = 1, message.Mark{}, ""
	m.Headers = slices.DeleteFunc(slices.Clone(m.Headers),
		func(h message.Header) bool { return h.Name == scheduler.ReasonHeader })
	if m.Due = max(message.CeilMilli(now.Add(r.Delay)), 1); r.Headers != nil {
		m.Headers = r.Headers
	}
	if r.Body != nil {
		m.Body = r.Body
	}
	if r.Headers != nil || r.Body != nil {
		if err := fits(r.Fit, &m); err != nil {
			return scheduler.Accepted{}, fmt.Errorf("requeue: %w", err)
		}
	}
	if err := s.cfg.CheckDue(m.Due, now); err != nil {
		return scheduler.Accepted{}, fmt.Errorf("requeue: %w", err)
	}
	result, err := s.requeue(ctx, info.UID, 0, &m)
	a := accept.Answer(&m, scheduler.AddResult{})
	switch {
	case err != nil:
		return a, err
	case result.Code == scheduler.RequeueDone:
		return a, nil
	case result.Code == scheduler.RequeueNamed:
		a.UID, a.Due, a.State, a.Version = result.Info.UID, result.Info.Due, result.Info.State, result.Info.Version
		return a, named(&result.Info)
	case result.Code == scheduler.RequeueNotDead:
		return scheduler.Accepted{}, notDead(&result.Info)
	}
	return scheduler.Accepted{}, scheduler.ErrUnknownID
}

// named returns an error that gives the message that has a name.
func named(i *message.Info) error {
	return fmt.Errorf("%w: the message %s has it and has not ended", scheduler.ErrDuplicateID, i.UID)
}

// requeueTries is how many uids a requeue tries: another instance may use the same machine id.
const requeueTries = 3

// requeue gives a message the life m, under a fresh uid. waits is the version of a message that waits, or 0 for a dead
// one.
func (s *Scheduler) requeue(ctx context.Context, old message.UID, waits uint64,
	m *message.Message) (result scheduler.RequeueResult, err error) {
	for range requeueTries {
		if m.UID, err = s.cfg.IDs.Next(old.Hash()); err != nil {
			return result, fmt.Errorf("requeue: %w: %w", scheduler.ErrUnavailable, err)
		}
		as, err := s.change(ctx, s.cfg.Of(m.UID),
			func(ctx context.Context, bucket message.Bucket, now message.Milli) (made scheduler.Effect, err error) {
				result, err = s.cfg.Timeline.Requeue(ctx, old, waits, m, now)
				return result.Effect(bucket, old), err
			})
		if err != nil {
			return result, fmt.Errorf("requeue %s: %w", old, err)
		}
		if result.Info.Bare = as.bare; result.Code != scheduler.RequeueTaken {
			return result, nil
		}
	}
	return result, fmt.Errorf("%w: the uid for the requeued message is taken", scheduler.ErrUnavailable)
}

// dead finds the dead message that a reference means: the last dead one under a name.
func (s *Scheduler) dead(ctx context.Context, ref scheduler.Ref) (message.Info, error) {
	found, err := s.find(ctx, ref, forChange)
	if err != nil {
		return message.Info{}, err
	}
	all, err := choose(found, forChange)
	if err != nil {
		return message.Info{}, err
	}
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].State == message.StateDead {
			return all[i], nil
		}
	}
	this := all.meant()
	return message.Info{}, notDead(&this)
}

// notDead returns an error that gives the message's actual state and, if it was requeued, the message that it became.
func notDead(i *message.Info) error {
	if i.Kind == message.KindRequeued {
		return fmt.Errorf("%w: it was requeued as %s", scheduler.ErrNotDead, i.Other)
	}
	return fmt.Errorf("%w: it is %s", scheduler.ErrNotDead, i.State)
}

// RequeueMany requeues the selected dead messages in bounded steps. Messages that die again meanwhile are left to the
// next call. To spread them it counts them first; those that come above the count are due with the last.
func (s *Scheduler) RequeueMany(ctx context.Context, sel scheduler.Selection, r scheduler.Requeue,
	progress func(scheduler.Report)) (scheduler.Report, error) {
	if now := s.cfg.Clock.Milli(); sel.To == 0 || sel.To > now {
		sel.To = now
	}
	var all int
	if r.Spread > 0 && !sel.DryRun {
		counted := sel
		counted.DryRun = true
		report, err := s.many(ctx, counted, true, nil, nil)
		if all = report.Matched; err != nil {
			return scheduler.Report{}, err
		}
	}
	var begun atomic.Int64
	return s.many(ctx, sel, true, progress, func(ctx context.Context, i *message.Info) (verdict, error) {
		one := r
		if n := int(begun.Add(1)) - 1; all > 0 {
			one.Delay += r.Spread * time.Duration(min(n, all-1)) / time.Duration(all)
		}
		_, err := s.RequeueOne(ctx, scheduler.Ref{UID: i.UID}, one)
		return buried(err)
	})
}

// PurgeOne ends a dead message for good.
func (s *Scheduler) PurgeOne(ctx context.Context, ref scheduler.Ref) error {
	info, err := s.dead(ctx, ref)
	if err == nil {
		err = s.purge(ctx, &info)
	}
	if err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	return nil
}

// PurgeMany purges the selected dead messages in bounded steps.
func (s *Scheduler) PurgeMany(ctx context.Context, sel scheduler.Selection,
	progress func(scheduler.Report)) (scheduler.Report, error) {
	return s.many(ctx, sel, true, progress, func(ctx context.Context, i *message.Info) (verdict, error) {
		return buried(s.purge(ctx, i))
	})
}

func (s *Scheduler) purge(ctx context.Context, info *message.Info) error {
	purge := func(ctx context.Context, bucket message.Bucket, now message.Milli) (scheduler.Effect, error) {
		purged, number, err := s.cfg.Timeline.Purge(ctx, bucket, []message.UID{info.UID}, now)
		if err == nil && len(purged) == 0 {
			err = fmt.Errorf("%w: it was requeued or purged", scheduler.ErrNotDead)
		}
		return scheduler.Effect{Changes: []scheduler.Recorded{{UID: info.UID, Version: info.Version + 1,
			Bucket: bucket, Number: number}}}, err
	}
	_, err := s.change(ctx, s.cfg.Of(info.UID), purge)
	return err
}

// deadLook is how often the leader looks for dead messages that have been kept long enough.
const deadLook = time.Minute

// PurgeOld purges what died longer ago than DeadKeep, from time to time until ctx ends. The leading instance runs it. A
// purge may take long, and blocks nothing else. What fails waits for the next round.
func (s *Scheduler) PurgeOld(ctx context.Context) {
	tick := time.Tick(deadLook)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		until := s.cfg.Clock.Milli().Add(-s.cfg.DeadKeep)
		r, err := s.PurgeMany(ctx, scheduler.Selection{To: until}, nil)
		if err != nil && ctx.Err() == nil {
			s.log.Warn().Err(err).Msg("dead messages past their time cannot be purged")
		}
		if r.Done > 0 {
			s.log.Info().Int("messages", r.Done).Time("died_until", until.Time()).Msg(
				"purged dead messages past their time")
		}
	}
}

// buried returns the verdict on one dead message of many.
func buried(err error) (verdict, error) {
	switch {
	case err == nil:
		return done, nil
	case errors.Is(err, scheduler.ErrNotDead), errors.Is(err, scheduler.ErrUnknownID):
		return ended, nil
	}
	return failed, err
}
