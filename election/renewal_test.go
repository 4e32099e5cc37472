package election

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
)

func TestRenewal_DeadlineIsHalfASessionAfterTheLastSend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := start(t, e, c, "a")
		after(time.Second / 2)
		start(t, e, c, "b")
		after(time.Minute)
		var sent []time.Time
		a.set(func(op string) verdict {
			if op == "renew" {
				sent = append(sent, time.Now())
				return loseReply
			}
			return pass
		})
		began := wantLeader(t, c, "a", 1).began
		after(2 * testSession)
		first := c.all()[0]
		// The last acknowledged renewal was one turn before the first lost one.
		want := sent[0].Add(-testSession / 6).Add(testSession / 2)
		if !first.canceled.Equal(want) {
			t.Errorf("context ended %v after it began, want %v", first.canceled.Sub(began), want.Sub(began))
		}
		if !errors.Is(first.cause, ErrLost) || errors.Is(first.cause, ErrResigned) {
			t.Errorf("cause %v, want a loss", first.cause)
		}
		if first.leftAtLoss != 0 {
			t.Errorf("%v of the lease left after the loss", first.leftAtLoss)
		}
		wantLeader(t, c, "b", 2)
		checkReigns(t, c.all())
	})
}

func TestRenewal_LostRepliesThatEndInTimeCostNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := start(t, e, c, "a")
		after(time.Second)
		turn := 0
		a.set(func(op string) verdict {
			if op == "renew" {
				if turn++; turn%2 != 0 { // the next one's comes S/3 after the last acknowledged send
					return loseReply
				}
			}
			return pass
		})
		after(10 * time.Minute)
		wantLeader(t, c, "a", 1)
		if n := len(c.all()); n != 1 {
			t.Errorf("%d leaderships, want 1", n)
		}
	})
}

func TestRenewal_LateAcknowledgementDoesNotRevive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := start(t, e, c, "a")
		after(time.Second)
		r := wantLeader(t, c, "a", 1)
		a.set(func(op string) verdict {
			if op == "renew" {
				return holdReply
			}
			return pass
		})
		after(testSession / 3) // the last acknowledged send is S/6 ago at most
		if r.ctx.Err() != nil {
			t.Fatal("the context ended before the deadline")
		}
		after(testSession / 6)
		a.releaseHeld()
		after(time.Second)
		if !errors.Is(context.Cause(r.ctx), ErrLost) {
			t.Errorf("cause %v, want ErrLost", context.Cause(r.ctx))
		}
		if left, ok := Remaining(r.ctx); left != 0 || !ok {
			t.Errorf("Remaining is %v, %v after the loss, want 0, true", left, ok)
		}
		wantLeader(t, c, "a", 2)
		checkReigns(t, c.all())
	})
}

func TestRenewal_SlowAcknowledgementCountsFromTheSend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := start(t, e, c, "a")
		after(time.Second)
		var sent time.Time
		a.set(func(op string) verdict {
			switch {
			case op != "renew":
				return pass
			case sent.IsZero():
				sent = time.Now()
				return holdReply
			}
			return loseRequest
		})
		after(testSession/6 + testSession/8) // the one that is held was sent S/8 ago at least
		a.releaseHeld()
		a.set(func(op string) verdict {
			if op == "renew" {
				return loseRequest
			}
			return pass
		})
		after(testSession)
		if lost := c.all()[0].canceled; !lost.Equal(sent.Add(testSession / 2)) {
			t.Errorf("lost %v after the send that was acknowledged last, want S/2", lost.Sub(sent))
		}
	})
}

func TestRemaining_MovesWithRenewals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		start(t, e, c, "a")
		after(time.Second)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(wantLeader(t, c, "a", 1).ctx), time.Hour)
		defer cancel()
		for range 100 {
			left, ok := Remaining(ctx)
			if !ok || left <= testSession/3-time.Millisecond || left > testSession/2 {
				t.Fatalf("Remaining is %v, %v; renewals every %v must keep it above %v", left, ok, testSession/6,
					testSession/3)
			}
			after(137 * time.Millisecond)
		}
		if _, ok := Remaining(t.Context()); ok {
			t.Error("a context without a lease has a Remaining")
		}
	})
}

func TestSession_SilentLinkLosesBeforeTheStandbyBegins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := start(t, e, c, "a")
		after(time.Second)
		b := start(t, e, c, "b")
		after(time.Second)
		wantLeader(t, c, "a", 1)
		// The server's last touch may be T/2 old, and T may be S/2.
		a.client().stall(testSession - testSession/4)
		after(2 * testSession)
		wantLeader(t, c, "b", 2)
		wantRole(t, b, Leading)
		checkReigns(t, c.all())
		if gap := c.all()[1].began.Sub(c.all()[0].canceled); gap < testSession/4-testSession/6 {
			t.Errorf("the standby began %v after the loss: too near", gap)
		}
	})
}

func TestSession_ShortBreakKeepsTheTerm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		i := start(t, e, c, "a")
		after(time.Second)
		start(t, e, c, "b")
		after(time.Second)
		for range 20 {
			i.client().stall(testSession)
			after(testSession / 6)
			i.client().notice()
			after(testSession / 8)
			if s := i.State(); s.Role != Leading || s.Err == nil {
				t.Fatalf("state while the connection is away: %+v", s)
			}
			i.client().heal()
			after(testSession / 6)
		}
		wantLeader(t, c, "a", 1)
		if s := i.State(); s.Role != Leading || s.Err != nil {
			t.Errorf("state after the connection is back: %+v", s)
		}
	})
}

func TestSession_ExpiryOpensANewOneAndIgnoresTheOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := start(t, e, c, "a")
		after(time.Second)
		r := wantLeader(t, c, "a", 1)
		old := a.client()
		e.kill(old)
		synctest.Wait()
		if !errors.Is(context.Cause(r.ctx), ErrLost) {
			t.Fatal("expiry did not end the leadership at once")
		}
		after(2 * time.Second)
		wantLeader(t, c, "a", 2)
		if a.client() == old || e.sessionsOpened() != 2 {
			t.Fatalf("%d sessions were opened, want 2", e.sessionsOpened())
		}
		for _, s := range []zk.State{zk.StateDisconnected, zk.StateExpired, zk.StateHasSession} {
			old.hooks.state(s)
		}
		old.hooks.granted(time.Hour)
		after(time.Minute)
		wantLeader(t, c, "a", 2)
		wantRole(t, a, Leading)
	})
}

func TestSession_GrantedTimeoutCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		e.granted = 2 * testSession
		a := start(t, e, c, "a")
		after(time.Minute)
		if left, _ := Remaining(c.last(t).ctx); left <= testSession/2 {
			t.Errorf("Remaining %v follows the session asked for, not the granted one", left)
		}
		a.set(func(op string) verdict {
			if op == "renew" {
				return loseReply
			}
			return pass
		})
		after(testSession/2 + testSession/6)
		wantLeader(t, c, "a", 1)
		after(testSession / 2)
		if c.all()[0].canceled.IsZero() {
			t.Error("the deadline did not come")
		}
	})
}

func TestCalls_AreBoundedWhileNothingAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := start(t, e, c, "a")
		after(time.Second)
		a.client().stall(time.Hour) // silent, and the client does not notice
		after(10 * time.Minute)
		a.Node.mu.Lock()
		held := len(a.session.slots)
		a.Node.mu.Unlock()
		if held == 0 || held > maxOutstanding {
			t.Errorf("%d calls outstanding, want 1 to %d", held, maxOutstanding)
		}
		a.client().heal()
		after(time.Second)
		if r := c.last(t); r.term != 2 || a.State().Role != Leading {
			t.Errorf("after the silence: %+v, %+v", r, a.State())
		}
	})
}
