package request_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/publish"
	"github.com/tarry-mq/tarry/bridge/request"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/lead"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/steer"
	"github.com/tarry-mq/tarry/store/memory"
)

// whole runs everything that one leading instance has, on one connection.
func whole(t *testing.T, url, ns, prefix string) *memory.Timeline {
	t.Helper()
	nc, timeline, clock := bridgetest.Connect(t, url), bridgetest.NewTimeline(t), scheduler.NewClock(scheduler.System())
	publisher, err := publish.New(publish.Config{
		Conn: nc, Namespace: ns, Own: []string{link.StreamName(ns), link.RejectsName(ns)}, Log: bridgetest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	leader, err := lead.New(lead.Config{Timeline: timeline, Publisher: publisher, Clock: clock,
		EndedKeep: 10 * time.Minute, ClaimBatch: 500, ClaimBytes: 8 << 20, Pending: 4096, Attempts: 3,
		CallTimeout: time.Second, StopTimeout: time.Second, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	nudge := request.NewNudge(
		request.NudgeConfig{Conn: nc, Namespace: ns, Heard: func(bucket message.Bucket, due message.Milli) {
			leader.Nudge(bucket, due)
		}, HeardTopic: func(string, message.Milli) {}})
	sampler := intake.NewClockSampler(intake.ClockConfig{Conn: nc, Namespace: ns, Clock: clock})
	s, err := steer.New(scheduler.Config{
		Timeline: timeline, IDs: scheduler.NewIDs(bridgetest.Slot(1), time.Now), Clock: clock,
		Announce: nudge.Announce,
		MaxDelay: 3653 * 24 * time.Hour, EndedKeep: 10 * time.Minute,
		CallTimeout: time.Second, StopTimeout: time.Second, Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	bridgetest.RunFor(t, publisher.Run)
	bridgetest.RunFor(t, nudge.Run)
	bridgetest.RunFor(t, sampler.Run)
	bridgetest.RunServe(t, s)
	bridgetest.RunFor(t, func(ctx context.Context) error {
		return leader.Run(ctx, 1, func() time.Duration { return time.Minute })
	})
	bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: prefix, Accept: s, Clock: clock})
	serving(t, request.ServiceConfig{Conn: nc, Namespace: ns, Prefix: prefix, Scheduler: s})
	return timeline
}

func TestWhole_TwoNamespacesOnOneServerKeepApart(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		shop := whole(t, server.URL(), "shop", "delayed")
		billing := whole(t, server.URL(), "billing", "later")
		nc := bridgetest.Connect(t, server.URL())
		orders := bridgetest.Stream(t, nc, "ORDERS", "orders.>")
		heard, err := nc.SubscribeSync("plain.>")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		const n = 200
		for i := range n {
			for prefix, topic := range map[string]string{"delayed": "orders.shop", "later": "orders.billing"} {
				bridgetest.Publish(t, nc, fmt.Sprintf("%s.%s.%d", prefix, topic, i), prefix, "Tarry-Delay", "700ms",
					"X-From", prefix)
			}
		}
		bridgetest.Publish(t, nc, "delayed.plain.a", "core", "Tarry-Delay", "100ms")
		_, _, problem := ask(t, nc, "billing", "push", `{"topic":"plain.b","delay":"50ms","body":"by request"}`)
		if problem != "" {
			t.Fatal(problem)
		}
		for range 2 {
			m, err := heard.NextMsg(10 * time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if want := map[string]string{"plain.a": "core", "plain.b": "by request"}[m.Subject]; string(
				m.Data) != want {
				t.Errorf("%s: got %q, want %q", m.Subject, m.Data, want)
			}
		}
		lab.Eventually(t, 20*time.Second, func() error {
			info, err := orders.Info(t.Context())
			if err == nil && info.State.Msgs < 2*n {
				err = fmt.Errorf("%d of %d arrived", info.State.Msgs, 2*n)
			}
			return err
		})
		for seq := uint64(1); seq <= 2*n; seq++ {
			m, err := orders.GetMsg(t.Context(), seq)
			if err != nil {
				t.Fatal(err)
			}
			if m.Time.Before(start.Add(700 * time.Millisecond)) {
				t.Errorf("%s arrived %s early", m.Subject, start.Add(700*time.Millisecond).Sub(m.Time))
			}
			want := "delayed"
			if m.Subject[:len("orders.s")] != "orders.s" {
				want = "later"
			}
			if string(m.Data) != want || m.Header.Get("X-From") != want || m.Header.Get("Tarry-Delay") != "" ||
				m.Header.Get("Nats-Msg-Id") != m.Header.Get("Tarry-Id")+"@"+
					map[string]string{"delayed": "shop", "later": "billing"}[want] {
				t.Fatalf("%s: got %q %v", m.Subject, m.Data, m.Header)
			}
		}
		for name, timeline := range map[string]*memory.Timeline{"shop": shop, "billing": billing} {
			if left := bridgetest.Waiting(t, timeline); left != 0 {
				t.Errorf("%s: %d messages wait", name, left)
			}
		}
	})
}

// TestWhole_AConsumersRetryComesBackBySchedule goes the way of the library: the headers that it sends.
func TestWhole_AConsumersRetryComesBackBySchedule(t *testing.T) {
	t.Parallel()
	url, ns := lab.SharedNATS(t).URL(), bridgetest.NewNamespace()
	timeline := whole(t, url, ns, "later."+ns)
	nc := bridgetest.Connect(t, url)
	bridgetest.Stream(t, nc, "ORDERS_"+ns, "orders."+ns)
	sub, err := nc.SubscribeSync("orders." + ns)
	if err != nil {
		t.Fatal(err)
	}
	next := func() *nats.Msg {
		t.Helper()
		m, err := sub.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	topic := "later." + ns + ".orders." + ns
	bridgetest.Publish(t, nc, topic, "body", "Tarry-Delay", "0", "Tarry-Retry", "100ms,300ms", "Tarry-Key", "k", "x", "1")
	first := next()
	uid := strings.TrimSuffix(first.Header.Get("Nats-Msg-Id"), "@"+ns)
	if first.Header.Get("Tarry-Retry") != "100ms,300ms" || first.Header.Get("Tarry-Id") != uid ||
		first.Header.Get("Tarry-Attempt") != "1" {
		t.Fatalf("got %v", first.Header)
	}
	start := time.Now()
	for range 2 { // a consumer whose own acknowledgement was lost asks twice
		bridgetest.Publish(t, nc, topic, "body", "Tarry-Id", uid, "Tarry-Key", "k", "Tarry-Attempt", "2", "Tarry-Retry",
			"100ms,300ms", "Tarry-Reason", "it failed", "x", "1")
	}
	again := next()
	h := again.Header
	if took := time.Since(start); took < 100*time.Millisecond || string(again.Data) != "body" ||
		h.Get("Tarry-Id") != uid || h.Get("Tarry-Attempt") != "2" ||
		h.Get("Tarry-Reason") != "it failed" || h.Get("Tarry-Retry") != "100ms,300ms" || h.Get("x") != "1" ||
		h.Get("Nats-Msg-Id") == first.Header.Get("Nats-Msg-Id") {
		t.Errorf("after %s: got %q %v", took, again.Data, h)
	}
	bridgetest.Emptied(t, nc, ns)
	if m, err := sub.NextMsg(500 * time.Millisecond); err == nil {
		t.Errorf("one more came: %v", m.Header)
	}
	if n := bridgetest.Waiting(t, timeline); n != 0 {
		t.Errorf("%d wait", n)
	}
}
