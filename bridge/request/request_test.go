package request_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/request"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// A server delivers what is pulled, and what is read directly, to any subject that the reader names, whatever he may
// publish to himself; and an instance may publish where a caller may not.
func TestRequests_AreWhatClientsPublishAndAreAnsweredAtInboxesAlone(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc := bridgetest.Connect(t, server.URL())
		called := make(chan string, 100)
		call := pausing(func(context.Context) { called <- "called" })
		serving(t, request.ServiceConfig{Conn: nc, Namespace: "ns", Scheduler: bridgetest.Scheduling(t, nc,
			bridgetest.NewTimeline(t)),
			Ops: operations(t, nc, call, 0), Admin: true})
		resign := request.NewResign(request.ResignConfig{Conn: nc, Namespace: "ns", Instance: "a",
			Log: bridgetest.Logger(t)})
		bridgetest.RunFor(t, func(ctx context.Context) error {
			return resign.Run(ctx, func(context.Context, string) error { called <- "resigned"; return nil })
		})
		pauses := request.NewPauses(request.PausesConfig{Conn: nc, Namespace: "ns", Log: bridgetest.Logger(t),
			Read: func(context.Context) (bool, error) { called <- "read"; return true, nil }})
		bridgetest.RunFor(t, pauses.Run)
		lab.Eventually(t, 10*time.Second, func() error { return resign.Ask(t.Context(), "a", "") })
		lab.Eventually(t, 10*time.Second, func() error { return pauses.Ask(t.Context()) })
		for len(called) > 0 {
			<-called
		}

		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		orders := bridgetest.StreamOf(t, nc,
			jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}, AllowDirect: true})
		if _, err := orders.CreateConsumer(t.Context(),
			jetstream.ConsumerConfig{Durable: "billing", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
			t.Fatal(err)
		}
		targets := []string{"tarry.ns.admin.pause", "tarry.ns.resign", "tarry.ns.pauses"}
		for range targets {
			if _, err := js.Publish(t.Context(), "orders.x", []byte(`{"instance":"a","reason":"x"}`)); err != nil {
				t.Fatal(err)
			}
		}
		for _, target := range targets {
			for subject, body := range map[string]string{"$JS.API.CONSUMER.MSG.NEXT.ORDERS.billing": `{"batch":1}`,
				"$JS.API.DIRECT.GET.ORDERS": `{"seq":1}`} {
				if err := nc.PublishRequest(subject, target, []byte(body)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, target := range targets { // nothing is left to be pulled
			if err := nc.PublishRequest(
				"$JS.API.CONSUMER.MSG.NEXT.ORDERS.billing", target, []byte(`{"batch":1,"no_wait":true}`)); err != nil {
				t.Fatal(err)
			}
		}
		elsewhere, err := nc.SubscribeSync("elsewhere.>")
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range targets {
			if err := nc.PublishRequest(target, "elsewhere.x", []byte(`{"instance":"a"}`)); err != nil {
				t.Fatal(err)
			}
		}
		// What nats micro asks goes by the same rules.
		for _, about := range []string{"$SRV.PING", "$SRV.INFO", "$SRV.STATS", "$SRV.PING.tarry", "$SRV.INFO.tarry",
			"$SRV.STATS.tarry"} {
			for _, reply := range []string{"elsewhere.x", "tarry.ns.admin.pause"} {
				if err := nc.PublishRequest(about, reply, nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := nc.PublishRequest("$JS.API.DIRECT.GET.ORDERS", about, []byte(`{"seq":1}`)); err != nil {
				t.Fatal(err)
			}
			if m, err := nc.Request(about, nil, 5*time.Second); err != nil ||
				!strings.Contains(string(m.Data), `"name":"tarry"`) {
				t.Errorf("%s is answered %v, %v", about, m, err)
			}
		}
		// What comes after all that is answered: so nothing before it is still on its way.
		if m, err := nc.Request("tarry.ns.admin.pause", []byte(`{"topic":"a"}`), 5*time.Second); err != nil ||
			string(m.Data) != `{"pattern":"a","paused":true,"by":"nats","in_effect":true}` {
			t.Fatalf("a request is answered %v, %v", m, err)
		}
		if got := <-called; got != "called" || len(called) > 0 {
			t.Errorf("%s, and %d more did something", got, len(called))
		}
		if m, err := elsewhere.NextMsg(200 * time.Millisecond); err == nil {
			t.Errorf("an answer went to %s: %q", m.Subject, m.Data)
		}
	})
}
