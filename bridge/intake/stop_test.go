package intake_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
)

// stuck takes one push and holds up all others behind it, until it is let go.
type stuck struct {
	intake.Acceptor
	holding chan struct{} // has a value once it holds
	free    chan struct{}
}

func (s *stuck) Accept(p *scheduler.Push, done func(scheduler.Accepted)) {
	select {
	case s.holding <- struct{}{}:
	default:
	}
	<-s.free
	s.Acceptor.Accept(p, done)
}

func TestIntake_GivesBackWhatItHasNotHandledWhenItStops(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc, ns, timeline := bridgetest.Connect(t, server.URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
		accept := &stuck{Acceptor: bridgetest.Scheduling(t, nc, timeline), holding: make(chan struct{}, 1),
			free: make(chan struct{})}
		first := bridgetest.IntakeOn(t,
			intake.Config{Conn: bridgetest.Connect(t, server.URL()), Namespace: ns, Prefix: "delayed", Accept: accept})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- first.Run(ctx) }()
		lab.Eventually(t, 15*time.Second, func() error {
			if !first.Enabled() {
				return errors.New("the intake is not open")
			}
			return nil
		})
		const pushes = 100
		for i := range pushes {
			bridgetest.Publish(t, nc, "delayed.a", fmt.Sprint(i), "Tarry-Delay", "1h")
		}
		<-accept.holding
		stop()
		close(accept.free)
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		// NATS would give what was kept to another only after AckWait.
		begun := time.Now()
		bridgetest.Taking(t,
			intake.Config{Conn: nc, Namespace: ns, Prefix: "delayed", Accept: bridgetest.Scheduling(t, nc, timeline)})
		bridgetest.Emptied(t, nc, ns)
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("the next instance had them after %s", took)
		}
		if n := bridgetest.Waiting(t, timeline); n != pushes {
			t.Errorf("%d messages wait, want %d", n, pushes)
		}
	})
}

// What an instance works on stays with it, however long that takes and however much waits behind it. If the instance
// dies, another has all of it within 3 s.
func TestIntake_KeepsWhatItWorksOnAndNothingOnceItIsDead(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc, ns, timeline := bridgetest.Connect(t, server.URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
		own := bridgetest.Connect(t, server.URL())
		accept := &stuck{Acceptor: bridgetest.Scheduling(t, nc, timeline), holding: make(chan struct{}, 1),
			free: make(chan struct{})}
		bridgetest.Taking(t, intake.Config{Conn: own, Namespace: ns, Prefix: "delayed", Accept: accept})
		const pushes = 100
		for i := range pushes {
			bridgetest.Publish(t, nc, "delayed.a", fmt.Sprint(i), "Tarry-Delay", "1h")
		}
		<-accept.holding
		bridgetest.Taking(t,
			intake.Config{Conn: nc, Namespace: ns, Prefix: "delayed", Accept: bridgetest.Scheduling(t, nc, timeline)})
		held := time.Now()
		lab.Eventually(t, time.Minute, func() error { // more than two AckWaits
			if n := bridgetest.Waiting(t, timeline); n != 0 {
				t.Fatalf("another instance took %d pushes that are worked on after %s", n, time.Since(held))
			}
			if time.Since(held) < 6*time.Second {
				return errors.New("it is early")
			}
			return nil
		})
		own.Close() // as kill -9 does
		begun := time.Now()
		bridgetest.Emptied(t, nc, ns)
		if took := time.Since(begun); took > 10*time.Second { // of NATS's own AckWait, 30 s
			t.Errorf("the other instance had them after %s", took)
		}
		if n := bridgetest.Waiting(t, timeline); n != pushes {
			t.Errorf("%d messages wait, want %d", n, pushes)
		}
		close(accept.free)
	})
}
