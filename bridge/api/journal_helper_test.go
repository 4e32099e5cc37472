package api_test

import (
	"context"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// journal answers as a test sets it and keeps the requests.
type journal struct {
	mu    sync.Mutex
	asked []any

	records   []record.Record // in order
	changes   []record.Change
	forecasts []record.Forecast
	rejects   []scheduler.Rejected
	acts      []record.Action // in the order of their records
	lag       record.Lag
	err       error
	lagErr    error

	restore   func(ctx context.Context, progress func(record.RestoreReport)) (record.RestoreReport, error)
	verify    func(ctx context.Context, progress func(record.VerifyReport)) (record.VerifyReport, error)
	redeliver func(ctx context.Context, progress func(record.RedeliverReport)) (record.RedeliverReport, error)
}

func (j *journal) note(what any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked = append(j.asked, what)
}

// last is what was asked last, nil if nothing was.
func (j *journal) last() any {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.asked) == 0 {
		return nil
	}
	return j.asked[len(j.asked)-1]
}

func (j *journal) History(_ context.Context, ref scheduler.Ref) (lives []record.Life, err error) {
	j.note(ref)
	if j.err != nil {
		return nil, j.err
	}
	for _, r := range j.records {
		if ref.Viewer.Sees(r.Topic) {
			lives = append(lives, record.Life{Record: r, Changes: j.changes})
		}
	}
	if len(lives) == 0 {
		return nil, scheduler.ErrUnknownID
	}
	return lives, nil
}

func (j *journal) Rejects(context.Context, scheduler.Ref, int) ([]scheduler.Rejected, error) {
	return j.rejects, j.err
}

func (j *journal) Resolve(ctx context.Context, ref scheduler.Ref) (message.UID, error) {
	lives, err := j.History(ctx, ref)
	if err != nil {
		return "", err
	}
	return lives[0].UID, nil
}

func (j *journal) Whole(_ context.Context, uid message.UID) (record.Record, error) {
	for _, r := range j.records {
		if r.UID == uid {
			return r, j.err
		}
	}
	return record.Record{}, scheduler.ErrUnknownID
}

// List pages through the records by place, whatever else was asked for.
func (j *journal) List(_ context.Context, q record.RecordQuery) (page []record.Record, err error) {
	j.note(q)
	for _, r := range j.records {
		if after := r.Due > q.AfterDue || r.Due == q.AfterDue && r.UID > q.AfterUID; after && len(page) < q.Limit {
			page = append(page, r)
		}
	}
	return page, j.err
}

// Act keeps each record of an action.
func (j *journal) Act(_ context.Context, a *record.Action) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.acts = append(j.acts, *a)
}

func (j *journal) Actions(_ context.Context, q record.ActionQuery) (found []record.Action, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range j.acts {
		if q.Takes(&j.acts[i]) {
			found = append(found, j.acts[i])
		}
	}
	return found, j.err
}

func (j *journal) Forecast(_ context.Context, q record.ForecastQuery) ([]record.Forecast, error) {
	j.note(q)
	var found []record.Forecast
	for _, f := range j.forecasts {
		if f.From >= q.From && f.From < q.Until {
			found = append(found, f)
		}
	}
	return found, j.err
}

func (j *journal) Lag(context.Context) (record.Lag, error) { return j.lag, j.lagErr }

func (j *journal) Restore(ctx context.Context, req record.RestoreRequest,
	progress func(record.RestoreReport)) (record.RestoreReport, error) {
	j.note(req)
	if j.restore != nil {
		return j.restore(ctx, progress)
	}
	return record.RestoreReport{Read: 21, Added: 6, Raised: 5, Same: 4, InFlight: 3, Newer: 2}, j.err
}

func (j *journal) Verify(ctx context.Context, req record.VerifyRequest,
	progress func(record.VerifyReport)) (record.VerifyReport, error) {
	j.note(req)
	if j.verify != nil {
		return j.verify(ctx, progress)
	}
	return record.VerifyReport{}, j.err
}

func (j *journal) Redeliver(ctx context.Context, req record.RedeliverRequest,
	progress func(record.RedeliverReport)) (record.RedeliverReport, error) {
	j.note(req)
	if j.redeliver != nil {
		return j.redeliver(ctx, progress)
	}
	return record.RedeliverReport{Checked: 21, Present: 6, Gone: 5, Redelivered: 4, Unknown: 3, Failed: 1}, j.err
}

// keeping opens a door with this journal, at a moment that stands still.
func keeping(j *journal) func(*api.Config) {
	return func(c *api.Config) {
		c.Journal, c.JournalMode, c.Now = j, "async", func() time.Time { return noon }
	}
}

var noon = time.Date(2030, 1, 31, 12, 0, 0, 500_000, time.UTC) // half a millisecond after

const (
	uidA = message.UID("t-000000000000000a")
	uidB = message.UID("t-000000000000000b")
	uidC = message.UID("t-000000000000000c")
)

func recordOf(uid message.UID, id string, due message.Milli, state message.State) record.Record {
	return record.Record{Info: message.Info{
		Message: message.Message{
			UID: uid, ID: id, Topic: "orders.remind", Due: due, Attempt: 1,
			Headers: []message.Header{{Name: "X", Value: "hidden"}}, Body: []byte("hidden"),
		},
		State: state, Version: 2,
	}}
}
