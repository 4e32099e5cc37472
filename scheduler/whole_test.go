package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// slowHeads answers a read of heads, once it is set to, after a while and with an earlier state of the store.
type slowHeads struct {
	scheduler.Timeline
	slow atomic.Bool
}

func (s *slowHeads) Heads(ctx context.Context) ([]scheduler.Head, error) {
	heads, err := s.Timeline.Heads(ctx)
	if err == nil && s.slow.CompareAndSwap(true, false) {
		time.Sleep(500 * time.Millisecond)
		for i := range heads {
			heads[i].Err = fmt.Errorf("read the head: %w", scheduler.ErrUncertified)
		}
	}
	return heads, err
}

// A bucket is made whole while heads are read: what the answer says of the bucket as it was before does not end the
// scan that began since.
func TestRun_AnAnswerFromBeforeABucketWasMadeWholeLeavesItAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowHeads{}
		r := rig.New(t, 2, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		var made atomic.Int32
		r.Whole = func(context.Context, uint64, message.Bucket) error {
			made.Add(1)
			time.Sleep(100 * time.Millisecond)
			return nil
		}
		r.S = r.Scheduler()
		r.Serve(r.S)
		store.slow.Store(true)
		stop := r.Lead(r.S, 1)
		r.Push(scheduler.Push{Delay: 5 * time.Second})
		time.Sleep(3 * time.Second)
		if n := made.Load(); n != 2 {
			t.Errorf("2 buckets were made whole %d times", n)
		}
		// What is asked for afterwards counts.
		store.slow.Store(true)
		time.Sleep(3 * time.Second)
		if n := made.Load(); n != 4 {
			t.Errorf("2 buckets that changed later were made whole %d times in all", n)
		}
		if n := len(r.Nats.Arrived()); n != 1 {
			t.Errorf("%d messages arrived", n)
		}
		if err := stop(rig.ErrStop); !errors.Is(err, rig.ErrStop) {
			t.Errorf("run ended with %v", err)
		}
	})
}

// emptied is a store whose server was lost: nothing can be read until it is made whole.
type emptied struct {
	scheduler.Timeline
	whole atomic.Bool
}

func (s *emptied) Heads(ctx context.Context) ([]scheduler.Head, error) {
	if !s.whole.Load() {
		return nil, fmt.Errorf("read the heads: %w", scheduler.ErrUncertified)
	}
	return s.Timeline.Heads(ctx)
}

func (s *emptied) Pauses(ctx context.Context) ([]scheduler.Pause, message.Milli, error) {
	if !s.whole.Load() {
		return nil, 0, fmt.Errorf("bucket 0: %w", scheduler.ErrUncertified)
	}
	return s.Timeline.Pauses(ctx)
}

// However long it takes to fill an empty store, the leader that does it goes on.
func TestRun_LeadsOnWhileAnEmptyStoreIsFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &emptied{}
		r := rig.New(t, 2, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		r.Whole = func(ctx context.Context, _ uint64, _ message.Bucket) error {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Minute):
			}
			store.whole.Store(true)
			return nil
		}
		r.S = r.Scheduler()
		r.Serve(r.S)
		stop := r.Lead(r.S, 1)
		r.Push(scheduler.Push{Delay: 5 * time.Second})
		time.Sleep(2 * time.Minute)
		if n := len(r.Nats.Arrived()); n != 1 {
			t.Errorf("%d messages arrived", n)
		}
		if err := stop(rig.ErrStop); !errors.Is(err, rig.ErrStop) {
			t.Errorf("run ended with %v", err)
		}
	})
}
