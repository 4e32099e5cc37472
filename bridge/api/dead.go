package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// dead shows the dead messages of the topics that match a pattern, in the order they died, without headers and bodies.
func (s *Server) dead(w http.ResponseWriter, r *http.Request) error {
	var (
		topic, after string
		limit        = defaultList
	)
	values, err := query(r, "topic", "limit", "cursor")
	p := params{values, err}
	p.read("topic", func(text string) error { topic = text; return wire.CheckPattern(text) })
	p.read("limit", func(text string) (err error) { limit, err = pageLimit(text); return err })
	// last: it is held against the rest
	p.read("cursor", func(text string) (err error) { after, err = openCursor(listDead, topic, text); return err })
	if p.err != nil {
		return p.err
	}
	a := listAnswer{Messages: []wire.Info{}}
	err = s.look(r, func(ctx context.Context) error {
		page, next, err := s.cfg.Service.Dead(ctx, topic, after, limit)
		switch {
		case errors.Is(err, scheduler.ErrBadCursor): // forged, or of another number of buckets
			return refusal(http.StatusBadRequest, WordCursor, "cursor %.40q is none that an answer gave",
				values.Get("cursor"))
		case err != nil:
			return err
		}
		for i := range page {
			page[i].Headers, page[i].Body = nil, nil
			a.Messages = append(a.Messages, answer.Info(&page[i]))
		}
		if next != "" {
			a.Cursor = sealCursor(listDead, topic, next)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.respondValue(w, http.StatusOK, a)
}

// requeue gives dead messages another life.
func (s *Server) requeue(w http.ResponseWriter, r *http.Request) error {
	var asked wire.DeadOrder
	err := s.order(w, r, func(body []byte) (err error) { asked, err = wire.DecodeDeadOrder(body); return err })
	if err != nil {
		return err
	}
	how := answer.Requeue(&asked)
	how.Fit = s.limits()
	if asked.Selects() {
		selected, err := answer.DeadSelection(&asked, s.cfg.Now())
		if err != nil {
			return err
		}
		return s.many(w, r, &s.requeueing, "requeue", selected,
			func(ctx context.Context, progress func(scheduler.Report)) (scheduler.Report, error) {
				return s.cfg.Service.RequeueMany(ctx, selected, how, progress)
			})
	}
	return s.named(w, r, "requeue", &asked, func(ctx context.Context, ref scheduler.Ref) (deadAnswer, error) {
		accepted, err := s.cfg.Service.RequeueOne(ctx, ref, how)
		accepted.Err = err
		result := answer.Requeued(ref, accepted)
		if result.Problem != nil {
			return deadAnswer{}, fmt.Errorf("%w: %w", err, &problem{*result.Problem})
		}
		return deadAnswer{UID: result.Answer.UID, Due: wire.FormatTime(result.Answer.Due), State: result.Answer.State,
			Durable: s.cfg.Durable}, nil
	})
}

// purge ends dead messages for good.
func (s *Server) purge(w http.ResponseWriter, r *http.Request) error {
	var asked wire.DeadOrder
	err := s.order(w, r, func(body []byte) (err error) { asked, err = wire.DecodePurge(body); return err })
	if err != nil {
		return err
	}
	if asked.Selects() {
		selected, err := answer.DeadSelection(&asked, s.cfg.Now())
		if err != nil {
			return err
		}
		return s.many(w, r, &s.purging, "purge", selected,
			func(ctx context.Context, progress func(scheduler.Report)) (scheduler.Report, error) {
				return s.cfg.Service.PurgeMany(ctx, selected, progress)
			})
	}
	return s.named(w, r, "purge", &asked, func(ctx context.Context, ref scheduler.Ref) (deadAnswer, error) {
		return deadAnswer{Purged: true}, s.cfg.Service.PurgeOne(ctx, ref)
	})
}

// deadAnswer is what became of one dead message: UID is that of the message it became.
type deadAnswer struct {
	ID      string `json:"id"`
	UID     string `json:"uid,omitempty"`
	Due     string `json:"due,omitempty"`
	State   string `json:"state,omitempty"`
	Durable string `json:"durable,omitempty"`
	Purged  bool   `json:"purged,omitempty"`
}

// deadAtOnce is how many of the messages of one request are worked on at a time: each may wait for the journal.
const deadAtOnce = 16

// named calls do for the dead messages that are named. For one message the status is its result. For several there is a
// result for each, in order, and a refused one does not hold the others back.
func (s *Server) named(w http.ResponseWriter, r *http.Request, what string, asked *wire.DeadOrder,
	do func(context.Context, scheduler.Ref) (deadAnswer, error)) error {
	if asked.DryRun {
		return &wire.Error{Word: wire.WordDryRun, Field: wire.FieldDryRun,
			Detail: "goes with a selection, which it counts; here every message is named"}
	}
	ctx, stop := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer stop()
	if asked.IDs == nil {
		ref, err := answer.Ref(asked.One)
		if err != nil {
			return err
		}
		s.audit(r, what, false).Str("id", asked.One.ID)
		done, err := do(ctx, ref)
		if err != nil {
			return err
		}
		done.ID = asked.One.ID
		return s.respondValue(w, http.StatusOK, done)
	}
	s.audit(r, what, false).Int("ids", len(asked.IDs))
	results := make([]any, len(asked.IDs))
	one := func(id string) any {
		ref, err := answer.Ref(wire.Named{ID: id})
		if err == nil && ctx.Err() != nil { // the ones before took all the time
			err = fmt.Errorf("%w: not asked for within %s", scheduler.ErrUnavailable, s.cfg.Timeout)
		}
		var done deadAnswer
		if err == nil {
			done, err = do(ctx, ref)
		}
		if err != nil {
			known := s.judged(r, err).Problem
			known.ID = id
			return known
		}
		done.ID = id
		return done
	}
	var (
		all   sync.WaitGroup
		slots = make(chan struct{}, deadAtOnce)
	)
	for i, id := range asked.IDs {
		slots <- struct{}{}
		all.Go(func() { // until its call, which ctx bounds
			defer func() { <-slots }()
			results[i] = one(id)
		})
	}
	all.Wait()
	return s.respondValue(w, http.StatusOK, struct {
		Results []any `json:"results"`
	}{results})
}

// pageLimit reads how many a page holds.
func pageLimit(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxList {
		return 0, refusal(http.StatusBadRequest, WordLimit, "limit %.40q is not a whole number from 1 to %d",
			text, maxList)
	}
	return n, nil
}

// look bounds one question to the scheduler. A question changes nothing, so that one without an answer is no unknown
// outcome.
func (s *Server) look(r *http.Request, do func(ctx context.Context) error) error {
	ctx, stop := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer stop()
	err := do(ctx)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return refusal(http.StatusServiceUnavailable, answer.WordUnavailable, "the store gave no answer within %s",
			s.cfg.Timeout)
	}
	return err
}
