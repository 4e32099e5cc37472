package tarry

import (
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestClientRetryLater_SendsTheMessageBackBySchedule(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	conn := wrap(t, nc)
	m := delivered()
	m.Header["Tarry-Retry"] = []string{"1m,10m~20%"}
	m.Header["Tarry-Reason"] = []string{"of the attempt before"}
	m.Header["Nats-Stream"] = []string{"ORDERS"}
	before := len(m.Header)
	got, err := conn.RetryLater(t.Context(), m, " no\ndatabase "+strings.Repeat("x", 300))
	if err != nil || got.Attempt != 2 || got.Delay != time.Minute || got.Over || got.ID != "order-1" ||
		got.Stream != "TARRY_default" || got.Sequence != 1 || got.Duplicate {
		t.Fatalf("got %+v, %v", got, err)
	}
	if m.Subject != "orders.created" || len(m.Header) != before || m.Header.Get("Tarry-Attempt") != "1" {
		t.Error("the consumer's message was changed")
	}
	kept := one(t, in)
	want := nats.Header{"Tarry-Id": {"order-1"}, "Tarry-Key": {"k"}, "Tarry-Attempt": {"2"},
		"Tarry-Retry":  {"1m,10m~20%"},
		"Tarry-Reason": {"no database " + strings.Repeat("x", 255-len("no database "))}, "X": {"1"},
		"traceparent": {"00"}, "Nats-Msg-Id": {"retry-0uid-2"}}
	if kept.Subject != "delayed.orders.created" || string(kept.Data) != "body" ||
		!reflect.DeepEqual(kept.Header, want) {
		t.Errorf("got %q %q %v\nwant %v", kept.Subject, kept.Data, kept.Header, want)
	}
	for attempt, want := range map[string]Retried{"2": {Attempt: 3, Delay: 10 * time.Minute},
		"3": {Attempt: 4, Over: true}, "9": {Attempt: 10, Over: true}} {
		m.Header["Tarry-Attempt"] = []string{attempt}
		got, err := conn.RetryLater(t.Context(), m, "")
		if got.Receipt = (Receipt{}); err != nil || got != want {
			t.Errorf("attempt %s: got %+v, %v", attempt, got, err)
		}
	}
	m.Header["Tarry-Attempt"] = []string{"65535"}
	_, err = conn.RetryLater(t.Context(), m, "")
	wantRefused(t, err, "invalid_attempt", HeaderAttempt)
}

func TestClientRetryLater_StoresOneRetryHoweverOftenItIsAsked(t *testing.T) {
	t.Parallel()
	nc, more := account(t)
	in := intake(t, nc)
	conns := []*Conn{wrap(t, nc), wrap(t, more())}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, err := conns[i%2].RetryLater(t.Context(), delivered(), "why "+strings.Repeat("x", i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got, err := conns[0].RetryLater(t.Context(), delivered(), "again"); err != nil || !got.Duplicate ||
		got.Attempt != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
	one(t, in)
	second := delivered() // another delivery of the same name: a new uid
	second.Header["Nats-Msg-Id"], second.Header["Tarry-Attempt"] = []string{"1uid@shop"}, []string{"2"}
	if got, err := conns[0].RetryLater(t.Context(), second, ""); err != nil || got.Duplicate {
		t.Errorf("got %+v, %v", got, err)
	}
	if all := stored(t, in); len(all) != 2 || all[1].Header.Get("Nats-Msg-Id") != "retry-1uid@shop-3" ||
		all[1].Header.Get("Tarry-Reason") != "" {
		t.Errorf("got %d: %v", len(all), all[len(all)-1].Header)
	}
}

func TestClientRetryLater_WorksWithoutANameOfItsOwnAndInPartitions(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	js := wrapJS(t, nc)
	stream(t, nc, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	const uid = "0123456789abcdef0"
	if _, err := js.PublishMsg(t.Context(),
		message("orders.created.3", "body", "Tarry-Id", uid, "Nats-Msg-Id", uid, "Tarry-Attempt", "1",
			"Tarry-Due", "1896076800000", "Tarry-Subject", "orders.created", "Tarry-Key", "k")); err != nil {
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
	got, err := js.RetryMsgLater(t.Context(), m, "why")
	if err != nil || got.ID != uid || got.Attempt != 2 || got.Delay != 0 || got.Over {
		t.Fatalf("got %+v, %v", got, err)
	}
	if kept := one(t, in); kept.Subject != "delayed.orders.created" || kept.Header.Get("Tarry-Id") != uid ||
		kept.Header.Get("Tarry-Subject") != "" || string(kept.Data) != "body" {
		t.Errorf("got %q %v", kept.Subject, kept.Header)
	}
	// With a delay of the consumer's own it goes there as well, and keeps its schedule.
	own := message("orders.created.3", "body", "Tarry-Id", "a", "Tarry-Subject", "orders.created",
		"Tarry-Retry", "1m,2m")
	if err := RetryLater(t.Context(), js, own, time.Second); err != nil {
		t.Fatal(err)
	}
	if kept := stored(t, in)[1]; kept.Subject != "delayed.orders.created" ||
		kept.Header.Get("Tarry-Retry") != "1m,2m" || kept.Header.Get("Tarry-Delay") != "1s" {
		t.Errorf("got %q %v", kept.Subject, kept.Header)
	}
}

func TestClientRetryLater_RefusesCopies(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	conn := wrap(t, nc)
	// not what the subject is a partition of
	for _, topic := range []string{"admin.stop", "orders", "orders.create", "orders.created.1"} {
		for _, m := range []*nats.Msg{delivered(), message("orders.created", "body")} {
			set(m, "Tarry-Subject", topic)
			if _, err := conn.RetryLater(t.Context(), m, ""); !errors.Is(err, ErrCopy) {
				t.Errorf("a copy of %s: got %v", topic, err)
			}
		}
	}
	if _, err := conn.RetryLater(t.Context(), nil, ""); !errors.Is(err, nats.ErrInvalidMsg) {
		t.Errorf("got %v", err)
	}
	if _, err := conn.RetryMsgLater(t.Context(), nil, ""); !errors.Is(err, nats.ErrInvalidMsg) {
		t.Errorf("got %v", err)
	}
	if n := len(stored(t, in)); n != 0 {
		t.Errorf("%d are stored", n)
	}
}

func TestClientRetryLater_ByRequestCarriesEverything(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := newInstance(t, nc, func(n int, _ string) string {
		if n == 0 {
			return "" // lost: asked again under its name
		}
		return `{"id":"order-1","uid":"1uid","due":"2030-01-31T08:00:00.000Z","state":"waiting","version":1,` +
			`"durable":"redis","duplicate":true}`
	})
	m := delivered()
	m.Header["Tarry-Retry"] = []string{"exp(1m,1h,3)"}
	got, err := wrap(t, nc, ByRequest(), AckWait(200*time.Millisecond)).RetryLater(t.Context(), m, "why")
	if err != nil || got.UID != "1uid" || !got.Duplicate || got.Attempt != 2 || got.Delay != time.Minute ||
		got.Due.IsZero() {
		t.Fatalf("got %+v, %v", got, err)
	}
	want := `{"topic":"orders.created","body_base64":"Ym9keQ==","headers":{"X":["1"],"traceparent":["00"]},` +
		`"id":"order-1","key":"k","attempt":2,"retry":"1m,2m,4m","reason":"why"}`
	if asked := in.all(); len(asked) != 2 || asked[0] != want || asked[1] != want {
		t.Errorf("asked %s\nwant %s", asked, want)
	}
}

func TestTags_OfMergingAndRetries(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	m := Retries(MaxWait(OnDuplicate(Delay(message("orders", "x"), time.Second), Debounce), time.Minute), "1m*2~5%")
	if err := wrap(t, nc).PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	h := one(t, in).Header
	if h.Get("Tarry-On-Duplicate") != "debounce" || h.Get("Tarry-Max-Wait") != "60000" ||
		h.Get("Tarry-Retry") != "1m,1m~5%" {
		t.Errorf("got %v", h)
	}
	asked := newInstance(t, nc, always(`{"id":"0uid","uid":"0uid","due":"2030-01-31T08:00:00.000Z","merged":true}`))
	r, err := wrap(t, nc, ByRequest()).Push(t.Context(), m)
	if err != nil || !r.Merged {
		t.Errorf("got %+v, %v", r, err)
	}
	if got := asked.all()[0]; !strings.Contains(got, `"on_duplicate":"debounce"`) ||
		!strings.Contains(got, `"max_wait":"60000","retry":"1m,1m~5%"`) {
		t.Errorf("asked %s", got)
	}
}
