package api

import (
	"context"
	"net/http"

	"github.com/tarry-mq/tarry/bridge/ops"
)

// push stores one message and answers 201, or 200 if the same push was stored before or was merged into a waiting
// message.
func (s *Server) push(w http.ResponseWriter, r *http.Request) error {
	body, release, err := s.Read(w, r)
	if err != nil {
		return err
	}
	defer release()
	ctx, stop := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer stop()
	result := s.ops.Accept(ctx, CallerOf(r), ops.DecodePush(body, s.cfg.Prefix))[0]
	if result.Problem != nil {
		return &ops.Refused{Problem: *result.Problem}
	}
	status := http.StatusCreated
	if result.Answer.Duplicate || result.Answer.Merged {
		status = http.StatusOK
	}
	w.Header().Set("Location", "/v1/messages/"+result.Answer.UID)
	s.Respond(w, status, func(b []byte) []byte { return ops.AppendAnswer(b, &result.Answer) })
	return nil
}

// batch stores up to ops.MaxBatch messages and answers 200 with an outcome for each, in order. A refused message has
// its problem as its outcome and does not affect the others. Only a request that cannot be parsed is refused as a
// whole.
func (s *Server) batch(w http.ResponseWriter, r *http.Request) error {
	body, release, err := s.Read(w, r)
	if err != nil {
		return err
	}
	defer release()
	items, err := ops.DecodeBatch(body, s.cfg.Prefix)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer stop()
	results := s.ops.Accept(ctx, CallerOf(r), items...)
	s.Respond(w, http.StatusOK, func(b []byte) []byte { return ops.AppendResults(b, results) })
	return nil
}
