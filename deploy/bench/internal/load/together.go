package load

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// together runs workers that share the numbers of one push, from 0, and waits for all. A worker handles each number it
// takes, or fails; the first error stops the others.
func together(ctx context.Context, workers, want int, began time.Time,
	work func(ctx context.Context, next func() int) error) (Sent, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		taken atomic.Int64
		group sync.WaitGroup
		next  = func() int { return int(taken.Add(1)) - 1 }
	)
	errs := make([]error, workers)
	for i := range workers {
		group.Go(func() {
			if errs[i] = work(ctx, next); errs[i] != nil {
				cancel(errs[i])
			}
		})
	}
	group.Wait()
	sent := Sent{Count: min(int(taken.Load()), want), Began: began, Elapsed: time.Since(began)}
	return sent, errors.Join(errs...)
}

// Chunks has workers send messages 0 to want-1, size at a time. It stops early at the limit.
func Chunks(ctx context.Context, workers, size, want int, limit time.Duration,
	send func(ctx context.Context, from, to int) error) (Sent, error) {
	chunks := (want + size - 1) / size
	began := time.Now()
	sent, err := together(ctx, workers, chunks, began, func(ctx context.Context, next func() int) error {
		for time.Since(began) < limit {
			chunk := next()
			if chunk >= chunks {
				return nil
			}
			if err := send(ctx, chunk*size, min((chunk+1)*size, want)); err != nil {
				return err
			}
		}
		return nil
	})
	sent.Count = min(sent.Count*size, want)
	return sent, err
}
