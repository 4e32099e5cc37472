package intake_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
)

// holding is an Acceptor whose test decides when it has a push.
type holding struct{ pushes chan func() }

func (s holding) Accept(p *scheduler.Push, done func(scheduler.Accepted)) {
	s.pushes <- func() { done(scheduler.Accepted{UID: p.UID, ID: p.ID}) }
}

func TestIntake_PassedWaitsForWhatTheStreamHeld(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc, ns := bridgetest.Connect(t, server.URL()), bridgetest.NewNamespace()
		to := holding{pushes: make(chan func(), 1)}
		in := bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "delayed", Accept: to})
		if passed := in.Passed(t.Context()); passed != scheduler.PassedAll { // nothing is there
			t.Errorf("of nothing it passed %d", passed)
		}
		bridgetest.Publish(t, nc, "delayed.a", "body", "Tarry-Delay", "1h")
		accept := <-to.pushes
		var accepted atomic.Bool
		time.AfterFunc(50*time.Millisecond, func() {
			accepted.Store(true)
			accept()
		})
		if in.Passed(t.Context()) != scheduler.PassedAll || !accepted.Load() {
			t.Error("it did not wait until the push was accepted")
		}
		bridgetest.Publish(t, nc, "delayed.a", "later", "Tarry-Delay", "1h")
		accept = <-to.pushes
		start := time.Now()
		if in.Passed(t.Context()) != scheduler.PassedSome || time.Since(start) < time.Second { // and not for ever
			t.Errorf("it waited for %s", time.Since(start))
		}
		accept()
		bridgetest.Emptied(t, nc, ns)
		nc.Close()
		if passed := in.Passed(t.Context()); passed != scheduler.PassedUnknown {
			t.Errorf("without a link it passed %d", passed)
		}
	})
}

// TestIntake_WhatWasAcknowledgedIsNotWaitedFor has a server whose stream still holds what its consumer acknowledged,
// for ever: nats-server 2.9 comes back so after it was killed at the wrong moment. Later versions mend that when they
// start.
func TestIntake_WhatWasAcknowledgedIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	server, ns := lab.NewNATS(t, lab.NATS29()), bridgetest.NewNamespace()
	left := stranded(t, server, ns, 5)
	nc := bridgetest.Connect(t, server.URL())
	to := holding{pushes: make(chan func(), 1)}
	in := bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "delayed", Accept: to})
	passed := func(step string) {
		t.Helper()
		lab.Eventually(t, 10*time.Second, func() error { // but the consumer may not be up yet
			if start := time.Now(); in.Passed(t.Context()) != scheduler.PassedAll || time.Since(start) > time.Second/2 {
				return fmt.Errorf("%s: it waited for %s", step, time.Since(start))
			}
			return nil
		})
	}
	holds := func(step string, want uint64) {
		t.Helper()
		held, err := in.Held(t.Context())
		if err != nil || held.Pushes != want {
			t.Fatalf("%s: %+v, %v; want %d pushes", step, held, err, want)
		}
	}
	passed("before any push")
	holds("before any push", 0)
	bridgetest.Publish(t, nc, "delayed.a", "body", "Tarry-Delay", "1h")
	var accept func()
	select {
	case accept = <-to.pushes:
	case <-time.After(10 * time.Second):
		t.Fatal("a push does not come")
	}
	holds("with a push under way", 1)
	start := time.Now()
	if in.Passed(t.Context()) != scheduler.PassedSome || time.Since(start) < time.Second {
		t.Errorf("a push under way was waited for %s", time.Since(start))
	}
	accept()
	passed("after it")
	holds("after it", 0)
	if state := bridgetest.StreamState(t, nc, link.StreamName(ns)); state.Msgs != left.Msgs ||
		state.FirstSeq != left.FirstSeq {
		t.Errorf("the stream holds %+v, it held %+v", state, left)
	}
}

// stranded makes an intake stream that holds n messages which its consumer has acknowledged: those that a server wrote
// before it was stopped come back when it starts again, as a server's do that is killed before it has written that they
// are gone.
func stranded(t *testing.T, server *lab.NATS, ns string, n int) jetstream.StreamState {
	t.Helper()
	taken := func(push bool) {
		nc := bridgetest.Connect(t, server.URL())
		in := bridgetest.IntakeOn(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "delayed", Accept: accepting{}})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- in.Run(ctx) }() // waited for below
		defer func() { stop(); <-ended }()
		if push {
			publishEventually(t, nc)
		}
		bridgetest.Emptied(t, nc, ns)
	}
	taken(true) // makes the stream and its consumer
	nc := bridgetest.Connect(t, server.URL())
	for range n {
		bridgetest.Publish(t, nc, "delayed.a", "body", "Tarry-Delay", "1h")
	}
	nc.Close()
	server.Stop()
	stream := filepath.Join(server.Dir(), "store", "jetstream", "$G", "streams", link.StreamName(ns))
	messages := filepath.Join(stream, "msgs")
	kept := filepath.Join(t.TempDir(), "msgs")
	if err := os.CopyFS(kept, os.DirFS(messages)); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	taken(false)
	lab.Eventually(t, 10*time.Second, func() error { // 2.9 may not write it when it stops
		if floor := ackFloor(t, stream); floor <= uint64(n) { // the first push is of taken
			return fmt.Errorf("the consumer's file says that all up to %d is acknowledged", floor)
		}
		return nil
	})
	server.Stop()
	if err := errors.Join(os.RemoveAll(messages), os.CopyFS(messages, os.DirFS(kept))); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	left := bridgetest.StreamState(t, bridgetest.Connect(t, server.URL()), link.StreamName(ns))
	if left.Msgs != uint64(n) {
		t.Fatalf("the stream holds %d messages, it was to hold %d", left.Msgs, n)
	}
	return left
}

// ackFloor returns up to which message the file of a stream's consumer says that all is acknowledged: after two bytes,
// the second of the numbers in it.
func ackFloor(t *testing.T, stream string) uint64 {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(stream, "obs", "*", "o.dat"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the consumers' files are %q, %v", files, err)
	}
	state, err := os.ReadFile(files[0])
	if err != nil || len(state) < 2 {
		return 0 // it is being written
	}
	_, size := binary.Uvarint(state[2:])
	floor, _ := binary.Uvarint(state[2+max(size, 0):])
	return floor
}

// accepting is an Acceptor that has every push at once.
type accepting struct{}

func (accepting) Accept(p *scheduler.Push, done func(scheduler.Accepted)) {
	done(scheduler.Accepted{UID: p.UID, ID: p.ID})
}

// publishEventually publishes one push as soon as there is an intake.
func publishEventually(t *testing.T, nc *nats.Conn) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, 15*time.Second, func() error {
		_, err := js.PublishMsg(t.Context(),
			&nats.Msg{Subject: "delayed.a", Header: nats.Header{"Tarry-Delay": {"1h"}}})
		return err
	})
}

func TestIntake_PassedWaitsForNothingWithoutJetStream(t *testing.T) {
	t.Parallel()
	nc := bridgetest.Connect(t, lab.NewNATS(t, lab.NoJetStream()).URL())
	in := bridgetest.IntakeOn(t, intake.Config{Conn: nc, Namespace: bridgetest.NewNamespace(), Prefix: "delayed",
		Accept: holding{}})
	bridgetest.RunFor(t, in.Run)
	if passed := in.Passed(t.Context()); passed != scheduler.PassedNothing {
		t.Errorf("it passed %d where there is no intake", passed)
	}
}
