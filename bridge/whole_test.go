package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/store/memory"
)

// whole runs everything that one leading instance has, on one connection.
func whole(t *testing.T, url, ns, prefix string) *memory.Timeline {
	t.Helper()
	nc, timeline, clock := connect(t, url), newTimeline(t), scheduler.NewClock(scheduler.System())
	var s *scheduler.Scheduler
	publisher, err := bridge.NewPublisher(bridge.PublisherConfig{
		Conn: nc, Namespace: ns, Own: []string{bridge.StreamName(ns), bridge.RejectsName(ns)}, Log: logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	nudge, err := bridge.NewNudge(
		bridge.NudgeConfig{Conn: nc, Namespace: ns, Heard: func(bucket message.Bucket, due message.Milli) {
			s.Nudge(bucket, due)
		}})
	if err != nil {
		t.Fatal(err)
	}
	sampler, err := bridge.NewClockSampler(bridge.ClockConfig{Conn: nc, Namespace: ns, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	s, err = scheduler.New(scheduler.Config{
		Timeline: timeline, Publisher: publisher, IDs: scheduler.NewIDs(slot(1), time.Now), Clock: clock,
		Announce: nudge.Announce,
		MaxDelay: 3653 * 24 * time.Hour, EndedKeep: 10 * time.Minute, ClaimBatch: 500, ClaimBytes: 8 << 20,
		Pending: 4096, Attempts: 3,
		CallTimeout: time.Second, StopTimeout: time.Second, Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	runFor(t, publisher.Run)
	runFor(t, nudge.Run)
	runFor(t, sampler.Run)
	runServe(t, s)
	runFor(t, func(ctx context.Context) error {
		return s.Run(ctx, 1, func() time.Duration { return time.Minute })
	})
	taking(t, bridge.IntakeConfig{Conn: nc, Namespace: ns, Prefix: prefix, Accept: s, Clock: clock})
	serving(t, bridge.ServiceConfig{Conn: nc, Namespace: ns, Prefix: prefix, Scheduler: s})
	return timeline
}

func TestWhole_TwoNamespacesOnOneServerKeepApart(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, server *lab.NATS) {
		shop := whole(t, server.URL(), "shop", "delayed")
		billing := whole(t, server.URL(), "billing", "later")
		nc := connect(t, server.URL())
		orders := stream(t, nc, "ORDERS", "orders.>")
		heard, err := nc.SubscribeSync("plain.>")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		const n = 200
		for i := range n {
			for prefix, topic := range map[string]string{"delayed": "orders.shop", "later": "orders.billing"} {
				publish(t, nc, fmt.Sprintf("%s.%s.%d", prefix, topic, i), prefix, "Tarry-Delay", "700ms",
					"X-From", prefix)
			}
		}
		publish(t, nc, "delayed.plain.a", "core", "Tarry-Delay", "100ms")
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
			if left := waiting(t, timeline); left != 0 {
				t.Errorf("%s: %d messages wait", name, left)
			}
		}
	})
}

func TestPublisher_SaysWhichPermissionItLacks(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t, lab.NATSConfig(`
accounts { A {
  jetstream: enabled
  users [
    { user: nolist, password: p, permissions { publish { deny: ["$JS.>"] } } }
    { user: nohear, password: p, permissions { subscribe { deny: ["_INBOX.>"] } } }
  ]
} }`))
	for user, words := range map[string]string{"nolist": `"needs_publish":"$JS.API.STREAM.LIST"`,
		"nohear": "does not let this user listen for answers"} {
		log := &logBuffer{}
		p, err := bridge.NewPublisher(
			bridge.PublisherConfig{Conn: connect(t, "nats://"+user+":p@"+server.Addr), Log: log.logger()})
		if err != nil {
			t.Fatal(err)
		}
		runFor(t, p.Run)
		lab.Eventually(t, 10*time.Second, func() error {
			if log.count(words) != 1 {
				return errors.New("the log does not say it: " + log.String())
			}
			return nil
		})
		if p.Ready() {
			t.Errorf("%s: it says it is ready", user)
		}
		wantKind(t, send(t, p, newMessage("a", "x"))[0], scheduler.NotSent, "")
	}
}
