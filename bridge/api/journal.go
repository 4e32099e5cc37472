package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// Journal is what the journal does for this door. Whatever is wrong with the database or with the store must come as
// ErrUnavailable; an error that is not one of the scheduler's is answered with 500.
//
// progress may be nil. It is called now and then, from the goroutine of the call, with how far it is.
type Journal interface {
	// History is a message and, where it was asked for by its name, every other one that has or had the name, the
	// latest first: MaxLives in all, and one more where there are more. ErrUnknownID, ErrAmbiguousID, ErrUnavailable.
	History(ctx context.Context, ref scheduler.Ref) ([]scheduler.Life, error)
	// Resolve is the one message that a restore would mean. ErrUnknownID, ErrAmbiguousID, ErrUnavailable.
	Resolve(ctx context.Context, ref scheduler.Ref) (scheduler.UID, error)
	// List is a page of messages in the order of due, then uid.
	List(ctx context.Context, q scheduler.RecordQuery) ([]scheduler.Record, error)
	// Forecast counts what waits and falls due, by steps; empty steps may be missing.
	Forecast(ctx context.Context, q scheduler.ForecastQuery) ([]scheduler.Forecast, error)
	// Lag is what has happened and is not in the journal yet, in all buckets together.
	Lag(ctx context.Context) (scheduler.Lag, error)
	Restore(ctx context.Context, req scheduler.RestoreRequest,
		progress func(scheduler.RestoreReport)) (scheduler.RestoreReport, error)
	Verify(ctx context.Context, req scheduler.VerifyRequest,
		progress func(scheduler.VerifyReport)) (scheduler.VerifyReport, error)
	Redeliver(ctx context.Context, req scheduler.RedeliverRequest,
		progress func(scheduler.RedeliverReport)) (scheduler.RedeliverReport, error)
}

// The modes of the journal, as settings call them.
const (
	journalOff   = "off"
	journalAsync = "async"
	journalSync  = "sync"
)

// journalRoutes are those that only the journal can answer.
func (s *Server) journalRoutes(closed func(pattern string, needs right, h handler)) {
	asked := func(pattern string, needs right, h handler) { closed(pattern, needs, s.journaled(h)) }
	asked("GET /v1/messages", rightRead, s.list)
	asked("GET /v1/messages/{id}/history", rightLook, s.history)
	asked("POST /v1/messages/{id}/restore", rightOperate, s.restoreOne)
	asked("GET /v1/forecast", rightRead, s.forecast)
	asked("POST /v1/restore", rightOperate, s.restore)
	asked("POST /v1/verify", rightOperate, s.verify)
	asked("POST /v1/redeliver", rightOperate, s.redeliver)
}

// journaled lets h run only where there is a journal.
func (s *Server) journaled(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if s.cfg.Journal == nil {
			return refusal(http.StatusNotImplemented, WordNeedsJournal,
				"the journal is off; this needs journal.mode async or sync")
		}
		return h(w, r)
	}
}

// ask bounds one question to the journal. A question changes nothing, so that one without an answer is no unknown
// outcome.
func (s *Server) ask(r *http.Request, do func(ctx context.Context) error) error {
	ctx, stop := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer stop()
	err := do(ctx)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return refusal(http.StatusServiceUnavailable, answer.WordUnavailable, "the journal gave no answer within %s",
			s.cfg.Timeout)
	}
	return err
}

// lagAnswer is how far the journal is behind.
type lagAnswer struct {
	Changes int    `json:"changes"`
	Bytes   int64  `json:"bytes"`
	Oldest  string `json:"oldest,omitempty"` // of what is not written yet
	// Quarantined is how many entries the journal could not hold.
	Quarantined int `json:"quarantined,omitempty"`
}

// lagWithin bounds the look at the lag, which stands beside other answers and must not hold them up.
const lagWithin = 3 * time.Second

// lag is nil while nobody can tell.
func (s *Server) lag(ctx context.Context) *lagAnswer {
	ctx, stop := context.WithTimeout(ctx, lagWithin)
	defer stop()
	lag, err := s.cfg.Journal.Lag(ctx)
	if err != nil {
		s.log.Debug().Err(err).Msg("the journal's lag is not known")
		return nil
	}
	oldest := wire.FormatTime(int64(lag.Oldest))
	return &lagAnswer{Changes: lag.Changes, Bytes: lag.Bytes, Oldest: oldest, Quarantined: lag.Quarantined}
}

// journalAnswer is the journal's part of /v1/cluster.
type journalAnswer struct {
	Mode string     `json:"mode"`
	Lag  *lagAnswer `json:"lag,omitempty"`
}

func (s *Server) journalState(ctx context.Context) *journalAnswer {
	if s.cfg.JournalMode == "" {
		return nil
	}
	a := &journalAnswer{Mode: s.cfg.JournalMode}
	if s.cfg.Journal != nil {
		a.Lag = s.lag(ctx)
	}
	return a
}
