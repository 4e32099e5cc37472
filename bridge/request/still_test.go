package request

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
)

// accepting counts the pushes that it is given.
type accepting struct {
	topics chan string
}

func (a accepting) Accept(p *scheduler.Push, done func(scheduler.Accepted)) {
	a.topics <- p.Topic
	done(scheduler.Accepted{UID: "t-0123456789abcdef"})
}

// What NATS had sent before the process stood still may be stored elsewhere and forgotten by now.
func TestDoor_TakesNothingFromBeforeAStandstill(t *testing.T) {
	t.Parallel()
	nc, err := nats.Connect(lab.SharedNATS(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	scheduled := accepting{topics: make(chan string, 100)}
	s, err := NewService(ServiceConfig{Conn: nc, Scheduler: scheduled, Ops: ops.New(ops.Config{}),
		Namespace: "still", Prefix: "delayed",
		Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	push := func(topic string) {
		t.Helper()
		if err := nc.PublishMsg(&nats.Msg{Subject: "tarry.still.push." + topic,
			Header: nats.Header{"Tarry-Delay": {"1h"}}}); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	d := s.newDoor(&microService{})
	d.still = -1 // it stood still from the beginning
	if err := d.open(); err != nil {
		t.Fatal(err)
	}
	push("before")
	d.still = time.Minute
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- d.serve(ctx) }()
	lab.Eventually(t, 10*time.Second, func() error {
		push("after")
		select {
		case topic := <-scheduled.topics:
			if topic != "after" {
				t.Fatalf("it took the push to %s", topic)
			}
			return nil
		case <-time.After(10 * time.Millisecond):
			return context.DeadlineExceeded
		}
	})
	stop()
	if err := <-served; err != context.Canceled {
		t.Error(err)
	}
}
