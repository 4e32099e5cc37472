package request

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// ask answers a request about existing messages, with JSON as a []byte or with another value to encode as JSON.
type ask func(ctx context.Context, data []byte) (any, error)

// refused is an error that contains the problem to answer with.
type refused struct{ ops.Problem }

func (r *refused) Error() string { return r.Word + ": " + r.Detail }

// orRefused returns a result, or a refusal as an error.
func orRefused[T any](result T, p *ops.Problem) (any, error) {
	if p != nil {
		return nil, &refused{*p}
	}
	return result, nil
}

func (s *Service) endpoints() map[string]nats.MsgHandler {
	all := map[string]nats.MsgHandler{"push": s.push}
	for name, one := range map[string]ask{
		"get": s.named(s.get), "cancel": s.named(s.cancel), "run": s.named(s.run), "reschedule": s.reschedule,
	} {
		all[name] = s.steer(s.steering, one, briefly)
	}
	maps.Copy(all, s.further(s.cfg.Changes, s.steering, long))
	return all
}

// long returns the bounded context of an operation on many messages, which a stop interrupts.
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

// steer handles a request in its own goroutine, since it waits for the store.
func (s *Service) steer(at *link.Room, do ask, during bound) nats.MsgHandler {
	return func(req *nats.Msg) {
		reply, data := req.Reply, req.Data
		size := len(data)
		if !at.Try(size) {
			s.busy(reply)
			return
		}
		if !s.room.Try(size) {
			at.Leave(1, int64(size))
			s.busy(reply)
			return
		}
		go func() { // Run waits for it, since a request holds room until it is answered
			defer at.Leave(1, int64(size))
			ctx, stop := during(s.ctx.Load())
			defer stop()
			result, err := do(ctx, data)
			body, isJSON := result.([]byte)
			if err == nil && !isJSON {
				body, err = json.Marshal(result)
			}
			if err != nil {
				s.out.Put(s.problem(reply, size, s.describe(err)))
				return
			}
			s.out.Put(reaction{reply: reply, body: body, size: size})
		}()
	}
}

// named returns an ask for requests that name a message and nothing else.
func (s *Service) named(do func(ctx context.Context, ref scheduler.Ref, id string) (any, error)) ask {
	return func(ctx context.Context, data []byte) (any, error) {
		named, err := ops.DecodeRef(data)
		if err != nil {
			return nil, err
		}
		ref, err := ops.Ref(named)
		if err != nil {
			return nil, err
		}
		return do(ctx, ref, named.ID)
	}
}

func (s *Service) cancel(ctx context.Context, ref scheduler.Ref, id string) (any, error) {
	result, err := s.cfg.Scheduler.Cancel(ctx, ref)
	if err != nil {
		return nil, err
	}
	return orRefused(ops.Cancel(id, &result))
}

func (s *Service) get(ctx context.Context, ref scheduler.Ref, _ string) (any, error) {
	info, err := s.cfg.Scheduler.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	w := ops.InfoOf(&info)
	body, err := json.Marshal(w)
	if limit := int(s.nc.MaxPayload()) - answerHeadRoom; len(body) > limit && limit > 0 {
		w.Body, w.BodyBase64, w.BodyOmitted = nil, nil, true
		return w, nil
	}
	return body, err
}

func (s *Service) run(ctx context.Context, ref scheduler.Ref, id string) (any, error) {
	return s.amend(ctx, ref, id, scheduler.Edit{Run: true})
}

func (s *Service) reschedule(ctx context.Context, data []byte) (any, error) {
	named, asked, err := ops.DecodeReschedule(data)
	if err != nil {
		return nil, err
	}
	ref, err := ops.Ref(named)
	if err != nil {
		return nil, err
	}
	edit := ops.EditOf(&asked)
	edit.Fit = ops.Limits{Content: link.SizeLimit(s.nc, s.cfg.SizeLimit)}
	return s.amend(ctx, ref, named.ID, edit)
}

func (s *Service) amend(ctx context.Context, ref scheduler.Ref, id string, e scheduler.Edit) (any, error) {
	result, err := s.cfg.Scheduler.Reschedule(ctx, ref, e)
	if err != nil {
		return nil, err
	}
	return orRefused(ops.Amend(id, &result))
}

// push handles one push or a batch. It only decodes and queues; the answer is sent when the last outcome is known.
func (s *Service) push(req *nats.Msg) {
	data, reply := req.Data, req.Reply
	size := len(data)
	if !s.room.Try(size) {
		s.busy(reply)
		return
	}
	if !ops.IsBatch(data) {
		item := ops.DecodePush(data, s.cfg.Prefix)
		s.accept(&item, "", func(r ops.Result) { s.out.Put(s.result(reply, size, r)) })
		return
	}
	items, err := ops.DecodeBatch(data, s.cfg.Prefix)
	if err == nil {
		err = s.fits(len(items))
	}
	if err != nil {
		s.out.Put(s.problem(reply, size, ops.ProblemOf(err)))
		return
	}
	s.acceptAll(reply, size, items, func(int) string { return "" })
}

// fits refuses a batch of so many messages that their results would not fit in one answer.
func (s *Service) fits(n int) error {
	if limit := int(s.nc.MaxPayload()) / resultSize; n > limit {
		return &wire.Error{Word: wire.WordTooLarge, Field: "messages",
			Detail: fmt.Sprintf("are %d; with the server's max_payload the answer holds %d", n, limit)}
	}
	return nil
}

// acceptAll hands the pushes of a batch to the scheduler, each with its call, and answers once all have their outcomes.
func (s *Service) acceptAll(reply string, size int, items []ops.PushItem, call func(i int) string) {
	results := make([]ops.Result, len(items))
	var left atomic.Int64
	left.Store(int64(len(items)))
	for i := range items {
		s.accept(&items[i], call(i), func(r ops.Result) {
			results[i] = r
			if left.Add(-1) == 0 {
				s.out.Put(reaction{reply: reply,
					body: ops.AppendResults(make([]byte, 0, 200*len(results)), results), size: size})
			}
		})
	}
}

// accept hands one push to the scheduler; done is called once with its outcome and must not block.
func (s *Service) accept(item *ops.PushItem, call string, done func(ops.Result)) {
	err := item.Err
	if err == nil {
		err = item.Push.CheckLimit(len(item.Body), link.SizeLimit(s.nc, s.cfg.SizeLimit))
	}
	if err != nil {
		p := ops.ProblemOf(err)
		done(ops.Result{Problem: &p})
		return
	}
	push := ops.Push(&item.Push, item.Body)
	push.By, push.Call = ops.ByNATS, call
	s.cfg.Scheduler.Accept(push, func(a scheduler.Accepted) {
		r := ops.Accepted(a, s.cfg.Durable)
		if r.Problem != nil && r.Problem.Word == ops.WordInternal {
			s.log.Error().Err(a.Err).Msg("push failed with an internal error")
		}
		done(r)
	})
}

// result returns the answer to a single push.
func (s *Service) result(reply string, size int, r ops.Result) reaction {
	if r.Problem != nil {
		return s.problem(reply, size, *r.Problem)
	}
	return reaction{reply: reply, body: ops.AppendAnswer(nil, &r.Answer), size: size}
}
