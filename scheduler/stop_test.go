package scheduler_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
	"github.com/tarry-mq/tarry/scheduler/steer"
	"github.com/tarry-mq/tarry/store/memory"
)

// frozen never answers an add.
type frozen struct{ scheduler.Timeline }

func (f frozen) Add(ctx context.Context, _ message.Bucket, _ []*message.Message,
	_ message.Milli) ([]scheduler.AddResult, []scheduler.Earlier, error) {
	<-ctx.Done()
	return nil, nil, ctx.Err()
}

func TestServe_StopsInTimeOverAFrozenStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(message.Epoch.AddDate(1, 10, 20)))
		m, _ := memory.New(memory.Config{Buckets: 4})
		s, err := steer.New(scheduler.Config{
			Timeline: frozen{m}, IDs: scheduler.NewIDs(rig.Slot{}, time.Now),
			Clock: scheduler.NewClock(scheduler.System()), MaxDelay: time.Hour, EndedKeep: 10 * time.Minute,
			CallTimeout: time.Second, StopTimeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx) }()
		answered := 0
		var mu sync.Mutex
		const n = 4000 // a millisecond has 4,096 ids, and a bubble's clock stands still
		for range n {
			s.Accept(&scheduler.Push{Topic: "a", Delay: time.Second}, func(a scheduler.Accepted) {
				mu.Lock()
				defer mu.Unlock()
				if a.Err == nil {
					t.Error("a push was acknowledged that nobody stored")
				}
				answered++
			})
		}
		synctest.Wait()
		start := time.Now()
		cancel()
		<-done
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("Serve returned %s after its context ended, the stop time-out is 5 s", took)
		}
		if answered != n {
			t.Errorf("%d of %d pushes were answered", answered, n)
		}
	})
}
