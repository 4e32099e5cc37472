package bridge

import (
	"cmp"
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// push handles one push or a batch. It only reads and queues; the answer goes
// out when the last outcome is known.
func (s *Service) push(req *nats.Msg) {
	data, reply := req.Data, req.Reply
	size := len(data)
	if !s.room.try(size) {
		s.busy(reply)
		return
	}
	if !wire.IsBatch(data) {
		item := wire.DecodePush(data, s.cfg.Prefix)
		s.accept(&item, func(r wire.Result) { s.out.put(s.result(reply, size, r)) })
		return
	}
	items, err := wire.DecodeBatch(data, s.cfg.Prefix)
	if limit := int(s.nc.MaxPayload()) / resultSize; err == nil && len(items) > limit {
		err = &wire.Error{Word: wire.WordTooLarge, Field: "messages",
			Detail: fmt.Sprintf("are %d; with the server's max_payload the answer holds %d", len(items), limit)}
	}
	if err != nil {
		s.out.put(s.problem(reply, size, answer.Problem(err)))
		return
	}
	results := make([]wire.Result, len(items))
	var left atomic.Int64
	left.Store(int64(len(items)))
	for i := range items {
		s.accept(&items[i], func(r wire.Result) {
			results[i] = r
			if left.Add(-1) == 0 {
				s.out.put(reaction{reply: reply,
					body: wire.AppendResults(make([]byte, 0, 200*len(results)), results), size: size})
			}
		})
	}
}

// accept hands one push to the scheduler; done gets its outcome once, and must
// not block.
func (s *Service) accept(item *wire.PushItem, done func(wire.Result)) {
	err := item.Err
	if err == nil {
		err = item.Push.CheckLimit(len(item.Body), SizeLimit(s.nc, s.cfg.SizeLimit))
	}
	if err != nil {
		p := answer.Problem(err)
		done(wire.Result{Problem: &p})
		return
	}
	s.cfg.Scheduler.Accept(answer.Push(&item.Push, item.Body), func(a scheduler.Accepted) {
		r := answer.Accepted(a)
		r.Answer.Durable = cmp.Or(s.cfg.Durable, r.Answer.Durable)
		if r.Problem != nil && r.Problem.Word == answer.WordInternal {
			s.log.Error().Err(a.Err).Msg("push failed inside")
		}
		done(r)
	})
}

// result is the answer to a single push.
func (s *Service) result(reply string, size int, r wire.Result) reaction {
	if r.Problem != nil {
		return s.problem(reply, size, *r.Problem)
	}
	return reaction{reply: reply, body: wire.AppendAnswer(nil, &r.Answer), size: size}
}
