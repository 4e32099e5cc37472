package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
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
	push, err := s.judge(r, &item)
	if err != nil {
		return err
	}
	result := s.result(s.cfg.Service.AcceptAll(ctx, []*scheduler.Push{push})[0])
	if result.Problem != nil {
		return &problem{*result.Problem}
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
	for i := range items {
		push, err := s.judge(r, &items[i])
		if err != nil {
			results[i].Problem = &s.judged(r, err).Problem
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
func (s *Server) judge(r *http.Request, item *ops.PushItem) (*scheduler.Push, error) {
	if item.Err != nil {
		return nil, item.Err
	}
	if err := mayPush(r, item.Push.Topic); err != nil {
		return nil, err
	}
	if err := s.limits().Check(&item.Push, len(item.Body)); err != nil {
		return nil, err
	}
	return ops.Push(&item.Push, item.Body), nil
}

func (s *Server) result(a scheduler.Accepted) ops.Result { return ops.Accepted(a, s.cfg.Durable) }

// get answers with a message, live or remembered.
func (s *Server) get(w http.ResponseWriter, r *http.Request) error {
	ref, err := reference(r)
	if err != nil {
		return err
	}
	return s.done(w, r, func(ctx context.Context) (any, error) {
		info, err := s.cfg.Service.Get(ctx, ref)
		if err != nil {
			return nil, err
		}
		if !mayRead(r) { // a caller that may only push sees its message's outcome
			info.Headers, info.Body = nil, nil
		}
		tagged(w, info.Version)
		return ops.InfoOf(&info), nil
	})
}

// cancel cancels a message and answers with the actual outcome.
func (s *Server) cancel(w http.ResponseWriter, r *http.Request) error {
	ref, err := reference(r)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer stop()
	var result scheduler.CancelResult
	if ref, err = s.permitted(ctx, r, ref); err == nil {
		result, err = s.cfg.Service.Cancel(ctx, ref)
	}
	if err != nil && !errors.Is(err, scheduler.ErrUnknownID) { // ops.Cancel answers the zero result with this error
		return err
	}
	result.Info.IntakeUnknown = result.Info.IntakeUnknown || errors.Is(err, scheduler.ErrInIntake)
	canceled, refused := ops.Cancel(r.PathValue("id"), &result)
	if refused != nil {
		return &problem{*refused}
	}
	return s.respondValue(w, http.StatusOK, canceled)
}

// reference returns the message that a path and its query name: /v1/messages/{id}?topic=&key=. An id in the form of a
// uid is that uid. The reference never matches a message that the caller may not see.
func reference(r *http.Request) (scheduler.Ref, error) {
	values, err := query(r, "topic", "key")
	if err != nil {
		return scheduler.Ref{}, err
	}
	if values.Has("topic") && values.Get("topic") == "" {
		return scheduler.Ref{}, wire.CheckSubject("")
	}
	ref, err := ops.Ref(
		ops.Named{ID: r.PathValue("id"), Topic: values.Get("topic"), Key: values.Get("key"), Keyed: values.Has("key")})
	ref.Viewer = viewer(r)
	return ref, err
}
