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
func (s *Server) operation(op *ops.Operation) handler {
	inQuery, keeps := op.Query(), op.Has(wire.FieldBody)
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := op.Ready(); err != nil {
			return err
		}
		values, err := query(r, inQuery...)
		if err != nil {
			return err
		}
		release := func() {}
		defer func() { release() }()
		in, err := op.Decode(&ops.Source{Path: r.PathValue, Query: values, Header: r.Header.Values,
			Body: func() (body []byte, err error) {
				body, giveBack, err := s.read(w, r)
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
		by, ctx, l := callerOf(r), r.Context(), &lines{}
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
		poll, waits := out.(*scheduler.Poll)
		switch {
		case err == nil && waits:
			return s.answerPull(w, r, poll)
		case err == nil && l.wanted:
			return l.value("report", out)
		case err == nil:
			return s.respondValue(w, http.StatusOK, out)
		case l.begun: // the status has been sent: the problem is the last line
			known := s.ops.Judge(by, err)
			by.Refused(known.Word)
			_ = l.line(ops.AppendProblem(nil, known))
			return nil
		}
		return err
	}
}
