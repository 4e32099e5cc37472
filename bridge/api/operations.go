package api

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// operation returns the handler of an operation.
func (s *Server) operation(op *ops.Operation) Handler {
	inQuery, keeps := op.Query(), op.Has(wire.FieldBody)
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := op.Ready(); err != nil {
			return err
		}
		values, err := Query(r, inQuery...)
		if err != nil {
			return err
		}
		release := func() {}
		defer func() { release() }()
		in, err := op.Decode(&ops.Source{Path: r.PathValue, Query: values, Header: r.Header.Values,
			Body: func() (body []byte, err error) {
				body, giveBack, err := s.Read(w, r)
				if err == nil {
					release = sync.OnceFunc(giveBack)
				}
				return body, err
			}})
		if !keeps { // of what it holds, a message shares its body alone
			release()
		}
		if err != nil {
			return err
		}
		l := &lines{wanted: acceptsLines(r)}
		out, err := s.do(w, r, op, in, l)
		poll, waits := out.(*scheduler.Poll)
		switch {
		case err == nil && waits:
			return s.answerPull(w, r, poll)
		case err == nil && l.wanted && l.control != nil:
			return l.value("report", out)
		case err == nil:
			return s.RespondValue(w, http.StatusOK, out)
		case l.begun: // the status has been sent: the problem is the last line
			known := s.ops.Judge(CallerOf(r), err)
			CallerOf(r).Refused(known.Word)
			_ = l.line(ops.AppendProblem(nil, known))
			return nil
		}
		return err
	}
}

// Do does the operation of a name, from a request in the form that NATS has, for a route of another system.
func (s *Server) Do(w http.ResponseWriter, r *http.Request, name string, request []byte) (out any, err error) {
	op := s.named[name]
	if err := op.Ready(); err != nil {
		return nil, err
	}
	in, err := op.DecodeJSON(request)
	if err != nil {
		return nil, err
	}
	return s.do(w, r, op, in, &lines{})
}

// do does what a request asks for. A long operation writes its progress into lines that are wanted.
func (s *Server) do(w http.ResponseWriter, r *http.Request, op *ops.Operation, in any, l *lines) (any, error) {
	by, ctx := CallerOf(r), r.Context()
	by.Holder = s.holder(r, by.Token)
	by.Long = func(context.Context) (context.Context, func(any), func()) { return l.begin(s, w, r) }
	if !op.Long {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, s.cfg.Timeout)
		defer stop()
	}
	out, err := op.Do(ctx, by, in)
	if by.Version > 0 { // also after a refusal: it saves the look-up
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, by.Version)) // for If-Match
	}
	if l.control != nil {
		l.hurry()
	}
	return out, err
}
