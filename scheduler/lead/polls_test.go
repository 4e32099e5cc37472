package lead_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
	"github.com/tarry-mq/tarry/scheduler/steer"
)

// watched is a timeline whose calls for consumers that pull a test watches and spoils.
type watched struct {
	scheduler.Timeline
	ready func() // after what is ready was read
	lease func(all []scheduler.Leased)
	mu    sync.Mutex
	looks int
}

func (w *watched) Ready(ctx context.Context, wants []scheduler.Want, now message.Milli) []scheduler.Found {
	found := w.Timeline.Ready(ctx, wants, now)
	if wants[0].Topics[0].Count > 0 {
		w.mu.Lock()
		w.looks++
		w.mu.Unlock()
		if w.ready != nil {
			w.ready()
		}
	}
	return found
}

func (w *watched) Lease(ctx context.Context, requests []scheduler.LeaseRequest) []scheduler.Leased {
	all := w.Timeline.Lease(ctx, requests)
	if w.lease != nil {
		w.lease(all)
	}
	return all
}

// watching makes a rig over a watched timeline of two buckets.
func watching(t *testing.T) (*rig.Rig, *watched) {
	w := new(watched)
	r := rig.New(t, 2, func(tl scheduler.Timeline) scheduler.Timeline { w.Timeline = tl; return w })
	r.Topics(&scheduler.Topic{Pattern: "work", Deliver: scheduler.DeliverPull})
	return r, w
}

// waiting is a poll that runs on its own.
type waiting struct {
	found []scheduler.PulledMessage
	err   error
	took  time.Duration
	done  chan struct{}
}

// wait polls for max messages of the topic of work.
func wait(ctx context.Context, s *steer.Scheduler, max int, within time.Duration) *waiting {
	w := &waiting{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		begun := time.Now()
		w.found, w.err = s.Pull(ctx, scheduler.Poll{Topic: "work", Max: max, Bytes: 1 << 20, Wait: within})
		w.took = time.Since(begun)
	}()
	synctest.Wait()
	return w
}

// want checks how many messages a poll got, and when.
func (w *waiting) want(t *testing.T, n int, least, most time.Duration) {
	t.Helper()
	<-w.done
	if w.err != nil || len(w.found) != n || w.took < least || w.took > most {
		t.Fatalf("got %d messages after %s, %v; want %d within %s to %s", len(w.found), w.took, w.err, n, least, most)
	}
}

func TestPoll_WakesWhenAMessageIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := watching(t)
		poll := wait(t.Context(), r.S.Scheduler, 1, 30*time.Second)
		r.Push(scheduler.Push{Topic: "work", Delay: 20 * time.Second})
		time.Sleep(time.Second)
		r.Push(scheduler.Push{Topic: "work", Delay: 4 * time.Second})
		poll.want(t, 1, 5*time.Second, 5*time.Second+10*time.Millisecond)
		second := wait(t.Context(), r.S.Scheduler, 1, 30*time.Second)
		second.want(t, 1, 15*time.Second-10*time.Millisecond, 15*time.Second+10*time.Millisecond)
		wait(t.Context(), r.S.Scheduler, 1, 3*time.Second).want(t, 0, 3*time.Second, 3*time.Second)
		if store.looks > 12 {
			t.Errorf("three polls looked %d times", store.looks)
		}
	})
}

// A client that closes just before its poll looks takes no message, not even for the moment until it is given back.
func TestPoll_OfAClientThatHasGoneLeasesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := watching(t)
		r.Push(scheduler.Push{Topic: "work"})
		store.lease = func(all []scheduler.Leased) {
			for i := range all {
				if len(all[i].Messages) > 0 {
					t.Errorf("leased %+v", all[i].Messages)
				}
			}
		}
		ctx, gone := context.WithCancel(t.Context())
		gone()
		if w := wait(ctx, r.S.Scheduler, 1, time.Second); len(w.found) > 0 || w.err == nil {
			t.Errorf("got %v, %v", w.found, w.err)
		}
	})
}

// What comes between a look and the wait after it is not missed: the poll stands in its line before it looks.
func TestPoll_MissesNothingBetweenItsLookAndItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := watching(t)
		var once sync.Once
		store.ready = func() { once.Do(func() { r.Push(scheduler.Push{Topic: "work"}) }) }
		wait(t.Context(), r.S.Scheduler, 1, 30*time.Second).want(t, 1, 0, 50*time.Millisecond)
	})
}

func TestPoll_ServesInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := watching(t)
		var polls []*waiting
		for range 3 {
			polls = append(polls, wait(t.Context(), r.S.Scheduler, 2, time.Minute))
		}
		for range 3 {
			r.Push(scheduler.Push{Topic: "work", Delay: time.Second})
		}
		polls[0].want(t, 2, 0, 2*time.Second)
		polls[1].want(t, 1, 0, 2*time.Second)
		polls[2].want(t, 0, time.Minute, time.Minute)
	})
}

// A poll whose client has gone takes nothing, and gives back what a look under way had taken for it.
func TestPoll_SwallowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := watching(t)
		gone, leave := context.WithCancel(t.Context())
		first := wait(gone, r.S.Scheduler, 5, time.Minute)
		leave()
		<-first.done
		if first.err == nil {
			t.Error("a poll without a client ended well")
		}
		a := r.Push(scheduler.Push{Topic: "work"})
		if i := r.Info(a.UID); i.State != message.StateReady {
			t.Errorf("it is %s", i.State)
		}
		gone, leave = context.WithCancel(t.Context())
		store.lease = func([]scheduler.Leased) { leave() }
		second := wait(gone, r.S.Scheduler, 5, time.Minute)
		<-second.done
		store.lease = nil
		if i := r.Info(a.UID); i.State != message.StateReady || i.Mark.Refusals > 0 {
			t.Errorf("it is %s after %d tries", i.State, i.Mark.Refusals)
		}
		wait(t.Context(), r.S.Scheduler, 1, 0).want(t, 1, 0, 0)
	})
}

// A look that gets less than was ready rests, so that instances that race for messages do not spin.
func TestPoll_DoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := watching(t)
		r.Push(scheduler.Push{Topic: "work"})
		store.lease = func(all []scheduler.Leased) {
			for i := range all { // another one was quicker, and gives it back at once
				_, _, _ = store.Timeline.Settle(t.Context(), 0, 0, undoAll(all[i].Messages), r.Clock.Milli())
				_, _, _ = store.Timeline.Settle(t.Context(), 1, 0, undoAll(all[i].Messages), r.Clock.Milli())
				all[i].Messages, all[i].Next = nil, r.Clock.Milli()
			}
		}
		wait(t.Context(), r.S.Scheduler, 1, time.Second).want(t, 0, time.Second, time.Second)
		if store.looks < 5 || store.looks > 110 {
			t.Errorf("it looked %d times in a second", store.looks)
		}
	})
}

func undoAll(messages []scheduler.LeasedMessage) (items []scheduler.Settle) {
	for _, m := range messages {
		items = append(items, scheduler.Settle{Verb: scheduler.Release, UID: m.UID, Topic: m.Topic})
	}
	return items
}

// A repeated poll with its attempt gets the same messages under the same nonce, also at another instance. Once they are
// settled the attempt is spent.
func TestPoll_RepeatsItsAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := watching(t)
		other := r.Scheduler()
		r.Serve(other)
		for range 5 {
			r.Push(scheduler.Push{Topic: "work"})
		}
		p := scheduler.Poll{Topic: "work", Max: 3, Bytes: 1 << 20, Attempt: 77}
		gone, leave := context.WithCancel(t.Context())
		leave() // the answer is lost
		pull := func(ctx context.Context, s *steer.Scheduler) []scheduler.PulledMessage {
			t.Helper()
			found, err := s.Pull(ctx, p)
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
		p.Sending = 1
		_, _ = r.S.Pull(gone, p)
		p.Sending = 2
		first := pull(t.Context(), r.S.Scheduler)
		p.Sending = 3
		again := pull(t.Context(), other.Scheduler)
		if len(first) != 3 || !slices.EqualFunc(first, again, func(a, b scheduler.PulledMessage) bool {
			return a.UID == b.UID && a.Nonce == b.Nonce && a.Until == b.Until
		}) {
			t.Fatalf("first %+v, then %+v", first, again)
		}
		for _, m := range first {
			settle(t, r, m, scheduler.Settlement{Verb: scheduler.Ack})
		}
		p.Sending = 4
		if rest := pull(t.Context(), other.Scheduler); len(rest) != 2 {
			t.Fatalf("the rest is %d", len(rest))
		}
		// An attempt that found nothing waits on, and takes what comes later.
		p.Attempt, p.Sending, p.Wait = 78, 1, time.Minute
		late := make(chan []scheduler.PulledMessage)
		go func() { late <- pull(t.Context(), r.S.Scheduler) }()
		synctest.Wait()
		r.Push(scheduler.Push{Topic: "work"})
		if got := <-late; len(got) != 1 || got[0].Nonce != 78 {
			t.Fatalf("later came %+v", got)
		}
	})
}

// An instance that stops answers its polls, whose clients are still there.
func TestPoll_EndsWhenItsInstanceStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := watching(t)
		stopping, stop := context.WithCancelCause(t.Context())
		poll := wait(stopping, r.S.Scheduler, 1, time.Minute)
		time.Sleep(time.Second)
		stop(scheduler.ErrStopping)
		poll.want(t, 0, time.Second, time.Second)
	})
}

// What another instance accepted is found within a second although nobody said so.
func TestPoll_LooksWhereNothingIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := watching(t)
		other := r.Scheduler()
		r.Serve(other)
		poll := wait(t.Context(), other.Scheduler, 1, time.Minute)
		time.Sleep(3500 * time.Millisecond)
		r.Push(scheduler.Push{Topic: "work"})
		poll.want(t, 1, 3500*time.Millisecond, 4600*time.Millisecond)
		heard := wait(t.Context(), other.Scheduler, 1, time.Minute)
		a := r.Push(scheduler.Push{Topic: "work", Delay: 100 * time.Millisecond})
		other.Hear("work", a.Due)
		heard.want(t, 1, 0, 110*time.Millisecond)
	})
}

func TestPoll_WaitsWhileItsTopicIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := watching(t)
		stop := r.Lead(r.S, 1)
		if _, err := r.S.Pause(t.Context(), "work", "ann"); err != nil {
			t.Fatal(err)
		}
		r.Push(scheduler.Push{Topic: "work"})
		poll := wait(t.Context(), r.S.Scheduler, 1, time.Minute)
		other := r.Scheduler()
		r.Serve(other)
		elsewhere := wait(t.Context(), other.Scheduler, 1, time.Minute)
		time.Sleep(5 * time.Second)
		begun := time.Now()
		r.Push(scheduler.Push{Topic: "work"})
		if _, _, err := r.S.Resume(t.Context(), "work"); err != nil {
			t.Fatal(err)
		}
		<-poll.done
		if took := time.Since(begun); took > 100*time.Millisecond || len(poll.found) != 1 {
			t.Errorf("resumed here: %d after %s", len(poll.found), took)
		}
		<-elsewhere.done
		if took := time.Since(begun); took > 2*time.Second || len(elsewhere.found) != 1 {
			t.Errorf("resumed elsewhere: %d after %s", len(elsewhere.found), took)
		}
		_ = stop(rig.ErrStop)
	})
}

// An instance that was suspended between the lease and the answer hands out no lease that is over.
func TestPoll_HandsOutNoLeaseThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := watching(t)
		a := r.Push(scheduler.Push{Topic: "work"})
		var once sync.Once
		store.lease = func([]scheduler.Leased) { once.Do(func() { time.Sleep(40 * time.Second) }) }
		wait(t.Context(), r.S.Scheduler, 1, 0).want(t, 0, 40*time.Second, 40*time.Second)
		if i := r.Info(a.UID); i.State != message.StateReady || i.Mark.Refusals > 0 {
			t.Errorf("it is %s after %d tries", i.State, i.Mark.Refusals)
		}
	})
}

// What was leased by a call that nobody answered is given back: the poll gets an error, and nothing counts as tried.
func TestPoll_UndoesWhatWasNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := watching(t)
		a := r.Push(scheduler.Push{Topic: "work"})
		store.lease = func(all []scheduler.Leased) {
			for i := range all {
				all[i] = scheduler.Leased{Err: scheduler.ErrOutcomeUnknown}
			}
		}
		poll := wait(t.Context(), r.S.Scheduler, 1, 0)
		<-poll.done
		if !errors.Is(poll.err, scheduler.ErrOutcomeUnknown) {
			t.Errorf("the poll ends with %v", poll.err)
		}
		store.lease = nil
		if i := r.Info(a.UID); i.State != message.StateInFlight {
			t.Fatalf("it is %s", i.State)
		}
		time.Sleep(1100 * time.Millisecond)
		if i := r.Info(a.UID); i.State != message.StateReady || i.Mark.Refusals > 0 {
			t.Errorf("it is %s after %d tries", i.State, i.Mark.Refusals)
		}
	})
}
