package intake_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
)

// What a producer writes into its headers never passes for a word of the server's to whoever pulls: each push is
// accepted or rejected, and acknowledged, at once.
func TestIntake_TakesNoPushForAWordOfTheServers(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc, ns, timeline := bridgetest.Connect(t, server.URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
		var log bridgetest.LogBuffer
		bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "delayed",
			Accept: bridgetest.Scheduling(t, nc, timeline), Log: log.Logger()})
		type header struct{ name, value string }
		refused := []header{{"Status", "100"}, {"Status", "400"}, {"Status", "404"}, {"Status", "408"},
			{"Status", "409"}, {"Status", "503"},
			{"Status", "paid"}, {"status", "paid"}, {"Nats-Pin-Id", "x"}}
		for i, h := range refused {
			bridgetest.Publish(t, nc, "delayed.a", "", "Tarry-Delay", "1h", "Tarry-Id", fmt.Sprintf("refused-%d", i), h.name,
				h.value, "Description", "Consumer Deleted")
		}
		bridgetest.Publish(t, nc, "delayed.a", "", "Tarry-Delay", "1h", "Tarry-Id", "empty")
		bridgetest.Publish(t, nc, "delayed.a", "body", "Tarry-Delay", "1h", "Tarry-Id", "whole", "Status", "409",
			"Description",
			"Consumer Deleted")
		// A status in the first line of the headers, which no client writes by mistake.
		raw := fmt.Sprintf("NATS/1.0 503\r\n%s: 1h\r\nTarry-Id: raw\r\n\r\n", "Tarry-Delay")
		publishRaw(t, server.Addr, "delayed.a", raw)
		bridgetest.Emptied(t, nc, ns)
		for _, id := range []string{"empty", "whole"} {
			bridgetest.MustFind(t, timeline, scheduler.Ref{ID: id})
		}
		// A newer server takes the status out of the first line; then the push is as good as any.
		var refusals int
		lab.Eventually(t, 10*time.Second, func() error {
			refusals = int(bridgetest.StreamState(t, nc, link.RejectsName(ns)).Msgs)
			if accepted := bridgetest.Waiting(t, timeline); accepted < 2 || accepted > 3 || refusals+accepted != len(refused)+3 {
				return fmt.Errorf("%d messages wait and %d were rejected, want %d in all", accepted, refusals,
					len(refused)+3)
			}
			return nil
		})
		for _, r := range rejects(t, nc, ns, refusals) {
			reason := r.Header.Get("Tarry-Reason")
			if !strings.HasPrefix(strings.ToLower(reason), "invalid_header: status ") &&
				!strings.HasPrefix(reason, "invalid_header: Nats-Pin-Id ") {
				t.Errorf("got the reason %q of %v", reason, r.Header)
			}
			if r.Header.Get("Status") != "" || r.Header.Get("status") != "" {
				t.Errorf("nobody could read the reject %v from a consumer", r.Header)
			}
		}
		if log.Count("intake interrupted") > 0 {
			t.Errorf("a push interrupted the intake: %s", log.String())
		}
	})
}

// publishRaw sends a message with a header block of one's own making.
func publishRaw(t testing.TB, addr, subject, header string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	text := fmt.Sprintf("CONNECT {\"verbose\":false,\"headers\":true}\r\nHPUB %s %d %d\r\n%s\r\nPING\r\n", subject,
		len(header), len(header), header)
	if _, err := conn.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	for in := bufio.NewScanner(conn); in.Scan(); {
		if in.Text() == "PONG" {
			return
		}
	}
	t.Fatal("the server does not answer")
}

// The intake goes on pulling after its link to NATS was cut, and does so without opening its streams anew.
func TestIntake_PullsOnAfterAReconnect(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc, ns, timeline := bridgetest.Connect(t, server.URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
		proxy := lab.NewProxy(t, server.Addr)
		link := bridgetest.Connect(t, "nats://"+proxy.Addr)
		var log bridgetest.LogBuffer
		bridgetest.Taking(t, intake.Config{Conn: link, Namespace: ns, Prefix: "delayed",
			Accept: bridgetest.Scheduling(t, nc, timeline), Log: log.Logger()})
		bridgetest.Publish(t, nc, "delayed.a", "first", "Tarry-Delay", "1h", "Tarry-Id", "first")
		bridgetest.Emptied(t, nc, ns)
		for round := range 3 {
			reconnected := make(chan struct{}, 1)
			link.SetReconnectHandler(func(*nats.Conn) { reconnected <- struct{}{} })
			proxy.Cut()
			proxy.Heal()
			<-reconnected
			bridgetest.Publish(t, nc, "delayed.a", fmt.Sprint(round), "Tarry-Delay", "1h", "Tarry-Id", fmt.Sprint(round))
			bridgetest.Emptied(t, nc, ns)
		}
		if n := bridgetest.Waiting(t, timeline); n != 4 {
			t.Errorf("%d messages wait, want 4", n)
		}
		if log.Count("intake interrupted") > 0 {
			t.Errorf("the intake was opened anew: %s", log.String())
		}
	})
}
