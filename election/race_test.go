package election

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestElection_OneLeadsAndTheOtherStandsBy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := start(t, e, c, "a")
		after(time.Second)
		b := start(t, e, c, "b")
		after(time.Minute)
		wantLeader(t, c, "a", 1)
		wantRole(t, a, Leading)
		wantRole(t, b, Standby)
		if s := a.State(); s.Term != 1 || s.Err != nil {
			t.Errorf("leader's state: %+v", s)
		}
		for _, i := range []*instance{a, b} {
			l, ok, err := i.Leader(t.Context())
			if err != nil || !ok || l.Instance != "a" || l.Address != "a:7071" || l.Term != 1 || l.Since.IsZero() {
				t.Errorf("%s sees leader %+v, %v, %v", i.name, l, ok, err)
			}
			m, err := i.Members(t.Context())
			if err != nil || len(m) != 2 || m[0].Instance != "a" || m[1].Instance != "b" || !m[0].Healthy {
				t.Errorf("%s sees members %+v, %v", i.name, m, err)
			}
		}
	})
}

func TestRace_LostReplyIsProvedAndLed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := build(t, e, c, "a")
		lost := false
		a.set(func(op string) verdict {
			if op == "race" && !lost {
				lost = true
				return loseReply
			}
			return pass
		})
		a.run(t)
		after(time.Second)
		wantLeader(t, c, "a", 1)
		if n, _ := e.peek("/tarry/test/term"); string(n.data) != "1" {
			t.Errorf("term znode holds %s, want 1: the race must not be run twice", n.data)
		}
	})
}

func TestRace_LostRequestIsRunAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := build(t, e, c, "a")
		races := 0
		a.set(func(op string) verdict {
			if op == "race" {
				if races++; races == 1 {
					return loseRequest
				}
			}
			return pass
		})
		a.run(t)
		after(time.Second)
		wantLeader(t, c, "a", 1)
		if races != 2 {
			t.Errorf("%d races, want 2", races)
		}
	})
}

func TestRace_UnknownOutcomeThatAnotherWonIsNotLed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := build(t, e, c, "a")
		var b *instance
		a.set(func(op string) verdict {
			if op == "race" && b == nil {
				b = start(t, e, c, "b")
				return loseRequest
			}
			if op == "sync" {
				return loseRequest // a cannot ask before b has won
			}
			return pass
		})
		a.run(t)
		after(time.Second)
		wantLeader(t, c, "b", 1)
		a.set(nil)
		after(time.Second)
		wantLeader(t, c, "b", 1)
		wantRole(t, a, Standby)
		a.halt()
	})
}

func TestFenced_LaterTermEndsLeadershipAtTheNextRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		start(t, e, c, "a")
		after(time.Second)
		r := wantLeader(t, c, "a", 1)
		e.outside(func(e *fakeEnsemble) { e.set("/tarry/test/term", []byte("7"), -1) })
		after(testSession/6 + time.Millisecond)
		if !errors.Is(context.Cause(r.ctx), ErrLost) {
			t.Fatalf("cause %v, want ErrLost", context.Cause(r.ctx))
		}
		after(time.Second)
		wantLeader(t, c, "a", 8)
	})
}

func TestFenced_GivingUpLeavesTheNextLeadersZnode(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{
		"before it finds out": 10 * time.Millisecond,
		"after it found out":  time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e, c := newFakeEnsemble(), &court{}
				a := build(t, e, c, "a")
				a.linger = make(chan struct{})
				a.run(t)
				after(time.Second)
				start(t, e, c, "b")
				after(time.Second + testSession/12) // in the middle between two renewals of a
				a.stop()
				synctest.Wait()
				e.outside(func(e *fakeEnsemble) { e.remove("/tarry/test/leader", -1) })
				after(wait)
				wantLeader(t, c, "b", 2)
				close(a.linger)
				after(time.Minute)
				if r := wantLeader(t, c, "b", 2); r.ctx.Err() != nil {
					t.Errorf("the next leader was disturbed: %v", context.Cause(r.ctx))
				}
			})
		})
	}
}

func TestWiped_TermGoesOnAboveTheFloor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := start(t, e, c, "a")
		after(time.Second)
		a.setFloor(41, nil)
		e.outside(func(e *fakeEnsemble) { clear(e.nodes) })
		after(3 * testSession)
		wantLeader(t, c, "a", 42)
		m, err := a.Members(t.Context())
		if err != nil || len(m) != 1 {
			t.Errorf("members after the wipe: %v, %v", m, err)
		}
	})
}

// After a wipe the versions start again, so the term's can be the same for two leaderships.
func TestWiped_SameVersionDoesNotRenewForTwo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := start(t, e, c, "a")
		after(time.Second)
		b := start(t, e, c, "b")
		after(time.Second)
		after(testSession / 12) // in the middle between two renewals of a
		wantLeader(t, c, "a", 1)
		b.setFloor(1, nil)
		a.setFloor(1, nil)
		e.outside(func(e *fakeEnsemble) {
			clear(e.nodes)
			e.childChanged("/tarry/test/leader")
		})
		after(time.Minute)
		r := wantLeader(t, c, "b", 2)
		if r.ctx.Err() != nil || len(c.all()) != 2 {
			t.Errorf("%d leaderships, the last ended by %v", len(c.all()), context.Cause(r.ctx))
		}
		if first := c.all()[0]; first.canceled.IsZero() || first.canceled.Sub(r.began) > testSession/6 {
			t.Errorf("the old leader went on for %v", first.canceled.Sub(r.began))
		}
	})
}
