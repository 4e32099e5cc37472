package request_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/request"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Whoever listens hears of each event, and of a flood how large it was.
func TestAnnounce_PublishesByKindAndTopicAndNoFlood(t *testing.T) {
	t.Parallel()
	url, ns := lab.SharedNATS(t).URL(), bridgetest.NewNamespace()
	nc := bridgetest.Connect(t, url)
	heard := make(chan *nats.Msg, 10_000)
	if _, err := nc.ChanSubscribe("tarry."+ns+".event.>", heard); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	events := scheduler.NewEvents("a", scheduler.NewClock(scheduler.System()), prometheus.NewRegistry(), true)
	events.Of(scheduler.EventDead, &message.Message{UID: "t-1", ID: "order-7", Topic: "orders.remind", Key: "k"},
		"refused")
	events.Tell(scheduler.Event{Kind: scheduler.EventLeader, Detail: "leads, term 4"})
	events.Tell(scheduler.Event{Kind: scheduler.EventWebhook, Topic: "hooks.*", Detail: "its target fails"})
	for range 700 {
		events.Of(scheduler.EventLate, &message.Message{UID: "t-2", Topic: "mail"}, "late by 2s")
	}
	bridgetest.RunFor(t, func(ctx context.Context) error {
		return request.Announce(ctx, bridgetest.Connect(t, url), ns, events)
	})
	subjects, late := map[string]scheduler.Event{}, 0
	lab.Eventually(t, 20*time.Second, func() error {
		for len(heard) > 0 {
			m := <-heard
			var e scheduler.Event
			if err := json.Unmarshal(m.Data, &e); err != nil {
				t.Fatalf("%s: %v", m.Data, err)
			}
			if subjects[strings.TrimPrefix(m.Subject, "tarry."+ns+".event.")] = e; e.Kind == scheduler.EventLate {
				late += e.N
			}
		}
		if late != 700 || len(subjects) != 5 {
			return fmt.Errorf("%d late, on %v", late, subjects)
		}
		return nil
	})
	if e := subjects["dead.orders.remind"]; e.UID != "t-1" || e.ID != "order-7" || e.Topic != "orders.remind" ||
		e.Key != "k" || e.Detail != "refused" || e.N != 1 || e.Instance != "a" || e.At == 0 {
		t.Errorf("got %+v", e)
	}
	if e := subjects["leader.-"]; e.Detail != "leads, term 4" {
		t.Errorf("got %+v", e)
	}
	if e := subjects["webhook.-"]; e.Topic != "hooks.*" {
		t.Errorf("got %+v", e)
	}
	if e := subjects["late.-"]; e.N < 500 {
		t.Errorf("of a flood %+v", e)
	}
}
