package api

import (
	"context"
	"net/http"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Journal is the part of the journal that the API uses. Failures of the database or of the store must be reported as
// ErrUnavailable; an error that is not one of the scheduler's is answered with 500.
//
// progress may be nil. It is called from time to time, from the goroutine of the call, with the progress so far.
type Journal interface {
	// History returns a message and, if it was requested by name, every other message that has or had the name, the
	// latest first. It returns at most MaxLives messages, plus one to show that there are more, and bounds the changes
	// of all of them together. Errors: ErrUnknownID, ErrAmbiguousID, ErrUnavailable.
	History(ctx context.Context, ref scheduler.Ref) ([]record.Life, error)
	// Rejects returns up to limit pushes that ref names and that were acknowledged and then rejected, the latest first.
	Rejects(ctx context.Context, ref scheduler.Ref, limit int) ([]scheduler.Rejected, error)
	// Resolve returns the uid of the one message that a restore would apply to. Errors: ErrUnknownID, ErrAmbiguousID,
	// ErrUnavailable.
	Resolve(ctx context.Context, ref scheduler.Ref) (message.UID, error)
	// Whole returns a message with its headers and body. Errors: ErrUnknownID, ErrUnavailable.
	Whole(ctx context.Context, uid message.UID) (record.Record, error)
	// List returns a page of messages in the order of due time, then uid.
	List(ctx context.Context, q record.RecordQuery) ([]record.Record, error)
	// Forecast counts the waiting messages that fall due, by step; empty steps may be missing.
	Forecast(ctx context.Context, q record.ForecastQuery) ([]record.Forecast, error)
	// Lag returns the changes that are not yet in the journal, over all buckets.
	Lag(ctx context.Context) (record.Lag, error)
	Restore(ctx context.Context, req record.RestoreRequest,
		progress func(record.RestoreReport)) (record.RestoreReport, error)
	Verify(ctx context.Context, req record.VerifyRequest,
		progress func(record.VerifyReport)) (record.VerifyReport, error)
	Redeliver(ctx context.Context, req record.RedeliverRequest,
		progress func(record.RedeliverReport)) (record.RedeliverReport, error)
}

// The modes of the journal, as in the settings.
const (
	journalOff   = "off"
	journalAsync = "async"
	journalSync  = "sync"
)

// journalRoutes registers the routes that only the journal can answer.
func (s *Server) journalRoutes(closed func(pattern string, needs right, h handler)) {
	asked := func(pattern string, needs right, h handler) { closed(pattern, needs, s.journaled(h)) }
	asked("GET /v1/messages", rightRead, s.list)
	asked("GET /v1/messages/{id}/history", rightLook, s.history)
	asked("POST /v1/messages/{id}/restore", rightOperate, s.restoreOne)
	asked("GET /v1/forecast", rightRead, s.forecast)
	asked("POST /v1/restore", rightOperate, plain(s.restore))
	asked("POST /v1/verify", rightOperate, plain(s.verify))
	asked("POST /v1/redeliver", rightOperate, plain(s.redeliver))
}

// journaled calls h only if there is a journal.
func (s *Server) journaled(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if s.cfg.Journal == nil {
			return refusal(http.StatusNotImplemented, WordNeedsJournal,
				"the journal is off; this needs journal.mode async or sync")
		}
		return h(w, r)
	}
}

// lagWithin bounds reading the lag, which accompanies other answers and must not delay them.
const lagWithin = 3 * time.Second

// lag returns nil while the lag cannot be read.
func (s *Server) lag(ctx context.Context) *record.Lag {
	ctx, stop := context.WithTimeout(ctx, lagWithin)
	defer stop()
	lag, err := s.cfg.Journal.Lag(ctx)
	if err != nil {
		s.log.Debug().Err(err).Msg("the journal's lag is not known")
		return nil
	}
	return &lag
}

func (s *Server) journalState(ctx context.Context) *ops.JournalState {
	if s.cfg.JournalMode == "" {
		return nil
	}
	a := &ops.JournalState{Mode: s.cfg.JournalMode}
	if s.cfg.Journal != nil {
		a.Lag = s.lag(ctx)
	}
	return a
}

func restored(dry bool) func(*record.RestoreReport) any {
	return func(r *record.RestoreReport) any { r.DryRun = dry; return r }
}

// restore restores the messages that the journal has and the store lacks.
func (s *Server) restore(w http.ResponseWriter, r *http.Request) error {
	asked, err := decoded(s, w, r, ops.DecodeRestore)
	if err != nil {
		return err
	}
	s.audit(r, "restore", asked.DryRun).Bool("overdue", asked.Overdue).Str("topic", asked.Topic).Int("rate", asked.Rate)
	return long(s, w, r, s.restoring, restored(asked.DryRun),
		func(ctx context.Context, progress func(record.RestoreReport)) (record.RestoreReport, error) {
			return s.cfg.Journal.Restore(ctx, record.RestoreRequest{
				Topic: asked.Topic, Overdue: asked.Overdue, DryRun: asked.DryRun, Rate: asked.Rate,
			}, progress)
		})
}

// restoreOne restores one message, whether or not it is already due.
func (s *Server) restoreOne(w http.ResponseWriter, r *http.Request) error {
	ref, err := reference(r)
	if err != nil {
		return err
	}
	dry, err := decoded(s, w, r, ops.DecodeRestoreOne)
	if err != nil {
		return err
	}
	s.audit(r, "restore", dry).Str("id", r.PathValue("id"))
	if ref.UID == "" || ref.Topic != "" {
		err := s.ask(r, "journal", func(ctx context.Context) (err error) {
			ref.UID, err = s.cfg.Journal.Resolve(ctx, ref)
			return err
		})
		if err != nil {
			return err
		}
	}
	return s.done(w, r, func(ctx context.Context) (any, error) {
		report, err := s.cfg.Journal.Restore(ctx, record.RestoreRequest{UID: ref.UID, Overdue: true, DryRun: dry}, nil)
		if err == nil && report.Read == 0 {
			err = scheduler.ErrUnknownID
		}
		return restored(dry)(&report), err
	})
}

// verified has an empty list where there is none.
func verified(r *record.VerifyReport) any {
	if r.Found == nil {
		r.Found = map[string]int{}
	}
	if r.Differences == nil {
		r.Differences = []record.Difference{}
	}
	for i := range r.Quarantined {
		if q := &r.Quarantined[i]; q.UIDs == nil {
			q.UIDs = []message.UID{}
		}
	}
	return r
}

// verify compares the store with the journal, and repairs or revives if requested.
func (s *Server) verify(w http.ResponseWriter, r *http.Request) error {
	asked, err := decoded(s, w, r, ops.DecodeVerify)
	if err != nil {
		return err
	}
	s.audit(r, "verify", asked == ops.Verify{}).Bool("revive", asked.Revive)
	return long(s, w, r, s.verifying, verified,
		func(ctx context.Context, progress func(record.VerifyReport)) (record.VerifyReport, error) {
			counts := progress
			if progress != nil { // only the report lists the differences
				counts = func(r record.VerifyReport) { r.Differences = nil; progress(r) }
			}
			return s.cfg.Journal.Verify(ctx, record.VerifyRequest{Repair: asked.Repair, Revive: asked.Revive}, counts)
		})
}

// redeliver publishes again the messages that NATS stored since a given moment and has lost.
func (s *Server) redeliver(w http.ResponseWriter, r *http.Request) error {
	asked, err := decoded(s, w, r, ops.DecodeRedeliver)
	if err != nil {
		return err
	}
	now := s.cfg.Now()
	since := asked.Since.Ago(now)
	if since.After(now) {
		return &wire.Error{Word: ops.WordSince, Field: ops.FieldSince,
			Detail: "lies in the future; it is the time of the first delivery to check"}
	}
	// rounded down, because the range begins there
	request := record.RedeliverRequest{Since: message.Milli(since.UnixMilli()), Topic: asked.Topic,
		DryRun: asked.DryRun}
	s.audit(r, "redeliver", asked.DryRun).Str("since", ops.FormatTime(int64(request.Since))).Str("topic", asked.Topic)
	form := func(r *record.RedeliverReport) any { r.DryRun = asked.DryRun; return r }
	return long(s, w, r, s.redelivering, form,
		func(ctx context.Context, progress func(record.RedeliverReport)) (record.RedeliverReport, error) {
			return s.cfg.Journal.Redeliver(ctx, request, progress)
		})
}
