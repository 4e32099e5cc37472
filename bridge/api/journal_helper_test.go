package api_test

import (
	"context"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// journal answers as a test sets it and keeps the requests.
type journal struct {
	mu    sync.Mutex
	asked []any

	records   []scheduler.Record // in order
	changes   []scheduler.Change
	forecasts []scheduler.Forecast
	lag       scheduler.Lag
	err       error
	lagErr    error

	restore   func(ctx context.Context, progress func(scheduler.RestoreReport)) (scheduler.RestoreReport, error)
	verify    func(ctx context.Context, progress func(scheduler.VerifyReport)) (scheduler.VerifyReport, error)
	redeliver func(ctx context.Context, progress func(scheduler.RedeliverReport)) (scheduler.RedeliverReport, error)
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

func (j *journal) History(_ context.Context, ref scheduler.Ref) (lives []scheduler.Life, err error) {
	j.note(ref)
	if j.err != nil {
		return nil, j.err
	}
	for _, r := range j.records {
		if ref.Viewer.Sees(r.Topic) {
			lives = append(lives, scheduler.Life{Record: r, Changes: j.changes})
		}
	}
	if len(lives) == 0 {
		return nil, scheduler.ErrUnknownID
	}
	return lives, nil
}

func (j *journal) Resolve(ctx context.Context, ref scheduler.Ref) (message.UID, error) {
	lives, err := j.History(ctx, ref)
	if err != nil {
		return "", err
	}
	return lives[0].UID, nil
}

// List pages through the records by place, whatever else was asked for.
func (j *journal) List(_ context.Context, q scheduler.RecordQuery) (page []scheduler.Record, err error) {
	j.note(q)
	for _, r := range j.records {
		if after := r.Due > q.AfterDue || r.Due == q.AfterDue && r.UID > q.AfterUID; after && len(page) < q.Limit {
			page = append(page, r)
		}
	}
	return page, j.err
}

func (j *journal) Forecast(_ context.Context, q scheduler.ForecastQuery) ([]scheduler.Forecast, error) {
	j.note(q)
	var found []scheduler.Forecast
	for _, f := range j.forecasts {
		if f.From >= q.From && f.From < q.Until {
			found = append(found, f)
		}
	}
	return found, j.err
}

func (j *journal) Lag(context.Context) (scheduler.Lag, error) { return j.lag, j.lagErr }

func (j *journal) Restore(ctx context.Context, req scheduler.RestoreRequest,
	progress func(scheduler.RestoreReport)) (scheduler.RestoreReport, error) {
	j.note(req)
	if j.restore != nil {
		return j.restore(ctx, progress)
	}
	return scheduler.RestoreReport{Read: 21, Added: 6, Raised: 5, Same: 4, InFlight: 3, Newer: 2}, j.err
}

func (j *journal) Verify(ctx context.Context, req scheduler.VerifyRequest,
	progress func(scheduler.VerifyReport)) (scheduler.VerifyReport, error) {
	j.note(req)
	if j.verify != nil {
		return j.verify(ctx, progress)
	}
	return scheduler.VerifyReport{}, j.err
}

func (j *journal) Redeliver(ctx context.Context, req scheduler.RedeliverRequest,
	progress func(scheduler.RedeliverReport)) (scheduler.RedeliverReport, error) {
	j.note(req)
	if j.redeliver != nil {
		return j.redeliver(ctx, progress)
	}
	return scheduler.RedeliverReport{Checked: 21, Present: 6, Gone: 5, Redelivered: 4, Unknown: 3, Failed: 1}, j.err
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

func record(uid message.UID, id string, due message.Milli, state message.State) scheduler.Record {
	return scheduler.Record{Info: message.Info{
		Message: message.Message{
			UID: uid, ID: id, Topic: "orders.remind", Due: due, Attempt: 1,
			Headers: []message.Header{{Name: "X", Value: "hidden"}}, Body: []byte("hidden"),
		},
		State: state, Version: 2,
	}}
}
