package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// Rejects are the pushes by tag that NATS had acknowledged and tarry refused. Its errors are answer's about rejects,
// wire's refusals of a push, and ErrUnavailable.
type Rejects interface {
	// List is a page in the order of sequence, without headers and bodies, and the sequence that the next page begins
	// with, 0 for no next page. A page may hold fewer than the limit and have a next one.
	List(ctx context.Context, q answer.RejectQuery) ([]wire.Rejected, uint64, error)
	// Get is one reject, whole.
	Get(ctx context.Context, sequence uint64) (wire.Rejected, error)
	// Push is a reject as a push, changed as the order says. To push it twice makes one message.
	Push(ctx context.Context, sequence uint64, o *wire.RejectOrder) (*scheduler.Push, error)
	// Drop takes a reject away.
	Drop(ctx context.Context, sequence uint64) error
}

// rejectsAnswer is a page of rejects. Cursor asks for the next page; the last page has none.
type rejectsAnswer struct {
	Rejects []wire.Rejected `json:"rejects"`
	Cursor  string          `json:"cursor,omitempty"`
}

func (s *Server) rejectRoutes(closed func(pattern string, needs right, h handler)) {
	kept := func(pattern string, needs right, h handler) {
		closed(pattern, needs, func(w http.ResponseWriter, r *http.Request) error {
			if s.cfg.Rejects == nil {
				return answer.ErrNoRejects
			}
			return h(w, r)
		})
	}
	kept("GET /v1/rejects", rightLook, s.rejects)
	kept("GET /v1/rejects/{sequence}", rightRead, s.reject)
	kept("POST /v1/rejects/requeue", rightRequeue, s.requeueRejects)
}

// rejects lists what was refused, oldest first. A token that may not read sees the topics that it may push to.
func (s *Server) rejects(w http.ResponseWriter, r *http.Request) error {
	q := answer.RejectQuery{Limit: defaultList, See: sight(r)}
	values, err := query(r, "topic", "id", "reason", "limit", "cursor")
	p := params{values, err}
	p.read("topic", func(text string) error { q.Topic = text; return wire.CheckPattern(text) })
	p.read("id", func(text string) error {
		if q.ID = text; text == "" { // that of a push may be anything, since it was refused
			return &wire.Error{Word: wire.WordID, Field: wire.FieldID, Detail: "is empty"}
		}
		return nil
	})
	p.read("reason", func(text string) error {
		if q.Word = text; text == "" {
			return refusal(http.StatusBadRequest, WordReason, "reason is empty; it is a word such as %s",
				wire.WordDelay)
		}
		return nil
	})
	p.read("limit", func(text string) (err error) { q.Limit, err = pageLimit(text); return err })
	mark := fmt.Sprintf("%q %q %q", q.Topic, q.ID, q.Word)
	p.read("cursor", func(text string) error { // last: it is held against the rest
		next, err := openCursor(listRejects, mark, text)
		if err != nil {
			return err
		}
		if q.From, err = strconv.ParseUint(next, 10, 64); err != nil {
			return refusal(http.StatusBadRequest, WordCursor, "cursor %.40q is none that an answer gave", text)
		}
		return nil
	})
	if p.err != nil {
		return p.err
	}
	a := rejectsAnswer{Rejects: []wire.Rejected{}}
	err = s.look(r, func(ctx context.Context) error {
		page, next, err := s.cfg.Rejects.List(ctx, q)
		if err != nil {
			return err
		}
		a.Rejects = append(a.Rejects, page...)
		if next != 0 {
			a.Cursor = sealCursor(listRejects, mark, strconv.FormatUint(next, 10))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.respondValue(w, http.StatusOK, a)
}

// sight is what the caller may see by topic, nil for everything.
func sight(r *http.Request) func(topic string) bool {
	t := visitOf(r).token
	if t == nil || t.has(rightRead) {
		return nil
	}
	return t.pushes
}

// reject shows one with its headers and its body.
func (s *Server) reject(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	sequence, err := strconv.ParseUint(r.PathValue("sequence"), 10, 64)
	if err != nil || sequence == 0 {
		return refusal(http.StatusBadRequest, wire.WordSequence,
			"sequence %.40q is not a whole number from 1", r.PathValue("sequence"))
	}
	var one wire.Rejected
	err = s.look(r, func(ctx context.Context) (err error) { one, err = s.cfg.Rejects.Get(ctx, sequence); return err })
	if err != nil {
		return err
	}
	return s.respondValue(w, http.StatusOK, one)
}

// requeuedReject is a reject that was pushed again. Kept: the push is accepted, but its reject could not be taken away;
// to push it once more makes no second message.
type requeuedReject struct {
	Sequence  uint64 `json:"sequence"`
	ID        string `json:"id"`
	UID       string `json:"uid"`
	Due       string `json:"due"`
	State     string `json:"state"`
	Durable   string `json:"durable"`
	Duplicate bool   `json:"duplicate,omitempty"`
	Merged    bool   `json:"merged,omitempty"`
	Kept      bool   `json:"kept,omitempty"`
}

// refusedReject is one that is refused again. It stays where it is.
type refusedReject struct {
	Sequence uint64 `json:"sequence"`
	wire.Problem
}

// requeueRejects pushes rejects again, mended as the order says. One that is accepted is no reject any more.
func (s *Server) requeueRejects(w http.ResponseWriter, r *http.Request) error {
	var asked wire.RejectOrder
	err := s.order(w, r, func(body []byte) (err error) {
		asked, err = wire.DecodeRejectOrder(body, s.cfg.Prefix)
		return err
	})
	if err != nil {
		return err
	}
	all := asked.Sequences
	line := s.audit(r, "requeue rejects", false)
	if all == nil {
		all = []uint64{asked.Sequence}
		line.Str("sequence", strconv.FormatUint(asked.Sequence, 10))
	} else {
		line.Int("sequences", len(all))
	}
	ctx, stop := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer stop()
	var (
		results = make([]any, len(all))
		failed  error // of the last
		pushes  []*scheduler.Push
		places  []int // of pushes among results
	)
	refuse := func(i int, err error) {
		results[i], failed = refusedReject{all[i], s.judged(r, err).Problem}, err
	}
	var away error // why the stream of rejects is not asked any more: each call would wait as long
	for i, sequence := range all {
		if away != nil {
			refuse(i, away)
			continue
		}
		p, err := s.again(ctx, r, sequence, &asked)
		if errors.Is(err, scheduler.ErrUnavailable) {
			away = err
		}
		if err != nil {
			refuse(i, err)
			continue
		}
		pushes, places = append(pushes, p), append(places, i)
	}
	accepted := []scheduler.Accepted{}
	if len(pushes) > 0 {
		accepted = s.cfg.Service.AcceptAll(ctx, pushes)
	}
	done := 0
	for n, a := range accepted {
		i := places[n]
		result := s.result(a)
		if result.Problem != nil {
			refuse(i, &problem{*result.Problem})
			continue
		}
		done++
		kept := away
		if away == nil {
			if kept = s.cfg.Rejects.Drop(ctx, all[i]); kept != nil {
				s.log.Warn().Err(kept).Uint64("sequence", all[i]).Msg(
					"a reject that was pushed again could not be taken away")
			}
			if errors.Is(kept, scheduler.ErrUnavailable) {
				away = kept
			}
		}
		results[i] = requeuedReject{
			Sequence: all[i], ID: result.Answer.ID, UID: result.Answer.UID,
			Due: wire.FormatTime(result.Answer.Due), State: result.Answer.State,
			Durable: result.Answer.Durable, Duplicate: result.Answer.Duplicate, Merged: result.Answer.Merged,
			Kept: kept != nil,
		}
	}
	line.Int("done", done)
	if asked.Sequences != nil {
		return s.respondValue(w, http.StatusOK, struct {
			Results []any `json:"results"`
		}{results})
	}
	if failed != nil {
		return failed
	}
	return s.respondValue(w, http.StatusOK, results[0])
}

// again is a reject as a push that the caller may make. On a topic that the caller may not push to there are no
// rejects.
func (s *Server) again(ctx context.Context, r *http.Request, sequence uint64,
	o *wire.RejectOrder) (*scheduler.Push, error) {
	if limited(r) {
		one, err := s.cfg.Rejects.Get(ctx, sequence)
		if err == nil && !visitOf(r).token.pushes(one.Topic) {
			err = answer.ErrUnknownReject
		}
		if err != nil {
			return nil, err
		}
	}
	push, err := s.cfg.Rejects.Push(ctx, sequence, o)
	if err != nil {
		return nil, err
	}
	if o.Topic != "" {
		err = mayPush(r, push.Topic)
	} else {
		err = mayChange(r, push.Topic)
	}
	if err != nil {
		return nil, err
	}
	return push, nil
}
