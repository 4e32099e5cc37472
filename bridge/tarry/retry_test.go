package tarry

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// delivered is a message as tarry delivers it.
func delivered() *nats.Msg {
	return message("orders.created", "body", "Tarry-Id", "order-1", "Tarry-Attempt", "1", "Tarry-Due", "1896076800000",
		"Tarry-Key", "k",
		"Nats-Msg-Id", "0uid", "X", "1", "traceparent", "00")
}

func TestRetryLater_PushesTheMessageAgainUnderItsName(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	conn := wrap(t, nc)
	for range 2 {
		if err := RetryLater(t.Context(), conn, delivered(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	second := delivered()
	second.Header.Set("Tarry-Attempt", "2")
	if err := RetryLater(t.Context(), conn, second, time.Minute); err != nil {
		t.Fatal(err)
	}
	for n, got := range stored(t, in) {
		attempt := "2"
		if n == 2 {
			attempt = "3"
		}
		want := nats.Header{"Tarry-Delay": {"1m0s"}, "Tarry-Id": {"order-1"}, "Tarry-Attempt": {attempt},
			"Tarry-Key": {"k"},
			"X":         {"1"}, "traceparent": {"00"}, "Nats-Msg-Id": got.Header["Nats-Msg-Id"]}
		if got.Subject != "delayed.orders.created" || string(got.Data) != "body" ||
			!reflect.DeepEqual(got.Header, want) {
			t.Errorf("%d: got %q %q %v, want %v", n, got.Subject, got.Data, got.Header, want)
		}
	}
}

// TestRetryLater_NamesWhatHasNoName covers messages that never went through tarry.
func TestRetryLater_NamesWhatHasNoName(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	conn, js := wrap(t, nc), wrapJS(t, nc)
	if err := RetryLater(t.Context(), conn, message("orders", "core"), time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := RetryLater(t.Context(), conn, message("orders", "id", "Nats-Msg-Id", "mine", "Nats-Stream", "X"),
		time.Minute); err != nil {
		t.Fatal(err)
	}
	orders, ids := stream(t, nc, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders"}}),
		map[string]bool{}
	if _, err := js.Publish(t.Context(), "orders", []byte("place")); err != nil {
		t.Fatal(err)
	}
	consumer, err := js.CreateConsumer(t.Context(), "ORDERS", jetstream.ConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := consumer.Next()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := RetryMsgLater(t.Context(), js, m, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	old, err := conn.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	sub, err := old.SubscribeSync("orders")
	if err != nil {
		t.Fatal(err)
	}
	om, err := sub.NextMsgWithContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := RetryLater(t.Context(), old.(*JetStreamContext), om, time.Minute); err != nil {
		t.Fatal(err)
	}
	list := stored(t, in)
	if len(list) != 5 {
		t.Fatalf("%d stored", len(list))
	}
	place := placeIn(t, orders, "ORDERS")
	for n, id := range []string{"", "", place, place, place} {
		got := list[n].Header
		if id == "" && len(got.Get("Tarry-Id")) == 22 && !ids[got.Get("Tarry-Id")] {
			id = got.Get("Tarry-Id")
			ids[id] = true
		}
		if got.Get("Tarry-Id") != id || got.Get("Tarry-Attempt") != "2" {
			t.Errorf("%d: got %v, want the id %q", n, got, id)
		}
	}
}

func TestRetryLater_TellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	intake(t, nc)
	conn := wrap(t, nc)
	if err := RetryLater(t.Context(), conn, nil, time.Second); !errors.Is(err, nats.ErrInvalidMsg) {
		t.Errorf("got %v", err)
	}
	if err := RetryMsgLater(t.Context(), conn, nil, time.Second); !errors.Is(err, nats.ErrInvalidMsg) {
		t.Errorf("got %v", err)
	}
	wantRefused(t, RetryLater(t.Context(), conn, delivered(), -time.Second), "invalid_delay", "Tarry-Delay")
	last := delivered()
	last.Header.Set("Tarry-Attempt", "65535")
	wantRefused(t, RetryLater(t.Context(), conn, last, time.Second), "invalid_attempt", "Tarry-Attempt")
}

func TestAttempt_CountsFromOne(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 1, "0": 1, "-3": 1, "x": 1, "1": 1, "7": 7} {
		if got := Attempt(nats.Header{"tarry-attempt": {text}}); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
	if Attempt(nil) != 1 {
		t.Error("no header is the first delivery")
	}
}
