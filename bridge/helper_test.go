package bridge_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// rereads is how long two readings of the list of streams may take: after one that took long, as on a busy machine, the
// server has a rest, of half a minute at most.
const rereads = 90 * time.Second

// connect opens tarry's own kind of connection and waits until it stands.
func connect(t testing.TB, url string) *nats.Conn {
	t.Helper()
	closed := make(chan struct{})
	nc, err := bridge.Connect(t.Context(), bridge.ConnConfig{URLs: []string{url}, Name: t.Name(), Log: logger(t),
		OnState: func(s bridge.ConnState, _ error) {
			if s == bridge.Closed {
				close(closed)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nc.Close()
		<-closed // nothing is logged after the test
	})
	lab.Eventually(t, 15*time.Second, func() error {
		if !nc.IsConnected() {
			return errors.New("not connected")
		}
		return nil
	})
	return nc
}

// logger writes to the test's log; not for benchmarks, whose output are their figures.
func logger(t testing.TB) zerolog.Logger {
	if _, ok := t.(*testing.B); ok {
		return zerolog.Nop()
	}
	return zerolog.New(zerolog.NewTestWriter(t))
}

// stream makes a stream on the subjects.
func stream(t testing.TB, nc *nats.Conn, name string, subjects ...string) jetstream.Stream {
	t.Helper()
	return streamOf(t, nc, jetstream.StreamConfig{Name: name, Subjects: subjects})
}

func streamOf(t testing.TB, nc *nats.Conn, cfg jetstream.StreamConfig) jetstream.Stream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.CreateStream(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// running starts a Publisher and waits until it is ready. It runs as long as the test.
func running(t testing.TB, cfg bridge.PublisherConfig) *bridge.Publisher {
	t.Helper()
	cfg.Log = logger(t)
	p, err := bridge.NewPublisher(cfg)
	if err != nil {
		t.Fatal(err)
	}
	runFor(t, p.Run)
	lab.Eventually(t, 15*time.Second, func() error {
		if !p.Ready() {
			return errors.New("the publisher is not ready")
		}
		return nil
	})
	return p
}

// runFor runs a part until the test ends and sees it end.
func runFor(t testing.TB, run func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }() // waited for in the clean-up
	t.Cleanup(func() {
		stop()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("it ended with %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("it does not end")
		}
	})
}

// logBuffer keeps what is logged, to be looked through.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *logBuffer) count(text string) int { return strings.Count(b.String(), text) }

func (b *logBuffer) logger() zerolog.Logger { return zerolog.New(b) }

// runUntilEnd is runFor for a part that returns nil in the end.
func runUntilEnd(t testing.TB, run func(context.Context) error) {
	t.Helper()
	runFor(t, func(ctx context.Context) error {
		if err := run(ctx); err != nil {
			return err
		}
		return context.Canceled
	})
}

// wantHeaders are those that a message is delivered with on its topic.
func wantHeaders(m *message.Message) map[string][]string {
	h := map[string][]string{
		"Tarry-Id": {cmp.Or(m.ID, string(m.UID))}, "Tarry-Due": {strconv.FormatInt(int64(m.Due), 10)},
		"Tarry-Attempt": {strconv.Itoa(int(m.Attempt))}, "Nats-Msg-Id": {string(m.UID)},
	}
	if m.Key != "" {
		h["Tarry-Key"] = []string{m.Key}
	}
	if retry := wire.Retry(m.Retry).String(); retry != "" {
		h["Tarry-Retry"] = []string{retry}
	}
	for _, user := range m.Headers {
		h[user.Name] = append(h[user.Name], user.Value)
	}
	return h
}
