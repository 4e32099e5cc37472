package election

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestStand_WaitsForHealthAndForTheFloor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := build(t, e, c, "a")
		sick, blind := errors.New("redis is away"), errors.New("term not read")
		a.setHealth(sick)
		a.setFloor(0, blind)
		a.run(t)
		after(time.Minute)
		if s := a.State(); s.Role != Standby || !errors.Is(s.Err, sick) {
			t.Errorf("unhealthy: state %+v", s)
		}
		a.setHealth(nil)
		after(time.Minute)
		if s := a.State(); s.Role != Standby || !errors.Is(s.Err, blind) {
			t.Errorf("without a floor: state %+v", s)
		}
		if n := len(c.all()); n != 0 {
			t.Fatalf("%d leaderships of an instance that must not stand", n)
		}
		a.setFloor(6, nil)
		after(2 * time.Second)
		wantLeader(t, c, "a", 7)
	})
}

func TestHealth_IsShownToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := start(t, e, c, "a")
		b := start(t, e, c, "b")
		for _, sick := range []error{nil, errors.New("sick"), nil} {
			b.setHealth(sick)
			after(2 * time.Second)
			m, err := a.Members(t.Context())
			if err != nil || len(m) != 2 || m[1].Healthy != (sick == nil) {
				t.Errorf("members %+v, %v; want b healthy: %v", m, err, sick == nil)
			}
		}
	})
}

func TestUnhealthy_LeaderResignsOnlyForAHealthyMember(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := start(t, e, c, "a")
		after(time.Second)
		b := build(t, e, c, "b")
		b.setHealth(errors.New("sick too"))
		b.run(t)
		a.setHealth(errors.New("nats is away"))
		after(time.Minute)
		wantLeader(t, c, "a", 1) // nobody could do better

		b.setHealth(nil)
		after(2 * time.Second)
		r := wantLeader(t, c, "b", 2)
		if first := c.all()[0]; !errors.Is(first.cause, ErrResigned) {
			t.Errorf("cause %v, want ErrResigned", first.cause)
		}
		a.setHealth(nil)
		after(time.Minute)
		if r.ctx.Err() != nil {
			t.Error("leadership went back and forth")
		}
		checkReigns(t, c.all())
	})
}

func TestUnhealthy_IsGivenTwoSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := start(t, e, c, "a")
		after(time.Second)
		start(t, e, c, "b")
		after(time.Minute)
		a.setHealth(errors.New("sick"))
		at := time.Now()
		after(4 * testSession)
		wantLeader(t, c, "b", 2)
		if took := c.all()[0].canceled.Sub(at); took < 2*testSession || took > 2*testSession+testSession/3 {
			t.Errorf("resigned after %v, want 2·S = %v and little more", took, 2*testSession)
		}
	})
}

func TestHealth_HangingCheckCountsAsUnhealthy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		hang := make(chan struct{})
		a := start(t, e, c, "a", func(cfg *setup) {
			calls := 0
			cfg.Healthy = func() error {
				if calls++; calls > 10 {
					<-hang
				}
				return nil
			}
		})
		after(time.Second)
		start(t, e, c, "b")
		after(10 * testSession)
		wantLeader(t, c, "b", 2)
		close(hang)
		a.halt()
	})
}

func TestResign_LetsAnotherWinAndStaysAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := start(t, e, c, "a")
		after(time.Second)
		b := build(t, e, c, "b")
		b.setHealth(errors.New("not yet"))
		b.run(t)
		after(time.Second)
		if err := b.Resign(t.Context(), "test"); !errors.Is(err, ErrNotLeader) {
			t.Errorf("Resign of a standby: %v, want ErrNotLeader", err)
		}
		at := time.Now()
		if err := a.Resign(t.Context(), "operator asked"); err != nil {
			t.Fatal(err)
		}
		if _, ok := e.peek("/tarry/test/leader"); ok {
			t.Error("Resign returned with the leader znode in place")
		}
		first := c.all()[0]
		if !errors.Is(first.cause, ErrResigned) || !errors.Is(first.cause, ErrLost) || first.leftAtLoss == 0 {
			t.Errorf("cause %v with %v of the lease left", first.cause, first.leftAtLoss)
		}
		after(testSession - time.Second/2)
		if n := len(c.all()); n != 1 {
			t.Fatalf("stood again within S: %d leaderships", n)
		}
		after(testSession + time.Second)
		r := wantLeader(t, c, "a", 2) // nobody else would
		if away := r.began.Sub(at); away < testSession || away > 2*testSession+time.Second/4 {
			t.Errorf("stayed away %v, want 1 to 2·S", away)
		}

		b.setHealth(nil)
		after(time.Second)
		if err := a.Resign(t.Context(), "again"); err != nil {
			t.Fatal(err)
		}
		at = time.Now()
		after(time.Second)
		if took := wantLeader(t, c, "b", 3).began.Sub(at); took > 100*time.Millisecond {
			t.Errorf("hand-over took %v", took)
		}
		checkReigns(t, c.all())
	})
}

func TestResign_StaysAwayOnlyUntilAnotherLeads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		all := map[string]*instance{"a": start(t, e, c, "a"), "b": start(t, e, c, "b")}
		after(time.Second)
		for range 10 {
			r := c.last(t)
			if err := all[r.instance].Resign(t.Context(), "test"); err != nil {
				t.Fatal(err)
			}
			at := time.Now()
			after(time.Second / 2)
			if next := c.last(t); next.instance == r.instance || next.began.Sub(at) > 100*time.Millisecond {
				t.Fatalf("%s followed %s after %v", next.instance, r.instance, next.began.Sub(at))
			}
		}
		checkReigns(t, c.all())
	})
}

func TestLead_ReturningGivesLeadershipUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := build(t, e, c, "a")
		a.refuse = errors.New("cannot lead here")
		a.run(t)
		after(time.Second)
		start(t, e, c, "b")
		after(time.Second)
		wantLeader(t, c, "b", 2)
		if s := a.State(); s.Role != Standby {
			t.Errorf("state %+v", s)
		}
	})
}

func TestLead_IsNotCalledAgainBeforeItReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := build(t, e, c, "a")
		a.linger = make(chan struct{})
		a.run(t)
		after(time.Second)
		a.set(func(op string) verdict {
			if op == "renew" {
				return loseReply
			}
			return pass
		})
		after(testSession)
		a.set(nil)
		after(time.Minute)
		if n := len(c.all()); n != 1 {
			t.Fatalf("%d calls of lead while the first still runs", n)
		}
		if _, ok := e.peek("/tarry/test/leader"); !ok {
			t.Error("the znode was given up while lead still runs")
		}
		close(a.linger)
		after(time.Second)
		wantLeader(t, c, "a", 2)
	})
}

func TestStop_EndsTheContextThenWaitsThenGivesUpThenCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := build(t, e, c, "a")
		a.linger = make(chan struct{})
		a.run(t)
		after(time.Second)
		r := wantLeader(t, c, "a", 1)
		a.stop()
		after(time.Minute)
		if !errors.Is(context.Cause(r.ctx), ErrResigned) {
			t.Fatalf("cause %v, want ErrResigned", context.Cause(r.ctx))
		}
		if _, ok := e.peek("/tarry/test/leader"); !ok {
			t.Fatal("the znode was given up before lead returned")
		}
		if left, ok := Remaining(r.ctx); !ok || left < testSession/3-time.Millisecond {
			t.Errorf("the lease was not renewed while lead finishes: %v left", left)
		}
		close(a.linger)
		if err := <-a.stopped; err != nil {
			t.Errorf("Run returned %v", err)
		}
		a.stopped <- nil
		for _, path := range []string{"/tarry/test/leader", "/tarry/test/instances/a"} {
			if _, ok := e.peek(path); ok {
				t.Errorf("%s is left behind", path)
			}
		}
		if e.alive(a.client().id) {
			t.Error("the session is left open")
		}
		wantRole(t, a, Disconnected)
	})
}

func TestStop_WhileCutOffDoesNotHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := start(t, e, c, "a")
		after(time.Second)
		a.client().stall(testSession)
		at := time.Now()
		if err := a.halt(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(at); took > testSession/2 {
			t.Errorf("stopping took %v", took)
		}
	})
}

func TestStop_BeforeAnyConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := build(t, e, c, "a")
		a.down = true
		a.run(t)
		after(time.Minute)
		if s := a.State(); s.Role != Disconnected || s.Err == nil {
			t.Errorf("state %+v", s)
		}
		if _, _, err := a.Leader(t.Context()); !errors.Is(err, ErrUnreachable) {
			t.Errorf("Leader: %v, want ErrUnreachable", err)
		}
		if _, err := a.Members(t.Context()); !errors.Is(err, ErrUnreachable) {
			t.Errorf("Members: %v, want ErrUnreachable", err)
		}
		if err := a.halt(); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}
