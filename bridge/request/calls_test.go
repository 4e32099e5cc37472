package request_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/request"
	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestService_TakesManyChangesAtOnce(t *testing.T) {
	t.Parallel()
	server := lab.SharedNATS(t)
	nc, timeline := bridgetest.Connect(t, server.URL()), bridgetest.NewTimeline(t)
	const n = 100
	var under atomic.Int32
	all := make(chan struct{})
	meet := func(ctx context.Context, _ []byte) (int, []byte) {
		if under.Add(1) == n {
			close(all)
		}
		select {
		case <-all:
		case <-ctx.Done():
		}
		return http.StatusOK, []byte("{}")
	}
	serving(t, request.ServiceConfig{Conn: nc, Namespace: "many", Scheduler: bridgetest.Scheduling(t, nc, timeline),
		Changes: map[string]request.Call{"dead_requeue": meet}})
	inbox, err := nc.SubscribeSync(nats.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := nc.PublishRequest("tarry.many.api.dead_requeue", inbox.Subject, []byte(`{"id":"a"}`)); err != nil {
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
		echo := func(_ context.Context, request []byte) (int, []byte) { return http.StatusOK, append(request, '\n') }
		large := func(context.Context, []byte) (int, []byte) {
			return http.StatusOK, []byte(`"` + strings.Repeat("x", int(nc.MaxPayload())) + `"`)
		}
		refuse := func(context.Context, []byte) (int, []byte) {
			return http.StatusConflict, []byte(`{"error":"no_standby","detail":"why"}`)
		}
		serving(t, request.ServiceConfig{Conn: nc, Namespace: "plain", Scheduler: s,
			Read: map[string]request.Call{"list": echo}})
		serving(t, request.ServiceConfig{Conn: nc, Namespace: "open", Scheduler: s,
			Read:    map[string]request.Call{"list": echo, "large": large},
			Changes: map[string]request.Call{"cancel_many": echo},
			Admin:   map[string]request.Call{"resign": refuse, "pause": echo}})
		request := func(subject string) *nats.Msg {
			t.Helper()
			m, err := nc.Request(subject, []byte(`{"a":1}`), 5*time.Second)
			if err != nil {
				t.Fatalf("%s: %v", subject, err)
			}
			return m
		}
		for _, subject := range []string{"tarry.plain.read.list", "tarry.open.read.list", "tarry.open.admin.pause",
			"tarry.open.api.cancel_many"} {
			if m := request(subject); string(m.Data) != `{"a":1}` || m.Header.Get(micro.ErrorHeader) != "" {
				t.Errorf("%s: got %q %v", subject, m.Data, m.Header)
			}
		}
		if m := request("tarry.open.admin.resign"); m.Header.Get(micro.ErrorHeader) != "no_standby" ||
			m.Header.Get(micro.ErrorCodeHeader) != "409" {
			t.Errorf("got %q %v", m.Data, m.Header)
		}
		if m := request("tarry.open.read.large"); m.Header.Get(micro.ErrorHeader) != "too_large" ||
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
