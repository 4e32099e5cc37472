package request_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/request"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestService_TakesManyChangesAtOnce(t *testing.T) {
	t.Parallel()
	server := lab.SharedNATS(t)
	nc, timeline := bridgetest.Connect(t, server.URL()), bridgetest.NewTimeline(t)
	const n = 100
	var under atomic.Int32
	all := make(chan struct{})
	meet := pausing(func(ctx context.Context) {
		if under.Add(1) == n {
			close(all)
		}
		select {
		case <-all:
		case <-ctx.Done():
		}
	})
	serving(t, request.ServiceConfig{Conn: nc, Namespace: "many", Scheduler: bridgetest.Scheduling(t, nc, timeline),
		Ops: operations(t, nc, meet, 0)})
	inbox, err := nc.SubscribeSync(nats.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := nc.PublishRequest("tarry.many.api.dead_requeue", inbox.Subject,
			[]byte(`{"id":"a"}`)); err != nil {
			t.Fatal(err)
		}
	}
	for range n {
		m, err := inbox.NextMsg(10 * time.Second)
		if err != nil || m.Header.Get(micro.ErrorHeader) != "" {
			t.Fatalf("got %v %v, want an answer to each of %d", m, err, n)
		}
	}
}

func TestService_ServesFurtherCallsInGroupsOfTheirOwn(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc, timeline := bridgetest.Connect(t, server.URL()), bridgetest.NewTimeline(t)
		s := bridgetest.Scheduling(t, nc, timeline)
		all := pausing(func(context.Context) {})
		serving(t, request.ServiceConfig{Conn: nc, Namespace: "plain", Scheduler: s, Ops: operations(t, nc, all, 0)})
		serving(t, request.ServiceConfig{Conn: nc, Namespace: "open", Scheduler: s, Ops: operations(t, nc, all, 0),
			Admin: true})
		request := func(subject, body string) *nats.Msg {
			t.Helper()
			m, err := nc.Request(subject, []byte(body), 5*time.Second)
			if err != nil {
				t.Fatalf("%s: %v", subject, err)
			}
			return m
		}
		for subject, body := range map[string]string{"tarry.plain.read.topic": `{"topic":"a"}`,
			"tarry.open.read.topic": `{"topic":"a"}`, "tarry.open.admin.pause": `{"topic":"a"}`,
			"tarry.open.api.cancel_many": `{"topic":"a"}`} {
			if m := request(subject, body); m.Data[0] != '{' || m.Header.Get(micro.ErrorHeader) != "" {
				t.Errorf("%s: got %q %v", subject, m.Data, m.Header)
			}
		}
		if m := request("tarry.open.admin.resume", `{"topic":"a"}`); m.Header.Get(micro.ErrorHeader) != "not_paused" ||
			m.Header.Get(micro.ErrorCodeHeader) != "404" {
			t.Errorf("got %q %v", m.Data, m.Header)
		}
		if m := request("tarry.open.read.topics", ``); m.Header.Get(micro.ErrorHeader) != "too_large" ||
			m.Header.Get(micro.ErrorCodeHeader) != "413" {
			t.Errorf("got %.100q %v", m.Data, m.Header)
		}
		if _, err := nc.Request("tarry.plain.admin.pause", nil, 5*time.Second); !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("the calls of operators are served unasked: %v", err)
		}
		subjects := map[string]bool{}
		inbox, err := nc.SubscribeSync(nats.NewInbox())
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.PublishRequest("$SRV.INFO.tarry", inbox.Subject, nil); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			m, err := inbox.NextMsg(5 * time.Second)
			if err != nil {
				t.Fatal(err)
			}
			var info micro.Info
			if err := json.Unmarshal(m.Data, &info); err != nil {
				t.Fatal(err)
			}
			for _, e := range info.Endpoints {
				subjects[e.Subject] = true
			}
		}
		for _, want := range []string{"tarry.plain.api.push", "tarry.plain.read.list", "tarry.open.read.list",
			"tarry.open.admin.resign"} {
			if !subjects[want] {
				t.Errorf("%s does not show: %v", want, subjects)
			}
		}
	})
}

// pausing returns a service that calls a function before it answers, and has more topics than an answer holds.
func pausing(before func(ctx context.Context)) ops.Service { return &pauses{before: before} }

type pauses struct {
	ops.Service
	before func(ctx context.Context)
}

func (p *pauses) Pause(ctx context.Context, _, _ string) (bool, error) {
	p.before(ctx)
	return true, nil
}

func (p *pauses) Resume(context.Context, string) (was, inEffect bool, err error) {
	return false, true, nil
}

func (p *pauses) RequeueOne(ctx context.Context, _ scheduler.Ref, _ scheduler.Requeue) (scheduler.Accepted, error) {
	p.before(ctx)
	return scheduler.Accepted{}, nil
}

func (p *pauses) CancelMany(context.Context, scheduler.Selection, func(scheduler.Report)) (scheduler.Report, error) {
	return scheduler.Report{}, nil
}

func (p *pauses) TopicCount(context.Context, string) (scheduler.TopicCount, error) {
	return scheduler.TopicCount{}, nil
}

func (p *pauses) TopicCounts(context.Context, string, int) ([]scheduler.TopicCount, error) {
	return []scheduler.TopicCount{{Topic: strings.Repeat("x", 1<<20)}}, nil
}

func (p *pauses) Pauses(context.Context) ([]scheduler.Pause, error) { return nil, nil }

func (p *pauses) ParkedTopics(context.Context, []string) (map[string]message.Why, error) {
	return nil, nil
}
