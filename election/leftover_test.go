package election

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
)

func TestLeader_KnowsTheLastOneWhileCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		start(t, e, c, "a")
		after(time.Second)
		b := start(t, e, c, "b")
		after(time.Second)
		b.client().stall(testSession)
		l, ok, err := b.Leader(t.Context())
		if !errors.Is(err, ErrUnreachable) || !ok || l.Instance != "a" {
			t.Errorf("got %+v, %v, %v; want the last known leader with ErrUnreachable", l, ok, err)
		}
	})
}

func TestLeftover_OfThisProcessIsRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := start(t, e, c, "a")
		after(time.Second)
		// The reply to giving up is lost and the request too: the next look finds the znode.
		tries := 0
		a.set(func(op string) verdict {
			if op == "give up" {
				if tries++; tries == 1 {
					return loseRequest
				}
			}
			return pass
		})
		if err := a.Resign(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		if _, ok := e.peek("/tarry/test/leader"); ok || tries != 2 {
			t.Errorf("the znode left behind is there: %v, after %d tries", ok, tries)
		}

		// One of my session that no term proves: not led, removed.
		e.outside(func(e *fakeEnsemble) {
			e.create(a.client().id, "/tarry/test/leader", []byte(`{"instance":"a","incarnation":"other"}`))
		})
		after(time.Second)
		if _, ok := e.peek("/tarry/test/leader"); ok {
			t.Error("an unproven znode of this session was kept")
		}
	})
}

func TestLeftover_OfAnEarlierSessionIsRemovedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := start(t, e, c, "a")
		after(time.Second)
		// The session ends for the client, but the server has not expired it yet, and no goodbye reaches it.
		a.client().stall(2 * testSession)
		a.client().hooks.state(zk.StateExpired)
		after(testSession / 3)
		wantLeader(t, c, "a", 2)
		checkReigns(t, c.all())
	})
}

func TestForeignZnode_IsWaitedForAndReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := build(t, e, c, "a")
		e.outside(func(e *fakeEnsemble) {
			for _, p := range []string{"/tarry", "/tarry/test", "/tarry/test/instances", "/tarry/test/leader"} {
				e.create(0, p, []byte("{"))
			}
		})
		a.run(t)
		after(time.Minute)
		if n := len(c.all()); n != 0 {
			t.Fatalf("%d leaderships over a foreign znode", n)
		}
		if s := a.State(); s.Role != Standby || !errors.Is(s.Err, errBadZnode) {
			t.Errorf("state %+v", s)
		}
		e.outside(func(e *fakeEnsemble) { e.remove("/tarry/test/leader", -1) })
		after(time.Second)
		wantLeader(t, c, "a", 1)
	})
}

func TestTermZnode_UnreadableMeansNotToStand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		e.outside(func(e *fakeEnsemble) {
			for _, p := range []string{"/tarry", "/tarry/test", "/tarry/test/instances"} {
				e.create(0, p, nil)
			}
			e.create(0, "/tarry/test/term", []byte("9007199254740991"))
		})
		a := start(t, e, c, "a")
		after(time.Minute)
		if s := a.State(); s.Role != Standby || s.Err == nil || len(c.all()) != 0 {
			t.Errorf("the last term below 2^53 was passed: %+v", s)
		}
		e.outside(func(e *fakeEnsemble) { e.set("/tarry/test/term", []byte("many"), -1) })
		after(time.Minute)
		if s := a.State(); !errors.Is(s.Err, errBadZnode) || len(c.all()) != 0 {
			t.Errorf("an unreadable term was passed: %+v", s)
		}
	})
}

func TestInstance_SecondLiveOneIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		start(t, e, c, "a")
		after(time.Second)
		at := time.Now()
		twin := start(t, e, c, "a")
		err := <-twin.stopped
		twin.stopped <- err
		if !errors.Is(err, ErrDuplicateInstance) {
			t.Fatalf("Run of a twin returned %v", err)
		}
		if took := time.Since(at); took < 2*testSession || took > 2*testSession+2*time.Second {
			t.Errorf("refused after %v, want 2·S", took)
		}
		wantLeader(t, c, "a", 1)
	})
}

func TestInstance_CrashedPredecessorIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		first := start(t, e, c, "a")
		after(time.Second)
		first.client().stall(testSession) // as a crash leaves it
		first.stop()
		start(t, e, c, "a")
		after(2 * testSession)
		wantLeader(t, c, "a", 2)
	})
}

func TestRun_Twice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := newFakeEnsemble(), &court{}
		a := start(t, e, c, "a")
		after(time.Second)
		if err := a.Run(t.Context()); !errors.Is(err, ErrRunning) {
			t.Errorf("second Run: %v, want ErrRunning", err)
		}
		if err := a.halt(); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		after(time.Second)
		wantLeader(t, c, "a", 2)
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run after a stop: %v", err)
		}
	})
}
