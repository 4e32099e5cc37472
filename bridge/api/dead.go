package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// dead lists the dead messages of the topics that match a pattern, in the order of their death, without headers and
// bodies.
func (s *Server) dead(w http.ResponseWriter, r *http.Request) error {
	topic, after, limit := "", "", defaultList
	values, err := query(r, "topic", "limit", "cursor")
	p := params{values, err}
	p.read("topic", func(text string) error { topic = text; return wire.CheckPattern(text) })
	p.read("limit", func(text string) (err error) { limit, err = pageLimit(text); return err })
	// last: it is checked against the others
	p.read("cursor", func(text string) (err error) { after, err = openCursor(listDead, topic, text); return err })
	if p.err != nil {
		return p.err
	}
	a := ops.MessageList{Messages: []ops.Info{}}
	return s.show(w, r, "store", &a, func(ctx context.Context) error {
		page, next, err := s.cfg.Service.Dead(ctx, topic, after, limit)
		if errors.Is(err, scheduler.ErrBadCursor) { // forged, or made when the number of buckets was another
			err = badCursor(values.Get("cursor"))
		}
		for i := range page {
			page[i].Headers, page[i].Body = nil, nil
			a.Messages = append(a.Messages, ops.InfoOf(&page[i]))
		}
		if next != "" {
			a.Cursor = sealCursor(listDead, topic, next)
		}
		return err
	})
}

// requeue pushes dead messages again.
func (s *Server) requeue(w http.ResponseWriter, r *http.Request) error {
	asked, err := decoded(s, w, r, ops.DecodeDeadOrder)
	if err != nil {
		return err
	}
	how := ops.Requeue(&asked)
	how.Fit = s.limits()
	if asked.Selects() {
		selected, err := ops.DeadSelection(&asked, s.cfg.Now())
		if err != nil {
			return err
		}
		return s.many(w, r, s.requeueing, "requeue", selected,
			func(ctx context.Context, progress func(scheduler.Report)) (scheduler.Report, error) {
				return s.cfg.Service.RequeueMany(ctx, selected, how, progress)
			})
	}
	return s.named(w, r, "requeue", &asked, func(ctx context.Context, ref scheduler.Ref) (ops.DeadResult, error) {
		accepted, err := s.cfg.Service.RequeueOne(ctx, ref, how)
		accepted.Err = err
		result := ops.Requeued(ref, accepted)
		if result.Problem != nil {
			return ops.DeadResult{}, fmt.Errorf("%w: %w", err, &problem{*result.Problem})
		}
		return ops.DeadResult{UID: result.Answer.UID, Due: ops.FormatTime(result.Answer.Due),
			State:   result.Answer.State,
			Durable: s.cfg.Durable}, nil
	})
}

// purge removes dead messages for good.
func (s *Server) purge(w http.ResponseWriter, r *http.Request) error {
	asked, err := decoded(s, w, r, ops.DecodePurge)
	if err != nil {
		return err
	}
	if asked.Selects() {
		selected, err := ops.DeadSelection(&asked, s.cfg.Now())
		if err != nil {
			return err
		}
		return s.many(w, r, s.purging, "purge", selected,
			func(ctx context.Context, progress func(scheduler.Report)) (scheduler.Report, error) {
				return s.cfg.Service.PurgeMany(ctx, selected, progress)
			})
	}
	return s.named(w, r, "purge", &asked, func(ctx context.Context, ref scheduler.Ref) (ops.DeadResult, error) {
		return ops.DeadResult{Purged: true}, s.cfg.Service.PurgeOne(ctx, ref)
	})
}

// deadAtOnce is the number of messages of one request that are processed concurrently: each may wait for the journal.
const deadAtOnce = 16

// named calls do for each of the named dead messages. For a single message the status is its result. For several
// messages the answer has a result for each, in order, and a refusal does not affect the others.
func (s *Server) named(w http.ResponseWriter, r *http.Request, what string, asked *ops.DeadOrder,
	do func(context.Context, scheduler.Ref) (ops.DeadResult, error)) error {
	if asked.DryRun {
		return &wire.Error{Word: ops.WordDryRun, Field: ops.FieldDryRun,
			Detail: "requires a selection, which it counts; here every message is named"}
	}
	ctx, stop := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer stop()
	if asked.IDs == nil {
		ref, err := ops.Ref(asked.One)
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
		ref, err := ops.Ref(ops.Named{ID: id})
		if err == nil && ctx.Err() != nil { // the messages before it used up the time
			err = fmt.Errorf("%w: not attempted within %s", scheduler.ErrUnavailable, s.cfg.Timeout)
		}
		var done ops.DeadResult
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
		all.Go(func() { // ends with its call, which ctx bounds
			defer func() { <-slots }()
			results[i] = one(id)
		})
	}
	all.Wait()
	return s.respondValue(w, http.StatusOK, struct {
		Results []any `json:"results"`
	}{results})
}
