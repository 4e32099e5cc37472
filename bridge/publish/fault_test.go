package publish_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/publish"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestPublisher_CallsALostAckUnknownInTimeAndTheRetryADuplicate(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		direct := bridgetest.Connect(t, server.URL())
		bridgetest.Stream(t, direct, "ORDERS", "orders.>")
		if _, err := direct.SubscribeSync("core.a"); err != nil {
			t.Fatal(err)
		}
		_ = direct.Flush()
		proxy := lab.NewProxy(t, server.Addr)
		const timeout = 3 * time.Second // and half of it for a machine that is busy
		p := bridgetest.Running(t, publish.Config{Conn: bridgetest.Connect(t, "nats://"+proxy.Addr), Timeout: timeout})
		wantKind(t, send(t, p, newMessage("orders.a", "0"))[0], scheduler.Delivered, "")
		proxy.StallReplies()
		m := []*message.Message{newMessage("orders.a", "1"), newMessage("core.a", "2"), newMessage("orders.b", "3")}
		start := time.Now()
		for _, out := range send(t, p, m...) {
			wantKind(t, out, scheduler.Unknown, "time-out")
		}
		if took := time.Since(start); took < timeout || took > timeout+timeout/2 {
			t.Errorf("it took %s, the publish time-out is %s", took, timeout)
		}
		proxy.Heal()
		lab.Eventually(t, 20*time.Second, func() error {
			for _, out := range send(t, p, m[0], m[2]) {
				if out.Kind == scheduler.NotSent || out.Kind == scheduler.Unknown {
					return out.Err
				}
				if wantKind(t, out, scheduler.Delivered, ""); !out.Duplicate {
					t.Fatalf("the retry was stored again: %+v", out)
				}
			}
			return nil
		})
	})
}

func TestPublisher_ResolvesWhatIsPendingWhenTheConnectionIsLost(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t)
	bridgetest.Stream(t, bridgetest.Connect(t, server.URL()), "ORDERS", "orders.>")
	proxy := lab.NewProxy(t, server.Addr)
	p := bridgetest.Running(t, publish.Config{Conn: bridgetest.Connect(t, "nats://"+proxy.Addr), Timeout: time.Hour})
	proxy.StallReplies()
	o := newOutcomes(t)
	m := []*message.Message{newMessage("orders.a", "1"), newMessage("nobody", "2"), newMessage("orders.b", "3")}
	p.Send(t.Context(), m, o.done)
	if o.len() != 0 {
		t.Fatal("an outcome without an answer")
	}
	proxy.Cut()
	lab.Eventually(t, 5*time.Second, func() error {
		if n := o.len(); n < len(m) {
			return fmt.Errorf("%d outcomes", n)
		}
		return nil
	})
	for _, m := range m {
		out, _ := o.of(m)
		wantKind(t, out, scheduler.Unknown, "connection was lost")
	}
	lab.Eventually(t, 5*time.Second, func() error {
		if p.Ready() {
			return errors.New("it still says it is ready")
		}
		return nil
	})
	wantKind(t, send(t, p, newMessage("orders.c", "4"))[0], scheduler.NotSent, "")
	proxy.Heal()
	lab.Eventually(t, 10*time.Second, func() error {
		if !p.Ready() {
			return errors.New("it is not ready again")
		}
		return nil
	})
	wantKind(t, send(t, p, m[0])[0], scheduler.Delivered, "")
}

func TestPublisher_NeverResendsAfterAReconnect(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t)
	heard, err := bridgetest.Connect(t, server.URL()).SubscribeSync("core.>")
	if err != nil {
		t.Fatal(err)
	}
	proxy := lab.NewProxy(t, server.Addr)
	p := bridgetest.Running(t, publish.Config{Conn: bridgetest.Connect(t, "nats://"+proxy.Addr)})
	proxy.Cut()
	for range 100 { // some before the client notices, the rest after
		send(t, p, newMessage("core.x", "late"))
	}
	proxy.Heal()
	lab.Eventually(t, 10*time.Second, func() error {
		if !p.Ready() {
			return errors.New("not ready")
		}
		return nil
	})
	wantKind(t, send(t, p, newMessage("core.y", "new"))[0], scheduler.Delivered, "")
	if m, err := heard.NextMsg(5 * time.Second); err != nil || m.Subject != "core.y" {
		t.Fatalf("got %v, %v: something was kept for later", m, err)
	}
}

func TestPublisher_OneSilentSubjectDelaysNoOther(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t)
	nc := bridgetest.Connect(t, server.URL())
	s := bridgetest.StreamOf(t, nc, jetstream.StreamConfig{Name: "GOOD", Subjects: []string{"good"}})
	bridgetest.StreamOf(t, nc, jetstream.StreamConfig{Name: "GONE", Subjects: []string{"gone"}})
	// A subscriber on a subject whose stream went away: no answer, and no 503 either (the trap of every look-up by
	// trial).
	if _, err := nc.SubscribeSync("gone"); err != nil {
		t.Fatal(err)
	}
	p := bridgetest.Running(t, publish.Config{Conn: nc, Timeout: time.Hour, Refresh: time.Hour})
	const timeout = 3 * time.Second // and half of it for a machine that is busy
	hasty := bridgetest.Running(t, publish.Config{Conn: nc, Timeout: timeout, Refresh: time.Hour})
	bridgetest.Silence(t, nc, "GONE")
	var batch, gone []*message.Message
	for range 200 {
		gone = append(gone, newMessage("gone", "x"))
		batch = append(batch, gone[len(gone)-1], newMessage("good", "x"))
	}
	// The silent ones have an hour, so each good one ends before any of them.
	o := newOutcomes(t)
	p.Send(t.Context(), batch, o.done)
	lab.Eventually(t, 10*time.Second, func() error {
		if n := o.len(); n < 200 {
			return fmt.Errorf("%d outcomes", n)
		}
		return nil
	})
	for _, m := range batch {
		switch out, ended := o.of(m); {
		case m.Topic == "good":
			wantKind(t, out, scheduler.Delivered, "")
		case ended:
			t.Fatalf("one that nobody answers ended as %+v", out)
		}
	}
	start := time.Now()
	for _, out := range send(t, hasty, gone...) {
		if out.Kind == scheduler.NotSent || out.Kind == scheduler.Refused {
			t.Fatalf("got %+v", out)
		}
	}
	if took := time.Since(start); took > timeout+timeout/2 {
		t.Errorf("the silent ones took %s, the publish time-out is %s", took, timeout)
	}
	if info, err := s.Info(t.Context()); err != nil || info.State.Msgs != 200 {
		t.Fatalf("got %+v, %v", info, err)
	}
}

func TestPublisher_HasAHardCap(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t)
	proxy := lab.NewProxy(t, server.Addr)
	p := bridgetest.Running(t,
		publish.Config{Conn: bridgetest.Connect(t, "nats://"+proxy.Addr), Timeout: 500 * time.Millisecond, Pending: 10})
	proxy.StallReplies()
	var batch []*message.Message
	for range 20 {
		batch = append(batch, newMessage("a.b", "x"))
	}
	kinds := map[scheduler.OutcomeKind]int{}
	for _, out := range send(t, p, batch...) {
		kinds[out.Kind]++
	}
	if kinds[scheduler.NotSent] != 10 || kinds[scheduler.Unknown] != 10 {
		t.Errorf("got %v", kinds)
	}
}

// Whatever happens to the link, every message ends once, and within the publish time-out.
func TestPublisher_EndsEveryMessageOnceInTime(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t)
	direct := bridgetest.Connect(t, server.URL())
	stored := bridgetest.StreamOf(t, direct,
		jetstream.StreamConfig{Name: "ALL", Subjects: []string{"all.*"}, Duplicates: time.Hour})
	if _, err := direct.Subscribe("core.heard", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	_ = direct.Flush()
	proxy := lab.NewProxy(t, server.Addr)
	const timeout = 400 * time.Millisecond
	p := bridgetest.Running(t, publish.Config{Conn: bridgetest.Connect(t, "nats://"+proxy.Addr), Timeout: timeout})
	o := newOutcomes(t)
	sent := map[*message.Message]time.Time{}
	var mu sync.Mutex
	var group sync.WaitGroup
	stop := make(chan struct{})
	for worker := range 4 {
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				batch := []*message.Message{
					newMessage(fmt.Sprintf("all.%d", worker), "x"),
					newMessage("core.heard", "x"),
					newMessage("core.alone", "x"),
				}
				now := time.Now()
				mu.Lock()
				for _, m := range batch {
					sent[m] = now
				}
				mu.Unlock()
				p.Send(t.Context(), batch, o.done)
				<-time.After(time.Millisecond)
			}
		})
	}
	for _, fault := range []func(){proxy.StallReplies, proxy.Cut, proxy.Stall, proxy.Heal,
		func() { server.Kill(); server.Restart() }, proxy.Cut, proxy.StallReplies} {
		fault()
		<-time.After(300 * time.Millisecond)
		proxy.Heal()
		<-time.After(500 * time.Millisecond)
	}
	close(stop)
	group.Wait()
	lab.Eventually(t, 5*time.Second, func() error {
		if n := o.len(); n < len(sent) {
			return fmt.Errorf("%d of %d ended", n, len(sent))
		}
		return nil
	})
	kinds := map[scheduler.OutcomeKind]int{}
	delivered := 0
	for m, at := range sent {
		out, _ := o.of(m)
		kinds[out.Kind]++
		if took := o.when[m].Sub(at); took > timeout+time.Second { // a write may hang until its own time-out
			t.Errorf("%s to %s took %s to be %d", m.UID, m.Topic, took, out.Kind)
		}
		if strings.HasPrefix(m.Topic, "all.") && out.Kind == scheduler.Delivered {
			delivered++
		}
		if m.Topic == "core.alone" && out.Kind == scheduler.Delivered {
			t.Errorf("delivered to nobody: %+v", out)
		}
	}
	info, err := stored.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if int(info.State.Msgs) < delivered {
		t.Errorf("%d delivered, %d in the stream", delivered, info.State.Msgs)
	}
	if kinds[scheduler.Delivered] == 0 || kinds[scheduler.Unknown] == 0 || kinds[scheduler.NotSent] == 0 ||
		kinds[scheduler.NoListener] == 0 {
		t.Errorf("the test did not reach every outcome: %v", kinds)
	}
	t.Logf("outcomes: %v", kinds)
}

// embedded starts a nats-server in this process: the only kind that can lose JetStream and keep its address.
func embedded(t *testing.T, port int, dir string, jetstream bool) *server.Server {
	t.Helper()
	s, err := server.NewServer(
		&server.Options{Host: "127.0.0.1", Port: port, JetStream: jetstream, StoreDir: dir, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the embedded server does not start")
	}
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s
}

func TestPublisher_KeepsItsRoutesWhileJetStreamIsAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	port := lab.FreePort(t) // which no connection takes while no server has it
	first := embedded(t, port, dir, true)
	nc := bridgetest.Connect(t, first.ClientURL())
	bridgetest.Stream(t, nc, "ORDERS", "orders.>")
	log := &bridgetest.LogBuffer{}
	p, err := publish.New(publish.Config{Conn: nc, Refresh: 20 * time.Millisecond, Log: log.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	bridgetest.RunFor(t, p.Run)
	replace := func(jetstream bool, old *server.Server) *server.Server {
		old.Shutdown()
		old.WaitForShutdown()
		next := embedded(t, port, dir, jetstream)
		lab.Eventually(t, bridgetest.Rereads, func() error {
			if !p.Ready() {
				return errors.New("not ready")
			}
			return nil
		})
		return next
	}
	lab.Eventually(t, bridgetest.Rereads, func() error {
		if lane := p.Lane(newMessage("orders.a", "")); lane != "js:ORDERS" {
			return errors.New("lane " + string(lane))
		}
		return nil
	})
	second := replace(false, first)
	lab.Eventually(t, bridgetest.Rereads, func() error {
		if log.Count("going on with the list as it was") != 1 {
			return errors.New("the log does not say it: " + log.String())
		}
		return nil
	})
	wantKind(t, send(t, p, newMessage("orders.a", "x"))[0], scheduler.Unanswered, "stream ORDERS is away")
	replace(true, second)
	lab.Eventually(t, bridgetest.Rereads, func() error {
		out := send(t, p, newMessage("orders.a", "x"))[0]
		if out.Kind != scheduler.Delivered {
			return out.Err
		}
		return nil
	})
	lab.Eventually(t, bridgetest.Rereads, func() error {
		if log.Count("streams can be listed again") != 1 {
			return errors.New("the log does not say that it is over: " + log.String())
		}
		return nil
	})
}
