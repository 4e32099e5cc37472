package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// An operation on many messages works in bounded steps and is long: see long.go. However it ends, its answer reports
// its progress, and so does its audit line, which remains even if the client has gone. An operation on everything by
// mistake is worse than a refusal, so it has to be requested explicitly: {"all":true}.

// cancelMany cancels the waiting messages that are selected.
func (s *Server) cancelMany(w http.ResponseWriter, r *http.Request) error {
	asked, err := order(s, w, r, wire.DecodeSelection)
	if err != nil {
		return err
	}
	selected, err := answer.Selection(&asked, s.cfg.Now())
	if err != nil {
		return err
	}
	return s.many(w, r, &s.canceling, "cancel", selected,
		func(ctx context.Context, progress func(scheduler.Report)) (scheduler.Report, error) {
			return s.cfg.Service.CancelMany(ctx, selected, progress)
		})
}

// rescheduleMany moves the waiting messages that are selected.
func (s *Server) rescheduleMany(w http.ResponseWriter, r *http.Request) error {
	var change wire.Edit
	asked, err := order(s, w, r, func(body []byte) (asked wire.Selection, err error) {
		asked, change, err = wire.DecodeRescheduleMany(body)
		return asked, err
	})
	if err != nil {
		return err
	}
	selected, err := answer.Selection(&asked, s.cfg.Now())
	if err != nil {
		return err
	}
	edit := answer.Edit(&change)
	return s.many(w, r, &s.rescheduling, "reschedule", selected,
		func(ctx context.Context, progress func(scheduler.Report)) (scheduler.Report, error) {
			return s.cfg.Service.RescheduleMany(ctx, selected, edit, progress)
		})
}

// many runs an operation on the selected messages; only one of each kind runs at a time.
func (s *Server) many(w http.ResponseWriter, r *http.Request, one *exclusive, what string, selected scheduler.Selection,
	do func(ctx context.Context, progress func(scheduler.Report)) (scheduler.Report, error)) error {
	end, err := one.begin(what + " of many")
	if err != nil {
		return err
	}
	defer end()
	line := s.auditMany(r, what, &selected)
	form := func(r *scheduler.Report) any { return answer.Report(*r, selected.DryRun) }
	return long(s, w, r, form, func(ctx context.Context, progress func(scheduler.Report)) (scheduler.Report, error) {
		defer end()
		report, err := do(ctx, progress)
		// logged too, because the caller may have gone
		line.Int("matched", report.Matched).Int("done", report.Done).Int("failed", report.Failed)
		if !errors.Is(err, scheduler.ErrOutcomeUnknown) {
			err = s.why(ctx, err)
		}
		if err != nil { // the caller should learn how much was done
			err = fmt.Errorf("%w: %w", err, &problem{answer.Stopped(report, selected.DryRun, err)})
		}
		return report, err
	})
}

// auditMany is audit for an operation on a selection.
func (s *Server) auditMany(r *http.Request, what string, selected *scheduler.Selection) *audit {
	line := s.audit(r, what, selected.DryRun).Str("topic", selected.Topic)
	if selected.HasKey {
		line.Str("key", selected.Key)
	}
	if selected.From != 0 {
		line.Str("from", wire.FormatTime(int64(selected.From)))
	}
	if selected.To != 0 {
		line.Str("to", wire.FormatTime(int64(selected.To)))
	}
	return line
}
