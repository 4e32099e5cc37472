package lead_test

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

func TestRun_AnExpiredProbeDoesNotCloseItsLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		away := true
		r.Nats.Answer = func(*message.Message, int) scheduler.Outcome {
			if away {
				return scheduler.Outcome{Kind: scheduler.NoListener, Err: errors.New("nobody")}
			}
			return scheduler.Outcome{}
		}
		stop := r.Lead(r.S, 1)
		defer stop(rig.ErrStop)
		r.Push(scheduler.Push{Delay: time.Second, TTL: 3 * time.Second, Body: []byte("ttl")})
		r.Push(scheduler.Push{Delay: 2 * time.Second, Body: []byte("keep")})
		time.Sleep(30 * time.Second)
		r.Nats.Mu.Lock()
		away = false
		r.Nats.Mu.Unlock()
		r.Push(scheduler.Push{Delay: time.Second, Body: []byte("new")})
		time.Sleep(time.Hour)
		if got := len(r.Nats.Arrived()); got != 2 {
			t.Fatalf("an hour after the listener came back %d of 2 messages arrived", got)
		}
	})
}

// lostReturn loses the reply of a return: it happens, and nobody hears of it.
type lostReturn struct {
	scheduler.Timeline
	mu   sync.Mutex
	lost int
}

func (s *lostReturn) Return(ctx context.Context, b message.Bucket, term uint64, back []scheduler.Back,
	now message.Milli) error {
	err := s.Timeline.Return(ctx, b, term, back, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.lost > 0 {
		s.lost--
		select { // the reply does not come: the call runs into its time-out
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		return context.DeadlineExceeded
	}
	return err
}

// slowNats refuses the first message for now; the others arrive at once and are acknowledged late.
type slowNats struct {
	*rig.NATS
	mu sync.Mutex
	n  int
}

func (n *slowNats) Send(_ context.Context, batch []*message.Message,
	done func(*message.Message, scheduler.Outcome)) {
	for _, m := range batch {
		n.mu.Lock()
		n.n++
		first := n.n == 1
		n.mu.Unlock()
		if first {
			done(m, scheduler.Outcome{Kind: scheduler.Unanswered, Err: errors.New("503")})
			continue
		}
		go func() { // the stream has it at once; its ack takes 1.9 s, within the publish time-out
			n.NATS.Mu.Lock()
			n.NATS.Got = append(n.NATS.Got, rig.Arrival{M: m, At: time.Now()})
			n.NATS.Mu.Unlock()
			time.Sleep(1900 * time.Millisecond)
			done(m, scheduler.Outcome{})
		}()
	}
}

func TestRun_ARepeatedReturnLeavesALaterClaimAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lostReturn{lost: 1}
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		pub := &slowNats{NATS: r.Nats}
		s := r.Over(store, pub)
		stop := r.Lead(s, 1)
		a := r.Push(scheduler.Push{Delay: time.Second})
		ending := false
		for i := range 400 {
			time.Sleep(10 * time.Millisecond)
			n := len(r.Nats.Arrived())
			if n == 0 {
				continue
			}
			if n == 1 && !ending {
				ending = true
				go stop(rig.ErrStop) // a graceful stop; NATS away (Ready false) or a full window do the same
			}
			c, err := r.S.Cancel(context.Background(), scheduler.Ref{UID: a.UID})
			if err != nil {
				t.Fatal(err)
			}
			if c.Code == scheduler.CancelDone {
				t.Errorf("cancel answered OK at step %d, after %d arrivals at NATS", i, n)
				break
			}
		}
		time.Sleep(5 * time.Second)
		if got := len(r.Nats.Arrived()); got != 1 {
			t.Errorf("it arrived %d times", got)
		}
	})
}

func TestRun_OneRefusedSubjectDoesNotHoldItsStreamBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		r.Nats.LaneOf = func(*message.Message) message.Lane { return "js:S" }
		r.Nats.Answer = func(m *message.Message, _ int) scheduler.Outcome {
			if m.Topic == "full" {
				return scheduler.Outcome{Kind: scheduler.Unanswered,
					Err: errors.New("maximum messages per subject exceeded (503, 10077)")}
			}
			return scheduler.Outcome{}
		}
		stop := r.Lead(r.S, 1)
		defer stop(rig.ErrStop)
		r.Push(scheduler.Push{Topic: "full", Delay: time.Second})
		time.Sleep(10 * time.Second)
		for i := range 100 {
			r.Push(scheduler.Push{Topic: fmt.Sprint("ok.", i), Delay: time.Second})
		}
		time.Sleep(30 * time.Minute)
		if got := len(r.Nats.Arrived()); got != 100 {
			t.Fatalf("%d of 100 messages of other subjects arrived in half an hour", got)
		}
	})
}

// A lane keeps its name in the store while settings and streams change: its messages may now belong to another lane.
func TestRun_WhatStrayedIntoALaneDoesNotParkIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		var away []string // topics that are refused
		r.Nats.LaneOf = func(*message.Message) message.Lane { return "js:WELL" }
		r.Nats.Answer = func(m *message.Message, _ int) scheduler.Outcome {
			if slices.Contains(away, m.Topic) {
				return scheduler.Outcome{Kind: scheduler.Unanswered,
					Err: errors.New("maximum messages exceeded (503, 10077)")}
			}
			return scheduler.Outcome{}
		}
		arrived := func(topic string) (n int, latest time.Duration) {
			for _, a := range r.Nats.Arrived() {
				if a.M.Topic == topic {
					n, latest = n+1, max(latest, a.At.Sub(a.M.Due.Time()))
				}
			}
			return n, latest
		}
		change := func(f func()) {
			r.Nats.Mu.Lock()
			defer r.Nats.Mu.Unlock()
			f()
		}
		change(func() { away = []string{"sick", "well"} })
		stop := r.Lead(r.S, 1)
		const strays = 2000
		var sick []message.UID
		for range strays {
			sick = append(sick, r.Push(scheduler.Push{Topic: "sick", Delay: time.Second}).UID)
		}
		time.Sleep(10 * time.Second)
		if lane := r.Info(sick[strays-1]).Mark.Lane; lane != "js:WELL" {
			t.Fatalf("parked in %q", lane)
		}
		_ = stop(rig.ErrStop)
		// Another stream has it by now, and that refuses it still.
		change(func() {
			away = []string{"sick"}
			r.Nats.LaneOf = func(m *message.Message) message.Lane {
				return map[string]message.Lane{"sick": "js:SICK", "well": "js:WELL"}[m.Topic]
			}
		})
		stop = r.Lead(r.S, 2)
		for range 100 {
			r.Push(scheduler.Push{Topic: "well", Delay: time.Millisecond})
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		if n, late := arrived("well"); n != 100 || late > 10*time.Millisecond {
			t.Errorf("%d of 100 messages of the healthy stream arrived, the latest %s late", n, late)
		}
		for _, uid := range sick {
			if info := r.Info(uid); info.State != message.StateWaiting || info.Mark.Lane != "js:SICK" {
				t.Fatalf("%s is %s in the lane %q", uid, info.State, info.Mark.Lane)
			}
		}
		change(func() { away = nil })
		time.Sleep(20 * time.Second)
		_ = stop(rig.ErrStop)
		if n, _ := arrived("sick"); n != strays {
			t.Errorf("%d of %d messages of the stream that refused arrived", n, strays)
		}
		if lanes, err := r.Store.Lanes(t.Context(), 0); err != nil || len(lanes) != 0 {
			t.Errorf("lanes left: %v, %v", lanes, err)
		}
	})
}

// lateClaim loses a claim on its way: the store executes it only when the next message is added, long after the caller
// stopped waiting and looked for what it holds.
type lateClaim struct {
	scheduler.Timeline
	mu    sync.Mutex
	armed bool
	lost  *scheduler.Claim
}

func (s *lateClaim) Claim(ctx context.Context, b message.Bucket, req scheduler.Claim) (scheduler.Claimed, error) {
	s.mu.Lock()
	if s.armed {
		s.armed, s.lost = false, &req
		s.mu.Unlock()
		return scheduler.Claimed{}, context.DeadlineExceeded
	}
	s.mu.Unlock()
	return s.Timeline.Claim(ctx, b, req)
}

func (s *lateClaim) Add(ctx context.Context, b message.Bucket, batch []*message.Message,
	now message.Milli) ([]scheduler.AddResult, []scheduler.Earlier, error) {
	results, earlier, err := s.Timeline.Add(ctx, b, batch, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		if c, err := s.Timeline.Claim(ctx, b, *s.lost); err != nil || len(c.Messages) != 1 {
			panic("the late claim took nothing")
		}
		s.lost = nil
	}
	return results, earlier, err
}

func TestRun_FindsWhatALateClaimTookAlthoughNothingElseIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lateClaim{armed: true}
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		r.Push(scheduler.Push{Delay: time.Second})
		stop := r.Lead(r.S, 1)
		defer func() { _ = stop(rig.ErrStop) }()
		time.Sleep(5 * time.Second)
		if got := len(r.Nats.Arrived()); got != 1 {
			t.Fatalf("%d messages arrived, want the first", got)
		}
		r.Push(scheduler.Push{At: 1, HasAt: true}) // due, and at once in the hands of a claim that nobody remembers
		time.Sleep(time.Minute)
		if got := len(r.Nats.Arrived()); got != 2 {
			t.Errorf("%d messages arrived, want both", got)
		}
	})
}
