package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

func TestAccept_RepeatsALostReplyAndStoresOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rig.Shaky{After: true, Fail: []error{context.DeadlineExceeded}}
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		a := r.Push(scheduler.Push{Delay: time.Hour})
		if a.Duplicate || a.UID == "" || a.State != message.StateWaiting || a.Version != 1 {
			t.Errorf("answer %+v", a)
		}
		heads, err := r.Store.Heads(t.Context())
		if err != nil || heads[0].Waiting != 1 || store.Calls != 2 {
			t.Fatalf("%+v waiting after %d calls, %v", heads, store.Calls, err)
		}
		wantCounted(r, map[string]float64{"tarry_accepted_total": 1})
	})
}

// What an earlier try of the same flush stored is no duplicate: its producer pushed it once. What was there before that
// flush is one.
func TestAccept_AnswersALostReplyAsTheFirstTryWouldHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rig.Shaky{After: true}
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		intake := func(sequence uint64, id string) scheduler.Push {
			uid, err := message.IntakeUID(sequence, time.Now(), id, "")
			if err != nil {
				t.Fatal(err)
			}
			return scheduler.Push{UID: uid, Stored: sequence, ID: id}
		}
		if _, err := r.Store.Bury(
			t.Context(), scheduler.Ref{ID: "canceled", Topic: "orders"}, 9, r.Clock.Milli()); err != nil {
			t.Fatal(err)
		}
		r.Push(scheduler.Push{ID: "there", Delay: time.Hour})
		merging := r.Push(scheduler.Push{ID: "merging", Delay: time.Hour})
		before := r.Push(scheduler.Push{Delay: time.Hour})
		stored := intake(7, "")
		for _, c := range []struct {
			what              string
			push              scheduler.Push
			duplicate, merged bool
			state             message.State
			into              message.UID
		}{
			{what: "a new push", push: scheduler.Push{}},
			{what: "a new push under a name", push: scheduler.Push{ID: "new"}},
			{what: "a repeat under a name", push: scheduler.Push{ID: "there"}, duplicate: true},
			{what: "a client's repeat of its uid", push: scheduler.Push{UID: before.UID}, duplicate: true,
				into: before.UID},
			{what: "a push that merges", push: scheduler.Push{ID: "merging", Merge: message.MergeReplace},
				merged: true, into: merging.UID},
			{what: "a push of the intake", push: stored, into: stored.UID},
			{what: "a canceled push of the intake", push: intake(8, "canceled"), state: message.StateCanceled},
		} {
			push := c.push
			push.Topic, push.Delay = "orders", time.Hour
			if c.state == message.StateNone {
				c.state = message.StateWaiting
			}
			store.Fail = []error{context.DeadlineExceeded, context.DeadlineExceeded}
			calls := store.Calls
			a := r.Push(push)
			if a.Duplicate != c.duplicate || a.Merged != c.merged || a.State != c.state ||
				c.into != "" && a.UID != c.into {
				t.Errorf("%s: got %+v", c.what, a)
			}
			if store.Calls-calls != 3 {
				t.Errorf("%s was sent %d times", c.what, store.Calls-calls)
			}
		}
		wantCounted(r,
			map[string]float64{"tarry_accepted_total": 7, "tarry_duplicates_total": 2, "tarry_merged_total": 1})
	})
}

// The stream may bring a push again while it waits here: it is one message, which is accepted once.
func TestAccept_CountsAPushOnceThatIsTwiceInAFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rig.Shaky{After: true, Fail: []error{context.DeadlineExceeded}}
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		uid, err := message.IntakeUID(7, time.Now(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		p := &scheduler.Push{Topic: "orders", UID: uid, Stored: 7, Delay: time.Hour}
		answers := r.S.AcceptAll(t.Context(), []*scheduler.Push{p, p})
		if answers[0].Err != nil || answers[1].Err != nil || answers[0].Duplicate || !answers[1].Duplicate ||
			store.Sizes[0] != 2 {
			t.Errorf("got %+v of flushes of %v", answers, store.Sizes)
		}
	})
}

// wantCounted compares the counters of pushes; those not named are 0.
func wantCounted(r *rig.Rig, want map[string]float64) {
	r.T.Helper()
	families, err := r.Metrics.Gather()
	if err != nil {
		r.T.Fatal(err)
	}
	pushes := []string{"tarry_accepted_total", "tarry_duplicates_total", "tarry_merged_total", "tarry_refused_total"}
	for _, family := range families {
		if name := family.GetName(); slices.Contains(pushes, name) {
			if got := family.GetMetric()[0].GetCounter().GetValue(); got != want[name] {
				r.T.Errorf("%s is %v, want %v", name, got, want[name])
			}
		}
	}
}

func TestAccept_SaysUnknownWhenNoReplyComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := context.DeadlineExceeded
		store := &rig.Shaky{After: true, Fail: []error{lost, scheduler.ErrUnavailable, scheduler.ErrUnavailable}}
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		p := &scheduler.Push{Topic: "orders", Delay: time.Hour}
		a := r.S.AcceptAll(t.Context(), []*scheduler.Push{p})[0]
		if !errors.Is(a.Err, scheduler.ErrOutcomeUnknown) || errors.Is(a.Err, scheduler.ErrUnavailable) || a.UID == "" {
			t.Fatalf("got %+v, want an unknown outcome with the uid to repeat", a)
		}
		p.UID = a.UID
		if b := r.S.AcceptAll(t.Context(), []*scheduler.Push{p})[0]; b.Err != nil || !b.Duplicate || b.UID != a.UID {
			t.Fatalf("the repeat: %+v", b)
		}
	})
}

// The first try may have stored it, whatever a later one meets.
func TestAccept_AFullStoreDoesNotHideAnUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rig.Shaky{After: true, Fail: []error{context.DeadlineExceeded, scheduler.ErrFull, scheduler.ErrFull}}
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		a := r.S.AcceptAll(t.Context(), []*scheduler.Push{{Topic: "a", Delay: time.Hour}})[0]
		if !errors.Is(a.Err, scheduler.ErrOutcomeUnknown) || errors.Is(a.Err, scheduler.ErrFull) || a.UID == "" {
			t.Errorf("got %v for %q; want an unknown outcome and the uid to repeat with", a.Err, a.UID)
		}
	})
}

func TestAcceptAll_NamesTheUIDWhenTheCallerGivesUp(t *testing.T) {
	store := &rig.Shaky{Hold: make(chan struct{})}
	r := rig.NewShaky(t, 1, store)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := r.S.AcceptAll(ctx, []*scheduler.Push{{Topic: "orders", Delay: time.Hour}})[0]
	close(store.Hold)
	if !errors.Is(a.Err, scheduler.ErrOutcomeUnknown) || a.UID == "" {
		t.Fatalf("got %+v, want an unknown outcome with the uid to repeat", a)
	}
}

func TestAccept_RefusesWhatCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rig.Shaky{Fail: []error{scheduler.ErrFull, scheduler.ErrUnavailable, scheduler.ErrUnavailable,
			scheduler.ErrUnavailable}}
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		push := func(p *scheduler.Push) error { return r.S.AcceptAll(t.Context(), []*scheduler.Push{p})[0].Err }
		if err := push(&scheduler.Push{Topic: "a"}); !errors.Is(err, scheduler.ErrFull) || store.Calls != 1 {
			t.Errorf("full store: %v after %d calls", err, store.Calls)
		}
		if err := push(&scheduler.Push{Topic: "a"}); !errors.Is(err, scheduler.ErrUnavailable) ||
			errors.Is(err, scheduler.ErrOutcomeUnknown) {
			t.Errorf("store away: %v", err)
		}
		if err := push(&scheduler.Push{Topic: "a", Delay: 11 * 366 * 24 * time.Hour}); !errors.Is(err,
			scheduler.ErrTooFar) {
			t.Errorf("eleven years: %v", err)
		}
		if err := push(&scheduler.Push{Topic: "a", Delay: 3653 * 24 * time.Hour}); err != nil {
			t.Errorf("ten years: %v", err)
		}
		a := r.Push(scheduler.Push{Delay: time.Hour})
		time.Sleep(11 * time.Minute) // of the bubble
		if err := push(&scheduler.Push{Topic: "a", UID: a.UID}); !errors.Is(err, scheduler.ErrStaleUID) {
			t.Errorf("a uid older than the memory of ends: %v", err)
		}
	})
}

func TestAccept_RefusesAUIDThatNoPushWasAnsweredWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 4, nil)
		push := func(p scheduler.Push) scheduler.Accepted {
			p.Topic, p.Delay = "orders", time.Hour
			return r.S.AcceptAll(t.Context(), []*scheduler.Push{&p})[0]
		}
		real := push(scheduler.Push{Key: "k"})
		coming, err := message.IntakeUID(7, time.Now(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		for what, forged := range map[string]scheduler.Push{
			"of the intake":     {UID: coming},
			"of the future":     {UID: "t-z" + real.UID[3:], Key: "k"},
			"without its key":   {UID: real.UID, ID: "order-1"},
			"under another key": {UID: real.UID, Key: "other"},
			"of another's content": {UID: real.UID, ID: message.ContentName("orders", nil),
				Merge: message.MergeKeep},
		} {
			if a := push(forged); !errors.Is(a.Err, scheduler.ErrForeignUID) {
				t.Errorf("%s: got %+v", what, a)
			}
		}
		if a := push(scheduler.Push{UID: coming, Stored: 7}); a.Err != nil || a.Duplicate || a.UID != coming {
			t.Errorf("the intake's own push of a uid that somebody named before: got %+v", a)
		}
		if a := push(scheduler.Push{UID: real.UID, Key: "k"}); a.Err != nil || !a.Duplicate {
			t.Errorf("a retry: got %+v", a)
		}
	})
}

func TestAccept_CountsADelayFromTheLatestThatNowCanBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		// Two servers say that this machine is at least 50 ms ahead, and at most 100 ms.
		for _, source := range []string{"redis", "nats"} {
			mono := r.Clock.Mono()
			r.Clock.Sample(source, time.Now().Add(-100*time.Millisecond), mono-50*time.Millisecond, mono)
		}
		from := time.Now().Add(-50 * time.Millisecond)
		if a := r.Push(scheduler.Push{Delay: time.Hour}); a.Due != message.CeilMilli(from.Add(time.Hour)) {
			t.Errorf("due %s, want an hour from %s", a.Due.Time(), from)
		}
		if a := r.Push(scheduler.Push{Delay: 3653 * 24 * time.Hour}); a.Err != nil {
			t.Errorf("ten years: %v", a.Err)
		}
	})
}

func TestAccept_GathersWhileTheStoreIsBusy(t *testing.T) {
	store := &rig.Shaky{Hold: make(chan struct{})}
	r := rig.NewShaky(t, 4, store)
	var wg sync.WaitGroup
	const n = 900
	for i := range n {
		wg.Add(1)
		r.S.Accept(&scheduler.Push{Topic: fmt.Sprintf("t.%d", i), Delay: time.Hour}, func(a scheduler.Accepted) {
			if a.Err != nil {
				t.Error(a.Err)
			}
			wg.Done()
		})
	}
	close(store.Hold)
	wg.Wait()
	if store.Calls > 20 {
		t.Errorf("%d pushes took %d calls of sizes %v", n, store.Calls, store.Sizes)
	}
}

// Nobody waits for a push from the intake: a few are stored together. Another door's push, or one that is due at once,
// waits for nothing.
func TestAccept_LetsPushesFromTheIntakeGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rig.Shaky{}
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		sequence := uint64(0)
		push := func(stored bool, delay time.Duration) <-chan error {
			p := &scheduler.Push{Topic: "a", Delay: delay}
			if stored {
				sequence++
				uid, err := message.IntakeUID(sequence, time.Now(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				p.UID, p.Stored = uid, sequence
			}
			done := make(chan error, 1)
			r.S.Accept(p, func(a scheduler.Accepted) { done <- a.Err })
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
		if took := wait(all...); took > 2*time.Millisecond || store.Calls != 1 {
			t.Errorf("ten pushes were stored in %d calls of %v, %s after the last", store.Calls, store.Sizes, took)
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

// An instance that stood still must not store what it had taken before: another may have accepted it meanwhile,
// canceled and forgotten it.
func TestAccept_DoesNotStoreWhatWaitedHalfTheMemoryOfEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rig.Shaky{Hold: make(chan struct{})}
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		answers := make(chan error, 2)
		for range 2 {
			r.S.Accept(&scheduler.Push{Topic: "a", Delay: time.Hour}, func(a scheduler.Accepted) { answers <- a.Err })
			time.Sleep(time.Millisecond) // the first is in the store's hands before the second comes
		}
		time.Sleep(5*time.Minute + time.Second)
		close(store.Hold)
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

// A push that repeats a uid is young enough when it comes, and waits for the store until nobody can know any more what
// became of its first.
func TestAccept_JudgesTheAgeOfAUIDWhenItIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rig.Shaky{}
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		a := r.Push(scheduler.Push{Delay: time.Hour})
		now := message.Milli(time.Now().UnixMilli())
		if got, err := store.Timeline.Cancel(t.Context(), scheduler.Ref{UID: a.UID}, now); err != nil ||
			got.Code != scheduler.CancelDone {
			t.Fatalf("cancel: %+v, %v", got, err)
		}
		time.Sleep(8 * time.Minute) // of the bubble, as are the others
		answers := make(chan scheduler.Accepted, 3)
		accept := func(p scheduler.Push) {
			p.Topic, p.Delay = "orders", time.Hour
			r.S.Accept(&p, func(a scheduler.Accepted) { answers <- a })
			time.Sleep(time.Millisecond)
		}
		store.Hold = make(chan struct{})
		accept(scheduler.Push{}) // in the store's hands; the others wait behind it
		accept(scheduler.Push{UID: a.UID})
		accept(scheduler.Push{})
		time.Sleep(4 * time.Minute)
		now = message.Milli(time.Now().UnixMilli())
		if n, err := store.Timeline.Trim(t.Context(), 0, 1, now, 10); err != nil || n != 1 {
			t.Fatalf("%d ends forgotten, %v; want the first's", n, err)
		}
		close(store.Hold)
		for range 3 {
			got := <-answers
			if got.UID == a.UID {
				if !errors.Is(got.Err, scheduler.ErrStaleUID) {
					t.Errorf("the repeat, whose first was canceled: %+v", got)
				}
			} else if got.Err != nil {
				t.Errorf("another push: %+v", got)
			}
		}
	})
}

// twins is a store in which another instance has already used some uids.
type twins struct {
	scheduler.Timeline
	mu      sync.Mutex
	taken   int
	refused int // adds that are refused first: the store is not certified
}

func (s *twins) Add(ctx context.Context, bucket message.Bucket, batch []*message.Message,
	now message.Milli) ([]scheduler.AddResult, []scheduler.Earlier, error) {
	s.mu.Lock()
	if s.refused > 0 {
		s.refused--
		s.mu.Unlock()
		return nil, nil, scheduler.ErrUncertified
	}
	for _, m := range batch {
		if s.taken > 0 {
			s.taken--
			other := *m
			other.Topic, other.ID = "another.instance", ""
			if _, _, err := s.Timeline.Add(ctx, bucket, []*message.Message{&other}, now); err != nil {
				s.mu.Unlock()
				return nil, nil, err
			}
		}
	}
	s.mu.Unlock()
	return s.Timeline.Add(ctx, bucket, batch, now)
}

func TestAccept_TakesAnotherUIDWhenOneWasTaken(t *testing.T) {
	for name, refused := range map[string]int{"at once": 0, "after a try that a store refused": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &twins{taken: 2, refused: refused}
				r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
				a := r.Push(scheduler.Push{Topic: "mine", Delay: time.Hour})
				if a.Duplicate {
					t.Fatal("a push was answered as the duplicate of another instance's message: it would be lost")
				}
				if got := r.Info(a.UID).Topic; got != "mine" {
					t.Fatalf("the uid answered belongs to %q", got)
				}
			})
		})
	}
}

// planted is a store in which somebody else's message comes to have the first uid that is stored, while the reply of
// the try that found it is lost.
type planted struct {
	scheduler.Timeline
	other func(m *message.Message) // makes another message of it; nil: the try stores it
	then  func(uid message.UID)    // what happens before the next try
	lost  bool
	uid   message.UID
}

func (s *planted) Add(ctx context.Context, bucket message.Bucket, batch []*message.Message,
	now message.Milli) ([]scheduler.AddResult, []scheduler.Earlier, error) {
	if s.lost {
		return s.Timeline.Add(ctx, bucket, batch, now)
	}
	s.lost, s.uid = true, batch[0].UID
	if s.other != nil {
		other := *batch[0]
		s.other(&other)
		if _, _, err := s.Timeline.Add(ctx, bucket, []*message.Message{&other}, now); err != nil {
			return nil, nil, err
		}
	}
	if _, _, err := s.Timeline.Add(ctx, bucket, batch, now); err != nil {
		return nil, nil, err
	}
	if s.then != nil {
		s.then(s.uid)
	}
	return nil, nil, context.DeadlineExceeded
}

// A caller can name a uid of the coming moment as that of a push it repeats. Whoever is given it then, and whose first
// try may have been stored, must not be answered for that message.
func TestAccept_TakesNobodyElsesMessageForAnEarlierTry(t *testing.T) {
	for what, other := range map[string]func(*message.Message){
		"on another topic":  func(m *message.Message) { m.Topic = "theirs" },
		"with another body": func(m *message.Message) { m.Body = []byte("theirs") },
		"with another header": func(m *message.Message) {
			m.Headers = []message.Header{{Name: "a", Value: "theirs"}}
		},
		"due at another time":  func(m *message.Message) { m.Due++ },
		"of another priority":  func(m *message.Message) { m.Priority++ },
		"with another ttl":     func(m *message.Message) { m.TTL = time.Hour },
		"with another key":     func(m *message.Message) { m.Key = "theirs" },
		"with other retries":   func(m *message.Message) { m.Retry.Delays = []time.Duration{time.Second} },
		"under another name":   func(m *message.Message) { m.ID = "theirs" },
		"of another attempt":   func(m *message.Message) { m.Attempt++ },
		"with another content": func(m *message.Message) { m.ID, m.Digest[0] = "ours", m.Digest[0]+1 },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &planted{other: other}
				r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
				a := r.Push(scheduler.Push{Topic: "ours", Delay: time.Hour, Body: []byte("ours")})
				if got := r.Info(a.UID); a.UID == store.uid || a.Duplicate || got.Topic != "ours" ||
					string(got.Body) != "ours" || got.ID != "" {
					t.Errorf("answered %+v of %s %s %q, and %s is another's", a, got.UID, got.Topic,
						got.Body, store.uid)
				}
			})
		})
	}
}

// What an earlier try stored may have changed before the next one finds it.
func TestAccept_KnowsWhatAnEarlierTryStoredThoughItChanged(t *testing.T) {
	for what, then := range map[string]func(ctx context.Context, r *rig.Rig, uid message.UID) error{
		"not at all": func(context.Context, *rig.Rig, message.UID) error { return nil },
		"canceled": func(ctx context.Context, r *rig.Rig, uid message.UID) error {
			_, err := r.S.Cancel(ctx, scheduler.Ref{UID: uid})
			return err
		},
		"rescheduled": func(ctx context.Context, r *rig.Rig, uid message.UID) error {
			_, err := r.S.Reschedule(ctx, scheduler.Ref{UID: uid}, scheduler.Edit{Shift: new(time.Hour)})
			return err
		},
		"of other content": func(ctx context.Context, r *rig.Rig, uid message.UID) error {
			_, err := r.S.Reschedule(ctx, scheduler.Ref{UID: uid}, scheduler.Edit{Body: []byte("later")})
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &planted{}
				r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
				store.then = func(uid message.UID) {
					if err := then(t.Context(), r, uid); err != nil {
						t.Error(err)
					}
				}
				for _, id := range []string{"", "ours"} {
					store.lost = false
					a := r.Push(scheduler.Push{ID: id, Delay: time.Hour, Body: []byte("ours")})
					if a.UID != store.uid || a.Duplicate {
						t.Errorf("%q: answered %+v, and %s was stored", id, a, store.uid)
					}
				}
			})
		})
	}
}

// deaf is a store of which the first reply to each batch is lost, and which takes its time to look a message up.
type deaf struct {
	scheduler.Timeline
	mu   sync.Mutex
	lost map[message.UID]bool
}

func (s *deaf) Add(ctx context.Context, bucket message.Bucket, batch []*message.Message, now message.Milli) (
	[]scheduler.AddResult, []scheduler.Earlier, error) {
	time.Sleep(time.Millisecond)
	results, earlier, err := s.Timeline.Add(ctx, bucket, batch, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && !s.lost[batch[0].UID] {
		s.lost[batch[0].UID] = true
		return nil, nil, context.DeadlineExceeded
	}
	return results, earlier, err
}

func (s *deaf) Find(ctx context.Context, ref scheduler.Ref) ([]message.Info, error) {
	select {
	case <-time.After(5 * time.Millisecond):
		return s.Timeline.Find(ctx, ref)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// The answers to many pushes do not depend on how fast the store answers about each, if one reply to all was lost.
func TestAccept_KnowsAWholeBatchWhoseReplyWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &deaf{lost: map[message.UID]bool{}}
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		pushes := make([]*scheduler.Push, 1000) // two batches or three
		for i := range pushes {
			pushes[i] = &scheduler.Push{Topic: "orders", Delay: time.Hour, Body: []byte("ours")}
		}
		seen := map[message.UID]bool{}
		for i, a := range r.S.AcceptAll(t.Context(), pushes) {
			if a.Err != nil || a.Duplicate || seen[a.UID] {
				t.Fatalf("push %d is answered %+v", i, a)
			}
			seen[a.UID] = true
		}
	})
}
