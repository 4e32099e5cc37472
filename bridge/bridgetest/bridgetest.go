// Package bridgetest has the helpers that tests of several rooms of bridge use.
package bridgetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/publish"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Rereads is how long two readings of the list of streams may take: after one that took long, as on a busy machine, the
// server has a rest, of half a minute at most.
const Rereads = 90 * time.Second

// Connect opens tarry's own kind of connection and waits until it stands.
func Connect(t testing.TB, url string) *nats.Conn {
	t.Helper()
	closed := make(chan struct{})
	nc, err := link.Connect(t.Context(), link.ConnConfig{URLs: []string{url}, Name: t.Name(), Log: Logger(t),
		OnState: func(s link.ConnState, _ error) {
			if s == link.Closed {
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

// Logger writes to the test's log; not for benchmarks, whose output are their figures.
func Logger(t testing.TB) zerolog.Logger {
	if _, ok := t.(*testing.B); ok {
		return zerolog.Nop()
	}
	return zerolog.New(zerolog.NewTestWriter(t))
}

// Stream makes a stream on the subjects.
func Stream(t testing.TB, nc *nats.Conn, name string, subjects ...string) jetstream.Stream {
	t.Helper()
	return StreamOf(t, nc, jetstream.StreamConfig{Name: name, Subjects: subjects})
}

func StreamOf(t testing.TB, nc *nats.Conn, cfg jetstream.StreamConfig) jetstream.Stream {
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

// Running starts a Publisher and waits until it is ready. It runs as long as the test.
func Running(t testing.TB, cfg publish.Config) *publish.Publisher {
	t.Helper()
	cfg.Log = Logger(t)
	p, err := publish.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	RunFor(t, p.Run)
	lab.Eventually(t, 15*time.Second, func() error {
		if !p.Ready() {
			return errors.New("the publisher is not ready")
		}
		return nil
	})
	return p
}

// RunFor runs a part until the test ends and sees it end.
func RunFor(t testing.TB, run func(context.Context) error) {
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

// LogBuffer keeps what is logged, to be looked through.
type LogBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *LogBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *LogBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *LogBuffer) Count(text string) int { return strings.Count(b.String(), text) }

func (b *LogBuffer) Logger() zerolog.Logger { return zerolog.New(b) }

// runUntilEnd is RunFor for a part that returns nil in the end.
func runUntilEnd(t testing.TB, run func(context.Context) error) {
	t.Helper()
	RunFor(t, func(ctx context.Context) error {
		if err := run(ctx); err != nil {
			return err
		}
		return context.Canceled
	})
}

// WantHeaders are those that a message is delivered with on its topic. The secret of the delivery is as it came, if one
// came.
func WantHeaders(m *message.Message, got nats.Header) map[string][]string {
	h := map[string][]string{
		"Tarry-Id": {cmp.Or(m.ID, string(m.UID))}, "Tarry-Due": {strconv.FormatInt(int64(m.Due), 10)},
		"Tarry-Attempt": {strconv.Itoa(int(m.Attempt))}, "Nats-Msg-Id": {string(m.UID)},
	}
	if once := got["Tarry-Once"]; len(once) == 1 && len(once[0]) > 6 {
		h["Tarry-Once"] = once
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

// Silence deletes a stream on whose subject a core subscriber is left.
func Silence(t *testing.T, nc *nats.Conn, name string) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

func SettingsOf(list ...*scheduler.Topic) *scheduler.Topics {
	topics := &scheduler.Topics{}
	topics.Set(list, message.Retry{})
	return topics
}

// Cpu is what this process has used, user and system.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
