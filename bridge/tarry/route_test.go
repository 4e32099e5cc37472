package tarry

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func routeTo(find func() (string, error)) *router {
	return newRouter(config{prefix: "delayed", namespace: "default"},
		func(_ context.Context, subject string) (string, error) {
			if subject != "delayed.>" {
				return "", errors.New("looked for " + subject)
			}
			return find()
		})
}

func TestRoute_LooksOnceForManyCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		r := routeTo(func() (string, error) {
			asked.Add(1)
			time.Sleep(time.Second) // of the bubble
			return "TARRY_default", nil
		})
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if w, err := r.decide(t.Context()); w != ByStream || err != nil {
					t.Errorf("got %v, %v", w, err)
				}
			})
		}
		wg.Wait()
		time.Sleep(24 * time.Hour) // of the bubble
		if w, err := r.decide(t.Context()); w != ByStream || err != nil || asked.Load() != 1 {
			t.Errorf("got %v, %v after %d look-ups", w, err, asked.Load())
		}
		r.forget()
		if w, err := r.decide(t.Context()); w != ByStream || err != nil || asked.Load() != 2 {
			t.Errorf("got %v, %v after %d look-ups", w, err, asked.Load())
		}
	})
}

func TestRoute_WithoutAStreamLooksAgainNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		answer := func() (string, error) { return "", jetstream.ErrStreamNotFound }
		r := routeTo(func() (string, error) { asked++; return answer() })
		for range 5 {
			if w, err := r.decide(t.Context()); w != ByRequest || err != nil || asked != 1 {
				t.Fatalf("got %v, %v after %d look-ups", w, err, asked)
			}
			time.Sleep(time.Second) // of the bubble
		}
		time.Sleep(10 * time.Second) // of the bubble
		answer = func() (string, error) { return "", errors.New("no time") }
		if w, err := r.decide(t.Context()); w != ByRequest || err != nil || asked != 2 {
			t.Fatalf("a look-up that fails: got %v, %v after %d", w, err, asked)
		}
		answer = func() (string, error) { return "TARRY_default", nil }
		if w, err := r.decide(t.Context()); w != ByStream || err != nil {
			t.Fatalf("the stream is there: got %v, %v", w, err)
		}
	})
}

func TestRoute_DistinguishesTheResultsOfALookUp(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		stream string
		err    error
		want   Route
		is     error
	}{
		"found":                {"TARRY_default", nil, ByStream, nil},
		"another stream":       {"AUDIT", nil, undecided, ErrNoIntake},
		"no stream":            {"", jetstream.ErrStreamNotFound, ByRequest, nil},
		"no JetStream":         {"", nats.ErrNoResponders, ByRequest, nil},
		"not enabled":          {"", jetstream.ErrJetStreamNotEnabled, ByRequest, nil},
		"not for this account": {"", jetstream.ErrJetStreamNotEnabledForAccount, ByRequest, nil},
		"something else":       {"", broken, undecided, broken},
	} {
		r := routeTo(func() (string, error) { return c.stream, c.err })
		if w, err := r.decide(t.Context()); w != c.want || !errors.Is(err, c.is) {
			t.Errorf("%s: got %v, %v", name, w, err)
		}
	}
	r := routeTo(func() (string, error) { return "TARRY_default", nil })
	r.turn <- struct{}{} // somebody's look-up hangs
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.decide(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for a turn: %v", err)
	}
}

// Without a look-up the library still notices that another stream than tarry's has stored a push.
func TestPush_NoticesThatAnotherStreamTookIt(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	stream(t, nc, jetstream.StreamConfig{Name: "AUDIT", Subjects: []string{"delayed.>"}})
	c := wrap(t, nc, WithRoute(ByStream))
	_, err := c.Tarry().Push(t.Context(), Tag(message("orders.created", "x"), In(time.Hour)))
	if !errors.Is(err, ErrNoIntake) || !strings.Contains(err.Error(), `"AUDIT"`) ||
		!strings.Contains(err.Error(), `"TARRY_default"`) {
		t.Errorf("got %v", err)
	}
	if err := c.PublishMsg(Tag(message("orders.created", "x"), In(time.Hour))); !errors.Is(err, ErrNoIntake) {
		t.Errorf("got %v", err)
	}
}
