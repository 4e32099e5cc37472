package app

import (
	"context"
	"sync"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/store/journal"
)

// silence ends the questions to a server when a look at it gets no answer, and those asked from then on until one does:
// nobody should wait for what the instance knows.
type silence struct {
	mu    sync.Mutex
	heard context.Context // until a look gets no answer; nil before the first look
	end   context.CancelFunc
}

// note takes what a look found.
func (s *silence) note(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard == nil || !silent && s.heard.Err() != nil {
		s.heard, s.end = context.WithCancel(context.Background())
	}
	if silent {
		s.end()
	}
}

// during returns a context that ends with ctx, or when a look gets no answer. The caller calls stop.
func (s *silence) during(ctx context.Context) (bound context.Context, stop func()) {
	bound, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard == nil {
		return bound, cancel
	}
	release := context.AfterFunc(s.heard, cancel)
	return bound, func() { release(); cancel() }
}

// questions are the journal for those calls that only tell a person something. A push is not among them: a few seconds'
// patience may still save it.
type questions struct {
	journal.Store
	silence *silence
}

func (q questions) Find(ctx context.Context, ref scheduler.Ref, limit int) ([]record.Record, error) {
	ctx, stop := q.silence.during(ctx)
	defer stop()
	return q.Store.Find(ctx, ref, limit)
}

func (q questions) Rejects(ctx context.Context, ref scheduler.Ref, limit int) ([]scheduler.Rejected, error) {
	ctx, stop := q.silence.during(ctx)
	defer stop()
	return q.Store.Rejects(ctx, ref, limit)
}

func (q questions) History(ctx context.Context, uid message.UID, limit int) ([]record.Change, error) {
	ctx, stop := q.silence.during(ctx)
	defer stop()
	return q.Store.History(ctx, uid, limit)
}

func (q questions) List(ctx context.Context, list record.RecordQuery) ([]record.Record, error) {
	ctx, stop := q.silence.during(ctx)
	defer stop()
	return q.Store.List(ctx, list)
}

func (q questions) Forecast(ctx context.Context, f record.ForecastQuery) ([]record.Forecast, error) {
	ctx, stop := q.silence.during(ctx)
	defer stop()
	return q.Store.Forecast(ctx, f)
}
