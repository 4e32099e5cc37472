package lead_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

func TestRun_DeliversWhenDueAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		stop := r.Lead(r.S, 1)
		start := time.Now()
		late := r.Push(scheduler.Push{Delay: 3 * time.Second, Body: []byte("c")})
		r.Push(scheduler.Push{Delay: 2 * time.Second, Body: []byte("b")})
		r.Push(scheduler.Push{At: message.Milli(start.Add(2 * time.Second).UnixMilli()), HasAt: true, Priority: 9,
			Body: []byte("a")})
		time.Sleep(2500 * time.Millisecond)
		if c, err := r.S.Cancel(t.Context(), scheduler.Ref{UID: late.UID}); err != nil ||
			c.Code != scheduler.CancelDone {
			t.Fatalf("cancel: %+v, %v", c, err)
		}
		r.Push(scheduler.Push{At: 1, HasAt: true, Body: []byte("d")}) // long past is now
		time.Sleep(5 * time.Second)
		if err := stop(rig.ErrStop); !errors.Is(err, rig.ErrStop) {
			t.Fatalf("run ended with %v", err)
		}
		var order string
		for _, a := range r.Nats.Arrived() {
			order += string(a.M.Body)
			if due := a.M.Due.Time(); a.At.Before(due) || (a.M.Due > 1000 && a.At.Sub(due) > 2*time.Millisecond) {
				t.Errorf("%s arrived %s after its due time", a.M.Body, a.At.Sub(due))
			}
		}
		if order != "abd" {
			t.Fatalf("order %q, want \"abd\"", order)
		}
	})
}

func TestRun_WakesForAnEarlierMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		stop := r.Lead(r.S, 1)
		defer stop(rig.ErrStop)
		r.Push(scheduler.Push{Delay: time.Hour})
		time.Sleep(10 * time.Minute)
		r.Push(scheduler.Push{Delay: time.Millisecond, Body: []byte("soon")})
		time.Sleep(3 * time.Millisecond)
		if got := r.Nats.Arrived(); len(got) != 1 {
			t.Fatalf("%d messages arrived, want the earlier one without waiting for a poll", len(got))
		}
	})
}

func TestRun_BurstArrivesOnceEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 4, nil)
		at := message.Milli(time.Now().Add(time.Minute).UnixMilli())
		const n = 10_000
		for from := 0; from < n; from += 1000 {
			batch := make([]*scheduler.Push, 1000)
			for i := range batch {
				batch[i] = &scheduler.Push{Topic: fmt.Sprintf("orders.%d", from+i), At: at, HasAt: true}
			}
			for _, a := range r.S.AcceptAll(t.Context(), batch) {
				if a.Err != nil {
					t.Fatal(a.Err)
				}
			}
			time.Sleep(time.Millisecond) // a bubble's clock stands still, and a millisecond has 4,096 ids
		}
		stop := r.Lead(r.S, 1)
		time.Sleep(2 * time.Minute)
		_ = stop(rig.ErrStop)
		seen := map[message.UID]bool{}
		for _, a := range r.Nats.Arrived() {
			if seen[a.M.UID] {
				t.Fatalf("%s arrived twice", a.M.UID)
			}
			seen[a.M.UID] = true
		}
		if len(seen) != n {
			t.Fatalf("%d of %d arrived", len(seen), n)
		}
	})
}

func TestRun_ExpiresWhatIsTooLateToDeliver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		a := r.Push(scheduler.Push{Delay: time.Second, TTL: time.Second})
		b := r.Push(scheduler.Push{Delay: time.Second, TTL: time.Minute})
		time.Sleep(5 * time.Second)
		stop := r.Lead(r.S, 1)
		time.Sleep(time.Second)
		_ = stop(rig.ErrStop)
		if got := r.Info(a.UID).State; got != message.StateExpired {
			t.Errorf("too late: %s, want expired", got)
		}
		if got := r.Info(b.UID).State; got != message.StateDelivered {
			t.Errorf("late but worth it: %s, want delivered", got)
		}
	})
}

func TestRun_ParksALaneThatFailsAndHoldsNothingElseBack(t *testing.T) {
	for _, kind := range []scheduler.OutcomeKind{scheduler.Unanswered, scheduler.NoListener, scheduler.Unknown} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t, 1, nil)
				away := true
				r.Nats.Answer = func(m *message.Message, _ int) scheduler.Outcome {
					if m.Topic == "sick" && away {
						return scheduler.Outcome{Kind: kind, Err: errors.New("away")}
					}
					return scheduler.Outcome{}
				}
				stop := r.Lead(r.S, 1)
				var sick []message.UID
				for range 2000 {
					sick = append(sick, r.Push(scheduler.Push{Topic: "sick", Delay: time.Second}).UID)
				}
				time.Sleep(2 * time.Second)
				for range 50 {
					r.Push(scheduler.Push{Topic: "well", Delay: time.Millisecond})
					time.Sleep(10 * time.Millisecond)
				}
				well := 0
				for _, a := range r.Nats.Arrived() {
					if a.M.Topic == "well" {
						well++
						if late := a.At.Sub(a.M.Due.Time()); late > 10*time.Millisecond {
							t.Errorf("a healthy topic was late by %s", late)
						}
					}
				}
				if well != 50 {
					t.Errorf("%d of 50 messages of a healthy topic arrived", well)
				}
				// A parked message is canceled by its uid alone.
				last := sick[len(sick)-1]
				if info := r.Info(last); info.State != message.StateWaiting || info.Mark.Lane != "core:sick" {
					t.Errorf("parked message: %s in lane %q", info.State, info.Mark.Lane)
				}
				r.Nats.Mu.Lock()
				away = false
				r.Nats.Mu.Unlock()
				time.Sleep(20 * time.Second)
				_ = stop(rig.ErrStop)
				for _, uid := range sick {
					if got := r.Info(uid).State; got != message.StateDelivered {
						t.Fatalf("after the lane healed %s is %s", uid, got)
					}
				}
				if lanes, err := r.Store.Lanes(t.Context(), 0); err != nil || len(lanes) != 0 {
					t.Errorf("lanes left: %v, %v", lanes, err)
				}
			})
		})
	}
}

func TestRun_EndsPoisonAsDeadAfterTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		r.Nats.Answer = func(m *message.Message, _ int) scheduler.Outcome {
			if m.Topic == "poison" {
				return scheduler.Outcome{Kind: scheduler.Refused, Err: errors.New("message size exceeds maximum")}
			}
			return scheduler.Outcome{}
		}
		stop := r.Lead(r.S, 1)
		a := r.Push(scheduler.Push{Topic: "poison", Body: []byte("x")})
		b := r.Push(scheduler.Push{Topic: "well"})
		time.Sleep(time.Minute)
		_ = stop(rig.ErrStop)
		info := r.Info(a.UID)
		if info.State != message.StateDead || info.Reason == "" || string(info.Body) != "x" {
			t.Errorf("poison: %s, reason %q, body %q", info.State, info.Reason, info.Body)
		}
		if r.Nats.Tries[a.UID] != 3 {
			t.Errorf("poison was tried %d times, the limit is 3", r.Nats.Tries[a.UID])
		}
		if got := r.Info(b.UID).State; got != message.StateDelivered {
			t.Errorf("its neighbour is %s", got)
		}
	})
}

func TestRun_UnknownOutcomeIsRepeatedAndNeverCanceledAsSure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		r.Nats.Answer = func(m *message.Message, nth int) scheduler.Outcome {
			if nth <= 3 {
				return scheduler.Outcome{Kind: scheduler.Unknown, Err: errors.New("time-out")}
			}
			return scheduler.Outcome{Duplicate: true}
		}
		stop := r.Lead(r.S, 1)
		a := r.Push(scheduler.Push{Topic: "a"})
		time.Sleep(50 * time.Millisecond) // three failures park the lane
		if info := r.Info(a.UID); info.State != message.StateWaiting || !info.Mark.Uncertain {
			t.Fatalf("after an unknown outcome: %s, uncertain %t", info.State, info.Mark.Uncertain)
		}
		b := r.Push(scheduler.Push{Topic: "a"})
		time.Sleep(20 * time.Millisecond)
		c, err := r.S.Cancel(t.Context(), scheduler.Ref{UID: a.UID})
		if err != nil || c.Code != scheduler.CancelMaybe {
			t.Fatalf("cancel of an uncertain message: %s, %v", c.Code, err)
		}
		time.Sleep(time.Minute)
		_ = stop(rig.ErrStop)
		if r.Nats.Tries[a.UID] != 3 {
			t.Errorf("after its cancel it was tried again: %d tries", r.Nats.Tries[a.UID])
		}
		if got := r.Info(b.UID).State; got != message.StateDelivered {
			t.Errorf("the next message is %s", got)
		}
	})
}

func TestRun_ClaimsNothingWhileNATSIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		r.Nats.Down = true
		stop := r.Lead(r.S, 1)
		a := r.Push(scheduler.Push{})
		time.Sleep(10 * time.Second)
		if got := r.Info(a.UID).State; got != message.StateWaiting {
			t.Fatalf("claimed while NATS is away: %s", got)
		}
		r.Nats.Mu.Lock()
		r.Nats.Down = false
		r.Nats.Mu.Unlock()
		time.Sleep(time.Second)
		_ = stop(rig.ErrStop)
		if got := r.Info(a.UID).State; got != message.StateDelivered {
			t.Fatalf("after NATS came back: %s", got)
		}
	})
}

// lossy loses the reply of some claims: they happen, and nobody hears of it.
type lossy struct {
	scheduler.Timeline
	mu   sync.Mutex
	lose int
}

func (l *lossy) Claim(ctx context.Context, bucket message.Bucket, req scheduler.Claim) (scheduler.Claimed, error) {
	got, err := l.Timeline.Claim(ctx, bucket, req)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && len(got.Messages) > 0 && l.lose > 0 {
		l.lose--
		return scheduler.Claimed{}, context.DeadlineExceeded
	}
	return got, err
}

func TestRun_FindsClaimsWhoseReplyWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lossy{lose: 2}
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		r.Nats.Down = true
		var uids []message.UID
		for range 700 {
			uids = append(uids, r.Push(scheduler.Push{}).UID)
		}
		r.Nats.Down = false
		stop := r.Lead(r.S, 1)
		time.Sleep(10 * time.Second)
		_ = stop(rig.ErrStop)
		for _, uid := range uids {
			if got := r.Info(uid).State; got != message.StateDelivered {
				t.Fatalf("%s is %s", uid, got)
			}
			if r.Nats.Tries[uid] != 1 {
				t.Fatalf("%s was published %d times", uid, r.Nats.Tries[uid])
			}
		}
	})
}

func TestRun_StepsDownAtAHigherTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, nil)
		stop := r.Lead(r.S, 1)
		time.Sleep(time.Second)
		for b := range message.Bucket(2) {
			if err := r.Store.Begin(t.Context(), b, 2); err != nil {
				t.Fatal(err)
			}
		}
		a := r.Push(scheduler.Push{})
		time.Sleep(5 * time.Second)
		if err := stop(rig.ErrStop); !errors.Is(err, scheduler.ErrStaleTerm) {
			t.Fatalf("the old leader ended with %v, want ErrStaleTerm", err)
		}
		if got := r.Info(a.UID).State; got != message.StateWaiting {
			t.Fatalf("the old leader changed a message: %s", got)
		}
	})
}

func TestRun_SuccessorSweepsWhatADeadLeaderHadClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		a := r.Push(scheduler.Push{})
		if err := r.Store.Begin(t.Context(), 0, 1); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Store.Claim(t.Context(), 0,
			scheduler.Claim{Term: 1, Now: message.Milli(time.Now().UnixMilli()), Limit: 9,
				Bytes: 999}); err != nil ||
			len(got.Messages) != 1 {
			t.Fatalf("claim: %+v, %v", got, err)
		}
		c, err := r.S.Cancel(t.Context(), scheduler.Ref{UID: a.UID})
		if err != nil || c.Code != scheduler.CancelInFlight {
			t.Fatalf("cancel in flight: %s, %v", c.Code, err)
		}
		stop := r.Lead(r.S, 2)
		time.Sleep(time.Second)
		_ = stop(rig.ErrStop)
		if got := r.Info(a.UID).State; got != message.StateDelivered {
			t.Fatalf("after the takeover: %s", got)
		}
	})
}

// staleConnection refuses to finish: the connection leads to a server that was replaced, though the store itself is
// whole.
type staleConnection struct {
	scheduler.Timeline
	stale atomic.Bool
}

func (s *staleConnection) Finish(ctx context.Context, b message.Bucket, term uint64, ends []scheduler.End,
	now message.Milli) error {
	if s.stale.Load() {
		return scheduler.ErrUncertified
	}
	return s.Timeline.Finish(ctx, b, term, ends, now)
}

func TestRun_ASecondRunUnderTheSameTermKnowsNothingOfTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &staleConnection{}
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		store.stale.Store(true)
		a := r.Push(scheduler.Push{})
		lease := func() time.Duration { return time.Hour }
		if err := r.S.Run(t.Context(), 1, lease); !errors.Is(err, scheduler.ErrUncertified) {
			t.Fatalf("the first run: %v", err)
		}
		if n := len(r.Nats.Arrived()); n != 1 {
			t.Fatalf("%d arrived, want 1", n)
		}
		store.stale.Store(false)
		r.Nats.Mu.Lock()
		r.Nats.Down = true
		r.Nats.Mu.Unlock()
		stop := r.Lead(r.S, 1)
		defer stop(rig.ErrStop)
		time.Sleep(time.Minute)
		if got := r.Info(a.UID); got.State != message.StateWaiting || !got.Mark.Uncertain {
			t.Errorf("what may have been delivered is %s, uncertain %t", got.State, got.Mark.Uncertain)
		}
		if c, err := r.S.Cancel(t.Context(), scheduler.Ref{UID: a.UID}); err != nil || c.Code != scheduler.CancelMaybe {
			t.Errorf("cancel of what was delivered: %s, %v", c.Code, err)
		}
	})
}

func TestRun_GracefulStopFinishesWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		slow := &slowly{NATS: r.Nats, by: time.Second}
		quick := r.Over(r.Store, slow)
		r.S = quick
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- quick.Serve(ctx) }()
		a := r.Push(scheduler.Push{})
		stop := r.Lead(r.S, 1)
		time.Sleep(100 * time.Millisecond)
		if got := r.Info(a.UID).State; got != message.StateInFlight {
			t.Fatalf("before the stop: %s", got)
		}
		_ = stop(rig.ErrStop)
		if got := r.Info(a.UID).State; got != message.StateDelivered {
			t.Fatalf("after the stop: %s, want delivered", got)
		}
		cancel()
		<-served
	})
}

// slowly answers after a while.
type slowly struct {
	*rig.NATS
	by time.Duration
}

func (s *slowly) Send(ctx context.Context, batch []*message.Message,
	done func(*message.Message, scheduler.Outcome)) {
	s.NATS.Send(ctx, batch, func(m *message.Message, o scheduler.Outcome) {
		time.AfterFunc(s.by, func() { done(m, o) })
	})
}
