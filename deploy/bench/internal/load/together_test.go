package load

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestChunksSendEveryMessageOnce(t *testing.T) {
	t.Parallel()
	var (
		mu   sync.Mutex
		seen = make([]int, 2050)
	)
	sent, err := Chunks(t.Context(), 4, 100, 2050, time.Hour, func(_ context.Context, from, to int) error {
		mu.Lock()
		defer mu.Unlock()
		for n := from; n < to; n++ {
			seen[n]++
		}
		return nil
	})
	if err != nil || sent.Count != 2050 {
		t.Fatalf("sent %d, %v", sent.Count, err)
	}
	for n, times := range seen {
		if times != 1 {
			t.Fatalf("message %d was sent %d times", n, times)
		}
	}
}

func TestAPushStopsAtItsLimitAndCountsWhatWasSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sent, err := Chunks(t.Context(), 2, 10, 1000, 5*time.Second, func(ctx context.Context, _, _ int) error {
			return SleepUntil(ctx, time.Now().Add(time.Second))
		})
		if err != nil || sent.Count != 100 || sent.Elapsed != 5*time.Second {
			t.Fatalf("sent %d in %s, %v; want 100 in 5s", sent.Count, sent.Elapsed, err)
		}
		if sent.Rate() != 20 {
			t.Fatalf("the rate is %v, want 20", sent.Rate())
		}
	})
}

func TestTheFirstErrorStopsTheOtherWorkers(t *testing.T) {
	t.Parallel()
	bad := errors.New("refused")
	_, err := Chunks(t.Context(), 4, 1, 1000, time.Hour, func(ctx context.Context, from, _ int) error {
		if from == 3 {
			return bad
		}
		if from > 3 {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		return nil
	})
	if !errors.Is(err, bad) {
		t.Fatalf("the error is %v, want %v", err, bad)
	}
}
