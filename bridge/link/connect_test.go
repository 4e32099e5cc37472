package link_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// states remembers the calls of OnState.
type states struct {
	mu  sync.Mutex
	all []link.ConnState
}

func (s *states) on(state link.ConnState, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.all); n == 0 || s.all[n-1] != state {
		s.all = append(s.all, state)
	}
}

func (s *states) wait(t testing.TB, want ...link.ConnState) {
	t.Helper()
	lab.Eventually(t, 15*time.Second, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if got := fmt.Sprint(s.all); got != fmt.Sprint(want) {
			return fmt.Errorf("states %s, want %v", got, want)
		}
		return nil
	})
}

func TestConnect_WaitsForAServerThatComesLater(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t, lab.NATSConfig("authorization { user: me, password: s3cret }"))
	server.Kill()
	log, seen := &bridgetest.LogBuffer{}, &states{}
	nc, err := link.Connect(t.Context(), link.ConnConfig{URLs: []string{server.URL()}, User: "me",
		Password: "s3cret", Log: log.Logger(), OnState: seen.on})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	seen.wait(t, link.Disconnected)
	lab.Eventually(t, 10*time.Second, func() error {
		if log.Count("nats cannot be reached, retrying") != 1 || log.Count(server.Addr) == 0 {
			return errors.New("the log does not say so: " + log.String())
		}
		return nil
	})
	if err := nc.Publish("a", nil); err == nil {
		t.Error("a publish without a server was kept for later")
	}
	server.Restart()
	seen.wait(t, link.Disconnected, link.Connected)
	server.Kill()
	seen.wait(t, link.Disconnected, link.Connected, link.Disconnected)
	server.Restart()
	seen.wait(t, link.Disconnected, link.Connected, link.Disconnected, link.Connected)
	nc.Close()
	seen.wait(t, link.Disconnected, link.Connected, link.Disconnected, link.Connected, link.Closed)
	if strings.Contains(log.String(), "s3cret") {
		t.Errorf("a credential stands in the log: %s", log)
	}
}

func TestConnect_KeepsTryingWithAWrongPasswordAndNeverLogsIt(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t, lab.NATSConfig("authorization { user: me, password: s3cret }"))
	log, seen := &bridgetest.LogBuffer{}, &states{}
	nc, err := link.Connect(t.Context(),
		link.ConnConfig{URLs: []string{"nats://me:wr0ng@" + server.Addr}, Log: log.Logger(), OnState: seen.on})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	lab.Eventually(t, 10*time.Second, func() error {
		if log.Count("uthorization") == 0 {
			return errors.New("the log does not name the cause: " + log.String())
		}
		return nil
	})
	<-time.After(time.Second) // several more attempts
	if nc.IsClosed() {
		t.Error("it stopped trying")
	}
	if strings.Contains(log.String(), "wr0ng") {
		t.Errorf("a credential stands in the log: %s", log)
	}
}

func TestConnect_NoticesASilentLinkSoon(t *testing.T) {
	t.Parallel()
	proxy := lab.NewProxy(t, lab.SharedNATS(t).Addr)
	seen := &states{}
	nc, err := link.Connect(t.Context(), link.ConnConfig{URLs: []string{"nats://" + proxy.Addr}, OnState: seen.on})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	seen.wait(t, link.Connected)
	proxy.Stall()
	start := time.Now()
	seen.wait(t, link.Connected, link.Disconnected)
	if took := time.Since(start); took > 8*time.Second {
		t.Errorf("it took %s", took)
	}
	proxy.Heal()
	seen.wait(t, link.Connected, link.Disconnected, link.Connected)
}

func TestConnect_RefusesNonsense(t *testing.T) {
	t.Parallel()
	if _, err := link.Connect(t.Context(), link.ConnConfig{}); err == nil {
		t.Error("no address was accepted")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := link.Connect(ctx, link.ConnConfig{URLs: []string{"nats://127.0.0.1:1"}}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("got %v", err)
	}
}
