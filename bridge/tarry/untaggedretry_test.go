package tarry

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// first returns the first message of a stream as a consumer of each package has it.
func first(t *testing.T, conn *Conn, name string) (jetstream.Msg, *nats.Msg) {
	t.Helper()
	js, err := jetstream.New(conn.Conn)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.CreateConsumer(t.Context(), name, jetstream.ConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := consumer.Next()
	if err != nil {
		t.Fatal(err)
	}
	legacy, err := conn.Conn.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	sub, err := legacy.SubscribeSync(m.Subject(), nats.BindStream(name))
	if err != nil {
		t.Fatal(err)
	}
	old, err := sub.NextMsg(10 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return m, old
}

// placeIn is what the first message of a stream is called.
func placeIn(t *testing.T, s jetstream.Stream, name string) string {
	t.Helper()
	raw, err := s.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s:1:%d", name, raw.Time.UnixNano())
}

func TestRetry_TakesWhatAStreamHasWithoutTarry(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	conn := wrap(t, nc)
	s := stream(t, nc, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	// What only tarry may say is not believed: neither an attempt nor a name makes it tarry's delivery.
	if err := nc.PublishMsg(message("orders.created", "body", "X", "1", "Nats-Msg-Id", "mine", "Tarry-Id", "other",
		"Tarry-Attempt", "7",
		"Tarry-Key", "k", "Tarry-Retry", "1m,2m")); err != nil {
		t.Fatal(err)
	}
	m, old := first(t, conn, "ORDERS")
	id := placeIn(t, s, "ORDERS")
	got, err := conn.Tarry().Retry(t.Context(), m, "why")
	if err != nil || got.ID != id || got.Attempt != 2 || got.Delay != time.Minute || got.Over || got.Duplicate {
		t.Fatalf("got %+v, %v, want the id %s", got, err, id)
	}
	again, err := conn.Tarry().RetryMsg(t.Context(), old, "another reason")
	if err != nil || again.ID != id || !again.Duplicate || again.Attempt != 2 {
		t.Fatalf("got %+v, %v", again, err)
	}
	kept := one(t, in)
	want := nats.Header{"Tarry-Id": {id}, "Tarry-Key": {"k"}, "Tarry-Attempt": {"2"}, "Tarry-Retry": {"1m,2m"},
		"Tarry-Reason": {"why"},
		"X":            {"1"}, "Nats-Msg-Id": {"retry-" + id + "-2"}}
	if kept.Subject != "delayed.orders.created" || string(kept.Data) != "body" ||
		!reflect.DeepEqual(kept.Header, want) {
		t.Errorf("got %q %q %v\nwant %v", kept.Subject, kept.Data, kept.Header, want)
	}
	// With a delay of the consumer's own it is the same retry.
	again, err = conn.Tarry().Retry(t.Context(), m, "", In(time.Second))
	if err != nil || again.ID != id || !again.Duplicate || again.Attempt != 2 {
		t.Fatalf("got %+v, %v", again, err)
	}
	one(t, in)
}

// TestRetry_NeedsAllThatTarryWrites covers deliveries that somebody changed on the way.
func TestRetry_NeedsAllThatTarryWrites(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	intake(t, nc)
	conn := wrap(t, nc)
	for missing, kept := range map[string]bool{"Tarry-Id": false, "Tarry-Due": false, "Tarry-Attempt": false,
		"Nats-Msg-Id": true} {
		m := delivered()
		m.Header.Set("Tarry-Attempt", "2")
		delete(m.Header, missing)
		got, err := conn.Tarry().RetryMsg(t.Context(), m, "")
		if err != nil || kept != (got.ID == "order-1") || kept != (got.Attempt == 3) {
			t.Errorf("without %s: got %+v, %v", missing, got, err)
		}
	}
}

func TestRetry_DistinguishesStreamsOfOneName(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	conn := wrap(t, nc)
	js := wrapJS(t, nc)
	long := strings.Repeat("L", 250)
	ids := map[string]bool{}
	for n, name := range []string{"ORDERS", "ORDERS", long, long} {
		s := stream(t, nc, jetstream.StreamConfig{Name: name, Subjects: []string{"orders"}})
		if _, err := js.Publish(t.Context(), "orders", []byte("body")); err != nil {
			t.Fatal(err)
		}
		m, _ := first(t, conn, name)
		got, err := conn.Tarry().Retry(t.Context(), m, "")
		if err != nil || ids[got.ID] || len(got.ID) > 128 || n < 2 && got.ID != placeIn(t, s, name) {
			t.Fatalf("got %+v, %v after %v", got, err, ids)
		}
		ids[got.ID] = true
		if again, err := conn.Tarry().Retry(t.Context(), m, ""); err != nil || again.ID != got.ID || !again.Duplicate {
			t.Errorf("got %+v, %v, want it to be %s", again, err, got.ID)
		}
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(stored(t, in)); n != 4 {
		t.Errorf("%d are stored", n)
	}
}

func TestRetry_MakesEachCallForCoreAMessageOfItsOwn(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	conn := wrap(t, nc)
	in := intake(t, nc)
	sub := listen(t, conn, "orders")
	if err := conn.PublishMsg(message("orders", "body", "Nats-Msg-Id", "mine", "X", "1")); err != nil {
		t.Fatal(err)
	}
	m := next(t, sub)
	ids := map[string]bool{}
	for range 2 {
		got, err := conn.Tarry().RetryMsg(t.Context(), m, "why")
		if err != nil || got.ID == "" || got.ID == "mine" || ids[got.ID] || got.Attempt != 2 || got.Duplicate {
			t.Fatalf("got %+v, %v", got, err)
		}
		ids[got.ID] = true
	}
	for _, kept := range stored(t, in) {
		if !ids[kept.Header.Get("Tarry-Id")] ||
			kept.Header.Get("Nats-Msg-Id") != "retry-"+kept.Header.Get("Tarry-Id")+"-2" || kept.Header.Get("X") != "1" {
			t.Errorf("got %v", kept.Header)
		}
	}
}

// TestRetry_RepeatsForCoreWithinTheCall loses the first answer: what is asked again is the same message.
func TestRetry_RepeatsForCoreWithinTheCall(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	instance := newInstance(t, nc, func(n int, _ string) string {
		if n == 0 {
			return ""
		}
		return `{"id":"some","uid":"1uid","due":"2030-01-31T08:00:00.000Z"}`
	})
	got, err := wrap(t, nc, WithRoute(ByRequest), WithAckWait(200*time.Millisecond)).Tarry().RetryMsg(t.Context(),
		message("orders", "body"),
		"why")
	if err != nil || got.UID != "1uid" {
		t.Fatalf("got %+v, %v", got, err)
	}
	// A slow machine asks a third time.
	if asked := instance.all(); len(asked) < 2 || len(slices.Compact(slices.Clone(asked))) != 1 ||
		!strings.Contains(asked[0], "Tarry-Attempt: 2\n") {
		t.Errorf("asked %s", asked)
	}
}

// TestRetry_ReturnsToTheSubjectWhereItWasRead has the account map a subject, a stream transform one, and a
// stream take its messages from another under other subjects.
func TestRetry_ReturnsToTheSubjectWhereItWasRead(t *testing.T) {
	t.Parallel()
	server := newServer(t, "jetstream { store_dir: \""+t.TempDir()+"\" }\nmappings = { \"wild.*\": \"tame.$1\" }")
	nc := connect(t, server.url)
	in := intake(t, nc)
	conn, js := wrap(t, nc), wrapJS(t, nc)
	transform := func(from, to string) *jetstream.SubjectTransformConfig {
		return &jetstream.SubjectTransformConfig{Source: from, Destination: to}
	}
	stream(t, nc, jetstream.StreamConfig{Name: "MAPPED", Subjects: []string{"tame.>"}})
	stream(t, nc, jetstream.StreamConfig{Name: "TRANSFORMED", Subjects: []string{"raw.>", "done.>"},
		SubjectTransform: transform("raw.*", "done.$1")})
	stream(t, nc, jetstream.StreamConfig{Name: "SOURCED", Subjects: []string{"copied.>"},
		Sources: []*jetstream.StreamSource{
			{Name: "MAPPED", SubjectTransforms: []jetstream.SubjectTransformConfig{*transform("tame.>", "copied.>")}},
		}})
	for _, subject := range []string{"wild.x", "raw.x"} {
		if _, err := js.Publish(t.Context(), subject, []byte("body")); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range []struct{ stream, subject string }{
		{"MAPPED", "tame.x"}, {"TRANSFORMED", "done.x"}, {"SOURCED", "copied.x"},
	} {
		m, _ := first(t, conn, want.stream)
		if m.Subject() != want.subject {
			t.Fatalf("%s has it on %s", want.stream, m.Subject())
		}
		got, err := conn.Tarry().Retry(t.Context(), m, "")
		if err != nil || !strings.HasPrefix(got.ID, want.stream+":1:") {
			t.Fatalf("got %+v, %v", got, err)
		}
		if kept := stored(t, in)[n]; kept.Subject != "delayed."+want.subject || string(kept.Data) != "body" {
			t.Errorf("got %q on %s", kept.Data, kept.Subject)
		}
	}
}
