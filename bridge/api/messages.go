package api

import (
	"context"
	"net/http"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
)

// push stores one message and answers 201, or 200 if the same push was stored before or was merged into a waiting
// message.
func (s *Server) push(w http.ResponseWriter, r *http.Request) error {
	body, release, err := s.read(w, r)
	if err != nil {
		return err
	}
	defer release()
	item := ops.DecodePush(body, s.cfg.Prefix)
	ctx, stop := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer stop()
	push, err := s.judge(callerOf(r), &item)
	if err != nil {
		return err
	}
	result := s.result(s.cfg.Service.AcceptAll(ctx, []*scheduler.Push{push})[0])
	if result.Problem != nil {
		return &ops.Refused{Problem: *result.Problem}
	}
	status := http.StatusCreated
	if result.Answer.Duplicate || result.Answer.Merged {
		status = http.StatusOK
	}
	w.Header().Set("Location", "/v1/messages/"+result.Answer.UID)
	s.respond(w, status, func(b []byte) []byte { return ops.AppendAnswer(b, &result.Answer) })
	return nil
}

// batch stores up to ops.MaxBatch messages and answers 200 with an outcome for each, in order. A refused message has
// its problem as its outcome and does not affect the others. Only a request that cannot be parsed is refused as a
// whole.
func (s *Server) batch(w http.ResponseWriter, r *http.Request) error {
	body, release, err := s.read(w, r)
	if err != nil {
		return err
	}
	defer release()
	items, err := ops.DecodeBatch(body, s.cfg.Prefix)
	if err != nil {
		return err
	}
	var (
		results = make([]ops.Result, len(items))
		pushes  = make([]*scheduler.Push, 0, len(items))
		places  = make([]int, 0, len(items)) // of pushes among results
	)
	ctx, stop := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer stop()
	by := callerOf(r)
	for i := range items {
		push, err := s.judge(by, &items[i])
		if err != nil {
			results[i].Problem = s.ops.Judge(by, err)
			continue
		}
		pushes, places = append(pushes, push), append(places, i)
	}
	if len(pushes) > 0 {
		for i, accepted := range s.cfg.Service.AcceptAll(ctx, pushes) {
			results[places[i]] = s.result(accepted)
		}
	}
	s.respond(w, http.StatusOK, func(b []byte) []byte { return ops.AppendResults(b, results) })
	return nil
}

// judge returns a push in the scheduler's form, or the reason for its refusal.
func (s *Server) judge(by *ops.Caller, item *ops.PushItem) (*scheduler.Push, error) {
	if item.Err != nil {
		return nil, item.Err
	}
	if err := by.MayPush(item.Push.Topic); err != nil {
		return nil, err
	}
	if err := s.ops.Limits().Check(&item.Push, len(item.Body)); err != nil {
		return nil, err
	}
	return ops.Push(&item.Push, item.Body), nil
}

func (s *Server) result(a scheduler.Accepted) ops.Result { return ops.Accepted(a, s.cfg.Durable) }
