package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
)

// shaky fails some adds: before they happen, or after.
type shaky struct {
	scheduler.Timeline
	mu    sync.Mutex
	fail  []error // one an add, nil lets it through
	after bool    // the add happens, its reply is lost
	calls int
	sizes []int
	hold  chan struct{} // adds wait for it
}

func (s *shaky) Add(ctx context.Context, bucket int, batch []*scheduler.Message, now scheduler.Milli) ([]scheduler.AddResult, scheduler.Milli, error) {
	if s.hold != nil {
		<-s.hold
	}
	s.mu.Lock()
	s.calls++
	s.sizes = append(s.sizes, len(batch))
	var err error
	if len(s.fail) > 0 {
		err, s.fail = s.fail[0], s.fail[1:]
	}
	s.mu.Unlock()
	if err != nil && !s.after {
		return nil, 0, err
	}
	results, head, addErr := s.Timeline.Add(ctx, bucket, batch, now)
	if err != nil {
		return nil, 0, err
	}
	return results, head, addErr
}

func TestAccept_RepeatsALostReplyAndStoresOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shaky{after: true, fail: []error{context.DeadlineExceeded}}
		r := newRig(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		a := r.push(scheduler.Push{Delay: time.Hour})
		if a.Duplicate && a.UID == "" {
			t.Fatalf("answer %+v", a)
		}
		heads, err := r.store.Heads(t.Context())
		if err != nil || heads[0].Waiting != 1 {
			t.Fatalf("%+v waiting, %v", heads, err)
		}
	})
}

func TestAccept_SaysUnknownWhenNoReplyComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := context.DeadlineExceeded
		store := &shaky{after: true, fail: []error{lost, scheduler.ErrUnavailable, scheduler.ErrUnavailable}}
		r := newRig(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		p := &scheduler.Push{Topic: "orders", Delay: time.Hour}
		a := r.s.AcceptAll(t.Context(), []*scheduler.Push{p})[0]
		if !errors.Is(a.Err, scheduler.ErrOutcomeUnknown) || errors.Is(a.Err, scheduler.ErrUnavailable) || a.UID == "" {
			t.Fatalf("got %+v, want an unknown outcome with the uid to repeat", a)
		}
		p.UID = a.UID
		if b := r.s.AcceptAll(t.Context(), []*scheduler.Push{p})[0]; b.Err != nil || !b.Duplicate || b.UID != a.UID {
			t.Fatalf("the repeat: %+v", b)
		}
	})
}

// The first try may have stored it, whatever a later one meets.
func TestAccept_AFullStoreDoesNotHideAnUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shaky{after: true, fail: []error{context.DeadlineExceeded, scheduler.ErrFull, scheduler.ErrFull}}
		r := newRig(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		a := r.s.AcceptAll(t.Context(), []*scheduler.Push{{Topic: "a", Delay: time.Hour}})[0]
		if !errors.Is(a.Err, scheduler.ErrOutcomeUnknown) || errors.Is(a.Err, scheduler.ErrFull) || a.UID == "" {
			t.Errorf("got %v for %q; want an unknown outcome and the uid to repeat with", a.Err, a.UID)
		}
	})
}

func TestAcceptAll_NamesTheUIDWhenTheCallerGivesUp(t *testing.T) {
	store := &shaky{hold: make(chan struct{})}
	r := newRig0(t, 1, store)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := r.s.AcceptAll(ctx, []*scheduler.Push{{Topic: "orders", Delay: time.Hour}})[0]
	close(store.hold)
	if !errors.Is(a.Err, scheduler.ErrOutcomeUnknown) || a.UID == "" {
		t.Fatalf("got %+v, want an unknown outcome with the uid to repeat", a)
	}
}

func TestAccept_RefusesWhatCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shaky{fail: []error{scheduler.ErrFull, scheduler.ErrUnavailable, scheduler.ErrUnavailable, scheduler.ErrUnavailable}}
		r := newRig(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		push := func(p *scheduler.Push) error { return r.s.AcceptAll(t.Context(), []*scheduler.Push{p})[0].Err }
		if err := push(&scheduler.Push{Topic: "a"}); !errors.Is(err, scheduler.ErrFull) || store.calls != 1 {
			t.Errorf("full store: %v after %d calls", err, store.calls)
		}
		if err := push(&scheduler.Push{Topic: "a"}); !errors.Is(err, scheduler.ErrUnavailable) || errors.Is(err, scheduler.ErrOutcomeUnknown) {
			t.Errorf("store away: %v", err)
		}
		if err := push(&scheduler.Push{Topic: "a", Delay: 11 * 366 * 24 * time.Hour}); !errors.Is(err, scheduler.ErrTooFar) {
			t.Errorf("eleven years: %v", err)
		}
		if err := push(&scheduler.Push{Topic: "a", Delay: 3653 * 24 * time.Hour}); err != nil {
			t.Errorf("ten years: %v", err)
		}
		a := r.push(scheduler.Push{Delay: time.Hour})
		time.Sleep(11 * time.Minute) // of the bubble
		if err := push(&scheduler.Push{Topic: "a", UID: a.UID}); !errors.Is(err, scheduler.ErrStaleUID) {
			t.Errorf("a uid older than the memory of ends: %v", err)
		}
	})
}

func TestAccept_CountsADelayFromTheLatestThatNowCanBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, nil)
		// Two servers say that this machine is at least 50 ms ahead, and at most 100 ms.
		for _, source := range []string{"redis", "nats"} {
			mono := r.clock.Mono()
			r.clock.Sample(source, time.Now().Add(-100*time.Millisecond), mono-50*time.Millisecond, mono)
		}
		from := time.Now().Add(-50 * time.Millisecond)
		if a := r.push(scheduler.Push{Delay: time.Hour}); a.Due != scheduler.CeilMilli(from.Add(time.Hour)) {
			t.Errorf("due %s, want an hour from %s", a.Due.Time(), from)
		}
		if a := r.push(scheduler.Push{Delay: 3653 * 24 * time.Hour}); a.Err != nil {
			t.Errorf("ten years: %v", a.Err)
		}
	})
}

func TestAccept_GathersWhileTheStoreIsBusy(t *testing.T) {
	store := &shaky{hold: make(chan struct{})}
	r := newRig0(t, 4, store)
	var wg sync.WaitGroup
	const n = 900
	for i := range n {
		wg.Add(1)
		r.s.Accept(&scheduler.Push{Topic: fmt.Sprintf("t.%d", i), Delay: time.Hour}, func(a scheduler.Accepted) {
			if a.Err != nil {
				t.Error(a.Err)
			}
			wg.Done()
		})
	}
	close(store.hold)
	wg.Wait()
	if store.calls > 20 {
		t.Errorf("%d pushes took %d calls of sizes %v", n, store.calls, store.sizes)
	}
}

// Nobody waits for a push from the intake: a few are stored together. Another
// door's push, or one that is due at once, waits for nothing.
func TestAccept_LetsPushesFromTheIntakeGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shaky{}
		r := newRig(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		sequence := uint64(0)
		push := func(stored bool, delay time.Duration) <-chan error {
			p := &scheduler.Push{Topic: "a", Delay: delay}
			if stored {
				sequence++
				uid, err := scheduler.IntakeUID(sequence, time.Now(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				p.UID, p.Stored = uid, sequence
			}
			done := make(chan error, 1)
			r.s.Accept(p, func(a scheduler.Accepted) { done <- a.Err })
			return done
		}
		wait := func(all ...<-chan error) time.Duration {
			began := time.Now()
			for _, done := range all {
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(began)
		}
		var all []<-chan error
		for range 10 {
			all = append(all, push(true, time.Hour))
			time.Sleep(100 * time.Microsecond)
		}
		if took := wait(all...); took > 2*time.Millisecond || store.calls != 1 {
			t.Errorf("ten pushes were stored in %d calls of %v, %s after the last", store.calls, store.sizes, took)
		}
		if took := wait(push(false, time.Hour)); took != 0 {
			t.Errorf("a push that somebody waits for took %s", took)
		}
		synctest.Wait()
		all = []<-chan error{push(true, time.Hour), push(true, time.Hour)}
		synctest.Wait()
		if took := wait(append(all, push(true, 0))...); took != 0 {
			t.Errorf("a push that is due took %s", took)
		}
		all = all[:0]
		for range 100 {
			all = append(all, push(true, time.Hour))
		}
		if took := wait(all...); took != 0 {
			t.Errorf("a hundred pushes, which are enough, took %s", took)
		}
	})
}

// An instance that stood still must not store what it had taken before: another
// may have accepted it meanwhile, canceled and forgotten it.
func TestAccept_DoesNotStoreWhatWaitedHalfTheMemoryOfEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shaky{hold: make(chan struct{})}
		r := newRig(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		answers := make(chan error, 2)
		for range 2 {
			r.s.Accept(&scheduler.Push{Topic: "a", Delay: time.Hour}, func(a scheduler.Accepted) { answers <- a.Err })
			time.Sleep(time.Millisecond) // the first is in the store's hands before the second comes
		}
		time.Sleep(5*time.Minute + time.Second)
		close(store.hold)
		for range 2 { // the first would be tried again, the second for the first time
			if err := <-answers; !errors.Is(err, scheduler.ErrUnavailable) {
				t.Fatalf("got %v; want it refused", err)
			}
		}
		if heads, err := store.Timeline.Heads(t.Context()); err != nil || heads[0].Waiting != 0 {
			t.Fatalf("%+v, %v; want none waiting", heads, err)
		}
	})
}

// twins is a store in which another instance has already used some uids.
type twins struct {
	scheduler.Timeline
	mu    sync.Mutex
	taken int
}

func (s *twins) Add(ctx context.Context, bucket int, batch []*scheduler.Message, now scheduler.Milli) ([]scheduler.AddResult, scheduler.Milli, error) {
	s.mu.Lock()
	for _, m := range batch {
		if s.taken > 0 {
			s.taken--
			other := *m
			other.Topic, other.ID = "another.instance", ""
			if _, _, err := s.Timeline.Add(ctx, bucket, []*scheduler.Message{&other}, now); err != nil {
				s.mu.Unlock()
				return nil, 0, err
			}
		}
	}
	s.mu.Unlock()
	return s.Timeline.Add(ctx, bucket, batch, now)
}

func TestAccept_TakesAnotherUIDWhenOneWasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &twins{taken: 2}
		r := newRig(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		a := r.push(scheduler.Push{Topic: "mine", Delay: time.Hour})
		if a.Duplicate {
			t.Fatal("a push was answered as the duplicate of another instance's message: it would be lost")
		}
		if got := r.info(a.UID).Topic; got != "mine" {
			t.Fatalf("the uid answered belongs to %q", got)
		}
	})
}
