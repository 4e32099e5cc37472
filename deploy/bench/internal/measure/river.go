package measure

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/tarry-mq/tarry/deploy/bench/internal/load"
	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
)

// riverJob is a job of the benchmark.
type riverJob struct {
	Body string `json:"body"`
}

func (riverJob) Kind() string { return "bench" }

// river works jobs that are all available with 32 workers, in this process. With River's own pause between two fetches,
// 100 ms, 32 workers could not do more than 320 a second, so this is the least that it allows.
func (b bench) river(ctx context.Context, s *stage.Scope) (Outcome, error) {
	driver := riverpgxv5.New(s.Postgres(producers + 4))
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return Outcome{}, fmt.Errorf("migrate river: %w", err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return Outcome{}, fmt.Errorf("migrate river: %w", err)
	}
	want := b.plan.Calls
	var worked atomic.Int64
	all := make(chan struct{})
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[riverJob]) error {
		if worked.Add(1) == int64(want) {
			close(all)
		}
		return nil
	}))
	client, err := river.NewClient(driver, &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: producers}},
		Workers:       workers,
		FetchCooldown: river.FetchCooldownMin,
		Logger:        slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return Outcome{}, fmt.Errorf("make river's client: %w", err)
	}
	for n := 0; n < want; {
		jobs := make([]river.InsertManyParams, 0, batchSize)
		for ; n < want && len(jobs) < batchSize; n++ {
			jobs = append(jobs, river.InsertManyParams{Args: riverJob{string(b.body(n))}})
		}
		if _, err := client.InsertManyFast(ctx, jobs); err != nil {
			return Outcome{}, fmt.Errorf("insert jobs: %w", err)
		}
	}
	cost, err := stage.Watch(stage.This())
	if err != nil {
		return Outcome{}, err
	}
	began := time.Now()
	if err := client.Start(ctx); err != nil {
		return Outcome{}, fmt.Errorf("start river: %w", err)
	}
	select {
	case <-all:
	case <-ctx.Done():
		return Outcome{}, context.Cause(ctx)
	}
	// Its completions follow the handlers, many in one statement: Stop waits for the last.
	if err := client.Stop(ctx); err != nil {
		return Outcome{}, fmt.Errorf("stop river: %w", err)
	}
	values := pushed(load.Sent{Count: want, Began: began, Elapsed: time.Since(began)})
	return Outcome{Values: values}, micros(values, cost, want)
}
