package request

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

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

// handler handles the requests of an operation, each in its own goroutine, since it waits for the store.
func (s *Service) handler(op *ops.Operation, as *ops.Token, at *link.Room, during bound) nats.MsgHandler {
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
			out, p := s.cfg.Ops.Call(ctx, op, as, data)
			var body []byte
			if p == nil {
				body, p = s.encode(op, out)
			}
			if p != nil {
				s.out.Put(s.problem(reply, size, *p))
				return
			}
			s.out.Put(reaction{reply: reply, body: body, size: size})
		}()
	}
}

// encode returns an answer, if it fits in one message.
func (s *Service) encode(op *ops.Operation, out any) (body []byte, p *ops.Problem) {
	body, err := ops.Encode(out)
	limit := int(s.nc.MaxPayload()) - answerHeadRoom
	info, one := out.(*ops.Info)
	switch {
	case err != nil:
		return nil, s.cfg.Ops.Judge(&ops.Caller{Route: op.Route}, err)
	case len(body) <= limit || limit <= 0:
		return body, nil
	case one && !info.BodyOmitted:
		info.Body, info.BodyBase64, info.BodyOmitted = nil, nil, true
		return s.encode(op, info)
	}
	return nil, &ops.Problem{Status: http.StatusRequestEntityTooLarge, Word: wire.WordTooLarge, Detail: fmt.Sprintf(
		"the answer has %d bytes, the server's max_payload leaves %d; ask for fewer with limit, or over HTTP",
		len(body), limit)}
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
