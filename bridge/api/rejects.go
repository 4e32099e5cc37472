package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// Rejects are the pushes by tag that NATS acknowledged and tarry refused. The errors are those of bridge/ops about
// rejects, the refusals of a push by bridge/wire, and ErrUnavailable.
type Rejects interface {
	// List returns a page in the order of sequence, without headers and bodies, and the sequence at which the next page
	// begins, or 0 if there is none. A page may hold fewer than the limit and have a next one.
	List(ctx context.Context, q ops.RejectQuery) ([]ops.Rejected, uint64, error)
	// Get returns one reject with headers and body.
	Get(ctx context.Context, sequence uint64) (ops.Rejected, error)
	// Push returns a reject as a push, with the order's changes applied. Pushing it twice makes one message.
	Push(ctx context.Context, sequence uint64, o *ops.RejectOrder) (*scheduler.Push, error)
	// Drop removes a reject.
	Drop(ctx context.Context, sequence uint64) error
}

func (s *Server) rejectRoutes(closed func(pattern string, needs right, h handler)) {
	kept := func(pattern string, needs right, h handler) {
		closed(pattern, needs, func(w http.ResponseWriter, r *http.Request) error {
			if s.cfg.Rejects == nil {
				return ops.ErrNoRejects
			}
			return h(w, r)
		})
	}
	kept("GET /v1/rejects", rightLook, s.rejects)
	kept("GET /v1/rejects/{sequence}", rightRead, plain(s.reject))
	kept("POST /v1/rejects/requeue", rightRequeue, plain(s.requeueRejects))
}

// rejects lists the rejects, oldest first. A token without the read right sees only the topics that it may push to.
func (s *Server) rejects(w http.ResponseWriter, r *http.Request) error {
	q := ops.RejectQuery{Limit: defaultList, See: sight(r)}
	values, err := query(r, "topic", "id", "reason", "limit", "cursor")
	p := params{values, err}
	p.read("topic", func(text string) error { q.Topic = text; return wire.CheckPattern(text) })
	p.read("id", func(text string) error {
		if q.ID = text; text == "" { // the id of a refused push may be anything
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
	p.read("cursor", func(text string) error { // last: it is checked against the others
		next, err := openCursor(listRejects, mark, text)
		if err != nil {
			return err
		}
		if q.From, err = strconv.ParseUint(next, 10, 64); err != nil {
			return badCursor(text)
		}
		return nil
	})
	if p.err != nil {
		return p.err
	}
	a := ops.RejectList{Rejects: []ops.Rejected{}}
	return s.show(w, r, "store", &a, func(ctx context.Context) error {
		page, next, err := s.cfg.Rejects.List(ctx, q)
		a.Rejects = append(a.Rejects, page...)
		if next != 0 {
			a.Cursor = sealCursor(listRejects, mark, strconv.FormatUint(next, 10))
		}
		return err
	})
}

// sight returns the filter of the topics that the caller may see, nil for all topics.
func sight(r *http.Request) func(topic string) bool {
	t := visitOf(r).token
	if t == nil || t.has(rightRead) {
		return nil
	}
	return t.pushes
}

// reject answers with one reject, including headers and body.
func (s *Server) reject(w http.ResponseWriter, r *http.Request) error {
	sequence, err := strconv.ParseUint(r.PathValue("sequence"), 10, 64)
	if err != nil || sequence == 0 {
		return refusal(http.StatusBadRequest, ops.WordSequence,
			"sequence %.40q is not a whole number from 1", r.PathValue("sequence"))
	}
	var one ops.Rejected
	return s.show(w, r, "store", &one, func(ctx context.Context) (err error) {
		one, err = s.cfg.Rejects.Get(ctx, sequence)
		return err
	})
}

// refusedReject is a reject that was refused again. It stays in the stream.
type refusedReject struct {
	Sequence uint64 `json:"sequence"`
	ops.Problem
}

// requeueRejects pushes rejects again, with the order's changes applied. An accepted push is removed from the rejects.
func (s *Server) requeueRejects(w http.ResponseWriter, r *http.Request) error {
	asked, err := decoded(s, w, r, func(body []byte) (ops.RejectOrder, error) {
		return ops.DecodeRejectOrder(body, s.cfg.Prefix)
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
		all = once(all)
		line.Int("sequences", len(all))
	}
	ctx, stop := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer stop()
	var (
		results = make([]any, len(all))
		failed  error // of the last
		away    error // set once the stream of rejects fails: each further call would wait as long
		done    int
		held    int64 // of bodies, in bytes
	)
	by := s.holder(r, visitOf(r).token)
	defer func() { s.reading.give(by, held) }()
	refuse := func(i int, err error) {
		results[i], failed = refusedReject{all[i], s.judged(r, err).Problem}, err
	}
	for next := 0; next < len(all); {
		var (
			pushes []*scheduler.Push
			places []int // of pushes among results
		)
		// As many as a request may hold, so that a thousand of the largest are not in memory at once.
		for ; next < len(all) && held < s.cfg.MaxBody; next++ {
			if away != nil {
				refuse(next, away)
				continue
			}
			p, err := s.again(ctx, r, all[next], &asked)
			if errors.Is(err, scheduler.ErrUnavailable) {
				away = err
			}
			if err == nil {
				err = s.hold(by, int64(len(p.Body)))
			}
			if err != nil {
				refuse(next, err)
				continue
			}
			held += int64(len(p.Body))
			pushes, places = append(pushes, p), append(places, next)
		}
		accepted := []scheduler.Accepted{}
		if len(pushes) > 0 {
			accepted = s.cfg.Service.AcceptAll(ctx, pushes)
		}
		s.reading.give(by, held)
		held = 0
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
						"a reject that was pushed again could not be removed")
				}
				if errors.Is(kept, scheduler.ErrUnavailable) {
					away = kept
				}
			}
			results[i] = ops.RequeuedReject{
				Sequence: all[i], ID: result.Answer.ID, UID: result.Answer.UID,
				Due: ops.FormatTime(result.Answer.Due), State: result.Answer.State,
				Durable: result.Answer.Durable, Duplicate: result.Answer.Duplicate, Merged: result.Answer.Merged,
				Kept: kept != nil,
			}
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

// once returns the numbers in their order, each once.
func once(all []uint64) []uint64 {
	seen := make(map[uint64]bool, len(all))
	return slices.DeleteFunc(slices.Clone(all), func(n uint64) bool {
		again := seen[n]
		seen[n] = true
		return again
	})
}

// again returns a reject as a push that the caller may make. Rejects of topics to which the caller may not push appear
// not to exist.
func (s *Server) again(ctx context.Context, r *http.Request, sequence uint64,
	o *ops.RejectOrder) (*scheduler.Push, error) {
	if limited(r) {
		one, err := s.cfg.Rejects.Get(ctx, sequence)
		if err == nil && !visitOf(r).token.pushes(one.Topic) {
			err = ops.ErrUnknownReject
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
