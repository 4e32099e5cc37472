package intake

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/scheduler"
)

// fakeStream takes a millisecond to say what it holds.
type fakeStream struct {
	mu    sync.Mutex
	held  backlog
	err   error
	looks int
}

func (f *fakeStream) look(ctx context.Context) (backlog, error) {
	if err := scheduler.Sleep(ctx, time.Millisecond); err != nil { // of the bubble
		return backlog{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
	return f.held, f.err
}

func (f *fakeStream) set(first, last uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = backlog{first: first, last: last}
}

// passed waits and returns what it comes to.
func passed(t *testing.T, p *passing) scheduler.Passage {
	passed, _ := p.wait(t.Context())
	return passed
}

func TestPassing_EndsWhenWhatWasHeldAtTheCallIsAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStream{}
		p := newPassing(f.look)
		start := time.Now()
		if f.set(1, 0); passed(t, p) != scheduler.PassedAll || time.Since(start) > 2*time.Millisecond {
			t.Errorf("an empty stream was waited for %s", time.Since(start))
		}
		f.set(3, 9)
		start = time.Now()
		time.AfterFunc(100*time.Millisecond, func() { f.set(9, 30) })  // up to 8
		time.AfterFunc(200*time.Millisecond, func() { f.set(10, 40) }) // and 9; what came later is not waited for
		took := func() time.Duration { passed(t, p); return time.Since(start) }()
		if took < 200*time.Millisecond ||
			took > 210*time.Millisecond {
			t.Errorf("it took %s", took)
		}
	})
}

// TestPassing_TakesALookBegunAfterTheCall has a push stored while a look is under way: a caller who comes then may not
// take that look's word.
func TestPassing_TakesALookBegunAfterTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStream{held: backlog{first: 1, last: 0}}
		seen := make(chan struct{})
		p := newPassing(func(ctx context.Context) (backlog, error) {
			held, err := f.look(ctx)
			select {
			case <-seen:
			default:
				close(seen)
				err = errors.Join(err, scheduler.Sleep(ctx, 10*time.Millisecond)) // of the bubble: the answer is on its way
			}
			return held, err
		})
		go passed(t, p) // ends with the bubble
		<-seen
		f.set(1, 1)
		time.AfterFunc(300*time.Millisecond, func() { f.set(2, 1) })
		start := time.Now()
		if passed(t, p); time.Since(start) < 300*time.Millisecond {
			t.Errorf("it ended after %s", time.Since(start))
		}
	})
}

func TestPassing_SharesItsLooksAndIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStream{held: backlog{first: 1, last: 1}}
		p := newPassing(f.look)
		var waited, refused atomic.Int64
		var group sync.WaitGroup
		start := time.Now()
		for range link.PassRoom {
			group.Go(func() {
				if passed(t, p) == scheduler.PassedSome {
					waited.Add(1)
				}
			})
		}
		synctest.Wait()
		for range 500 {
			group.Go(func() {
				if passed(t, p) == scheduler.PassedUnknown && time.Since(start) == 0 {
					refused.Add(1)
				}
			})
		}
		group.Wait()
		if took := time.Since(start); waited.Load() != link.PassRoom || refused.Load() != 500 || took != passLimit {
			t.Errorf("%d waited and %d were sent away after %s", waited.Load(), refused.Load(), took)
		}
		if most := int(passLimit/passPace) + 1; f.looks > most {
			t.Errorf("it looked %d times, at most %d were needed", f.looks, most)
		}
		if p.waiting.Load() != 0 {
			t.Errorf("%d still wait", p.waiting.Load())
		}
	})
}

func TestPassing_GivesUpWhereTheStreamCannotBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStream{err: errors.New("no answer")}
		p := newPassing(f.look)
		start := time.Now()
		if passed(t, p) != scheduler.PassedUnknown || time.Since(start) != time.Millisecond {
			t.Errorf("it ended after %s", time.Since(start))
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if p, err := p.wait(ctx); p != scheduler.PassedUnknown || err == nil {
			t.Error("it waited for a caller who is gone")
		}
		f.err = nil
		if f.set(1, 0); passed(t, p) != scheduler.PassedAll {
			t.Error("it does not recover")
		}
	})
}
