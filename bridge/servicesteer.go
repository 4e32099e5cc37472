package bridge

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// ask answers a request about messages that are there.
type ask func(ctx context.Context, data []byte) ([]byte, *wire.Problem)

func (s *Service) endpoints() map[string]nats.MsgHandler {
	all := map[string]nats.MsgHandler{"push": s.push}
	for name, one := range map[string]ask{
		"get": s.named(s.get), "cancel": s.named(s.cancel), "run": s.named(s.run), "reschedule": s.reschedule,
		"dead_requeue": s.audited("dead_requeue", "requeue", s.requeue),
	} {
		all[name] = s.steer(s.steering, one, briefly)
	}
	for name, many := range map[string]ask{
		"cancel_many":     s.audited("cancel_many", "cancel", s.cancelMany),
		"reschedule_many": s.audited("reschedule_many", "reschedule", s.rescheduleMany),
	} {
		all[name] = s.steer(s.many, many, long)
	}
	return all
}

// long bounds an operation on many, which a stop ends where it is.
func long(during *serving) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(during.work)
	release := context.AfterFunc(during.run, func() { end(scheduler.ErrStopping) })
	ctx, stop := context.WithTimeout(ctx, manyTimeout)
	return ctx, func() {
		stop()
		release()
		end(nil)
	}
}

// steer handles a request in a goroutine of its own, since the store is asked
// and answered for.
func (s *Service) steer(at *room, do ask, during bound) nats.MsgHandler {
	return func(req *nats.Msg) {
		reply, data := req.Reply, req.Data
		size := len(data)
		if !at.try(size) {
			s.busy(reply)
			return
		}
		if !s.room.try(size) {
			at.leave(1, int64(size))
			s.busy(reply)
			return
		}
		go func() { // Run waits for it: it holds room until it is answered
			defer at.leave(1, int64(size))
			ctx, stop := during(s.ctx.Load())
			defer stop()
			body, problem := do(ctx, data)
			if problem != nil {
				s.out.put(s.problem(reply, size, *problem))
				return
			}
			s.out.put(reaction{reply: reply, body: body, size: size})
		}()
	}
}

// named reads the message that a request names and nothing else.
func (s *Service) named(do func(ctx context.Context, ref scheduler.Ref, id string) ([]byte, *wire.Problem)) ask {
	return func(ctx context.Context, data []byte) ([]byte, *wire.Problem) {
		named, err := wire.DecodeRef(data)
		if err != nil {
			return nil, s.told(err)
		}
		ref, err := answer.Ref(named)
		if err != nil {
			return nil, s.told(err)
		}
		return do(ctx, ref, named.ID)
	}
}

func (s *Service) cancel(ctx context.Context, ref scheduler.Ref, id string) ([]byte, *wire.Problem) {
	result, err := s.cfg.Scheduler.Cancel(ctx, ref)
	if err != nil {
		return nil, s.told(err)
	}
	canceled, problem := answer.Cancel(id, &result)
	if problem != nil {
		return nil, problem
	}
	return s.marshal(canceled)
}

func (s *Service) get(ctx context.Context, ref scheduler.Ref, _ string) ([]byte, *wire.Problem) {
	info, err := s.cfg.Scheduler.Get(ctx, ref)
	if err != nil {
		return nil, s.told(err)
	}
	w := answer.Info(&info)
	body, problem := s.marshal(w)
	if limit := int(s.nc.MaxPayload()) - answerHeadRoom; len(body) > limit && limit > 0 {
		w.Body, w.BodyBase64, w.BodyOmitted = nil, nil, true
		body, problem = s.marshal(w)
	}
	return body, problem
}

func (s *Service) run(ctx context.Context, ref scheduler.Ref, id string) ([]byte, *wire.Problem) {
	return s.amend(ctx, ref, id, scheduler.Edit{Run: true})
}

func (s *Service) reschedule(ctx context.Context, data []byte) ([]byte, *wire.Problem) {
	named, asked, err := wire.DecodeReschedule(data)
	if err != nil {
		return nil, s.told(err)
	}
	ref, err := answer.Ref(named)
	if err != nil {
		return nil, s.told(err)
	}
	edit := answer.Edit(&asked)
	edit.Fit = s.limits()
	return s.amend(ctx, ref, named.ID, edit)
}

// limits are those of a push.
func (s *Service) limits() answer.Limits {
	return answer.Limits{Content: SizeLimit(s.nc, s.cfg.SizeLimit)}
}

func (s *Service) amend(ctx context.Context, ref scheduler.Ref, id string, e scheduler.Edit) ([]byte, *wire.Problem) {
	result, err := s.cfg.Scheduler.Reschedule(ctx, ref, e)
	if err != nil {
		return nil, s.told(err)
	}
	rescheduled, problem := answer.Amend(id, &result)
	if problem != nil {
		return nil, problem
	}
	return s.marshal(rescheduled)
}

func (s *Service) cancelMany(ctx context.Context, data []byte) ([]byte, *wire.Problem) {
	selection, err := wire.DecodeSelection(data)
	if err != nil {
		return nil, s.told(err)
	}
	sel, err := answer.Selection(&selection, time.Now())
	if err != nil {
		return nil, s.told(err)
	}
	report, err := s.cfg.Scheduler.CancelMany(ctx, sel, nil)
	return s.reported(ctx, report, sel.DryRun, err)
}

func (s *Service) rescheduleMany(ctx context.Context, data []byte) ([]byte, *wire.Problem) {
	selection, edit, err := wire.DecodeRescheduleMany(data)
	if err != nil {
		return nil, s.told(err)
	}
	sel, err := answer.Selection(&selection, time.Now())
	if err != nil {
		return nil, s.told(err)
	}
	report, err := s.cfg.Scheduler.RescheduleMany(ctx, sel, answer.Edit(&edit), nil)
	return s.reported(ctx, report, sel.DryRun, err)
}

// reported answers an operation on many, whether or not it came to its end.
func (s *Service) reported(ctx context.Context, report scheduler.Report, dryRun bool,
	err error) ([]byte, *wire.Problem) {
	if err == nil {
		return s.marshal(answer.Report(report, dryRun))
	}
	if ctx.Err() != nil && !errors.Is(err, scheduler.ErrOutcomeUnknown) { // whatever the store says of that
		err = context.Cause(ctx)
	}
	s.told(err) // to the log, where it is for the log
	p := answer.Stopped(report, dryRun, err)
	return nil, &p
}

func (s *Service) requeue(ctx context.Context, data []byte) ([]byte, *wire.Problem) {
	order, err := wire.DecodeDeadOrder(data)
	switch {
	case err != nil:
		return nil, s.told(err)
	case order.One.ID == "":
		return nil, s.told(&wire.Error{Word: wire.WordID, Field: wire.FieldID,
			Detail: "is missing; one message is requeued here, and many over HTTP"})
	case order.DryRun:
		return nil, s.told(
			&wire.Error{Word: wire.WordDryRun, Field: wire.FieldDryRun, Detail: "goes with a selection alone"})
	}
	ref, err := answer.Ref(order.One)
	if err != nil {
		return nil, s.told(err)
	}
	how := answer.Requeue(&order)
	how.Fit = s.limits()
	var a scheduler.Accepted
	if a, err = s.cfg.Scheduler.RequeueOne(ctx, ref, how); err != nil {
		a.Err = err
	}
	r := answer.Requeued(ref, a)
	if r.Problem != nil {
		s.told(err)
		return nil, r.Problem
	}
	r.Answer.Durable = cmp.Or(s.cfg.Durable, r.Answer.Durable)
	return wire.AppendAnswer(nil, &r.Answer), nil
}
