package tarry

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
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

func TestRetryIn_PushesTheMessageAgainUnderItsName(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	conn := wrap(t, nc)
	for n := range 2 { // the second is the same retry
		got, err := conn.Tarry().RetryMsg(t.Context(), delivered(), "", In(time.Minute))
		if err != nil || got.Duplicate != (n == 1) || got.Attempt != 2 || got.Delay != time.Minute || got.Over {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
	second := delivered()
	second.Header.Set("Tarry-Attempt", "2")
	if err := errOf(conn.Tarry().RetryMsg(t.Context(), second, "", In(time.Minute), Priority(7))); err != nil {
		t.Fatal(err)
	}
	list := stored(t, in)
	if len(list) != 2 || list[1].Header.Get("Tarry-Priority") != "7" {
		t.Fatalf("%d stored", len(list))
	}
	delete(list[1].Header, "Tarry-Priority")
	for n, got := range list {
		attempt := strconv.Itoa(n + 2)
		want := nats.Header{"Tarry-Delay": {"1m0s"}, "Tarry-Id": {"order-1"}, "Tarry-Attempt": {attempt},
			"Tarry-Key": {"k"},
			"X":         {"1"}, "traceparent": {"00"}, "Nats-Msg-Id": {"retry-0uid-" + attempt}}
		if got.Subject != "delayed.orders.created" || string(got.Data) != "body" ||
			!reflect.DeepEqual(got.Header, want) {
			t.Errorf("%d: got %q %q %v, want %v", n, got.Subject, got.Data, got.Header, want)
		}
	}
}

// TestRetryIn_NamesWhatHasNoName covers messages that never went through tarry.
func TestRetryIn_NamesWhatHasNoName(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	conn, js := wrap(t, nc), wrapJS(t, nc)
	if err := errOf(conn.Tarry().RetryMsg(t.Context(), message("orders", "core"), "", In(time.Minute))); err != nil {
		t.Fatal(err)
	}
	if err := errOf(conn.Tarry().RetryMsg(t.Context(),
		message("orders", "id", "Nats-Msg-Id", "mine", "Nats-Stream", "X"), "", In(time.Minute))); err != nil {
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
		if err := errOf(js.Tarry().Retry(t.Context(), m, "", In(time.Minute))); err != nil {
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
	if err := errOf(old.(*JetStreamContext).Tarry().RetryMsg(t.Context(), om, "", In(time.Minute))); err != nil {
		t.Fatal(err)
	}
	list := stored(t, in)
	if len(list) != 3 { // the last three are one retry
		t.Fatalf("%d stored", len(list))
	}
	place := placeIn(t, orders, "ORDERS")
	for n, id := range []string{"", "", place} {
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

func TestRetryIn_RefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	intake(t, nc)
	conn := wrap(t, nc)
	if err := errOf(conn.Tarry().RetryMsg(t.Context(), nil, "", In(time.Second))); !errors.Is(err, nats.ErrInvalidMsg) {
		t.Errorf("got %v", err)
	}
	if err := errOf(conn.Tarry().Retry(t.Context(), nil, "", In(time.Second))); !errors.Is(err, nats.ErrInvalidMsg) {
		t.Errorf("got %v", err)
	}
	_, err := conn.Tarry().RetryMsg(t.Context(), delivered(), "", In(-time.Second))
	wantRefused(t, err, "invalid_delay", "Tarry-Delay")
	_, err = conn.Tarry().RetryMsg(t.Context(), delivered(), "", As("another"))
	wantRefused(t, err, WordRetry, "tags")
	_, err = conn.Tarry().RetryMsg(t.Context(), delivered(), "", Key("another"))
	wantRefused(t, err, WordRetry, "tags")
	last := delivered()
	last.Header.Set("Tarry-Attempt", "65535")
	_, err = conn.Tarry().RetryMsg(t.Context(), last, "", In(time.Second))
	wantRefused(t, err, "invalid_attempt", "Tarry-Attempt")
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

func TestRetry_SendsTheMessageBackBySchedule(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	conn := wrap(t, nc)
	m := delivered()
	m.Header["Tarry-Retry"] = []string{"1m,10m~20%"}
	m.Header["Tarry-Reason"] = []string{"of the attempt before"}
	m.Header["Nats-Stream"] = []string{"ORDERS"}
	before := len(m.Header)
	got, err := conn.Tarry().RetryMsg(t.Context(), m, " no\ndatabase "+strings.Repeat("x", 300))
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
		got, err := conn.Tarry().RetryMsg(t.Context(), m, "")
		if got.Stored = (Stored{}); err != nil || got != want {
			t.Errorf("attempt %s: got %+v, %v", attempt, got, err)
		}
	}
	m.Header["Tarry-Attempt"] = []string{"65535"}
	_, err = conn.Tarry().RetryMsg(t.Context(), m, "")
	wantRefused(t, err, "invalid_attempt", HeaderAttempt)
}

func TestRetry_StoresOneRetryHoweverOftenItIsAsked(t *testing.T) {
	t.Parallel()
	nc, more := account(t)
	in := intake(t, nc)
	conns := []*Conn{wrap(t, nc), wrap(t, more())}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			why := "why " + strings.Repeat("x", i)
			if _, err := conns[i%2].Tarry().RetryMsg(t.Context(), delivered(), why); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got, err := conns[0].Tarry().RetryMsg(t.Context(), delivered(), "again"); err != nil || !got.Duplicate ||
		got.Attempt != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
	one(t, in)
	second := delivered() // another delivery of the same name: a new uid
	second.Header["Nats-Msg-Id"], second.Header["Tarry-Attempt"] = []string{"1uid@shop"}, []string{"2"}
	if got, err := conns[0].Tarry().RetryMsg(t.Context(), second, ""); err != nil || got.Duplicate {
		t.Errorf("got %+v, %v", got, err)
	}
	if all := stored(t, in); len(all) != 2 || all[1].Header.Get("Nats-Msg-Id") != "retry-1uid@shop-3" ||
		all[1].Header.Get("Tarry-Reason") != "" {
		t.Errorf("got %d: %v", len(all), all[len(all)-1].Header)
	}
}

// A stream judges Nats-Msg-Ids over all of its subjects: whoever may push on another topic must not be able to take
// that of a retry, which the uid of the delivery does not tell, nor that of a push.
func TestRetry_CannotBeTakenByAnotherProducer(t *testing.T) {
	t.Parallel()
	nc, more := account(t)
	in := intake(t, nc)
	js, err := jetstream.New(more())
	if err != nil {
		t.Fatal(err)
	}
	for _, guess := range []string{"retry-0uid-2", "retry-order-1-2"} {
		if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "delayed.others", Header: nats.Header{
			"Nats-Msg-Id": {guess}, "Tarry-Delay": {"1m"}}}); err != nil {
			t.Fatal(err)
		}
	}
	conn := wrap(t, nc)
	for n := range 2 { // the second is the same retry, by whichever consumer
		m := delivered()
		m.Header.Set("Tarry-Once", "3w5e11264sgsf")
		if got, err := conn.Tarry().RetryMsg(t.Context(), m, ""); err != nil || got.Duplicate != (n == 1) {
			t.Fatalf("retry: %+v, %v", got, err)
		}
	}
	out, err := conn.Tarry().rewrite(Tag(nats.NewMsg("orders.created"), In(time.Minute)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "delayed.others", Header: nats.Header{
		"Nats-Msg-Id": out.msg.Header["Nats-Msg-Id"], "Tarry-Delay": {"1m"}}}); err != nil {
		t.Fatal(err)
	}
	if got, err := conn.Tarry().place(t.Context(), out); err != nil || got.Duplicate || got.Sequence != 5 {
		t.Errorf("a push whose id was taken: %+v, %v", got, err)
	}
	if all := stored(t, in); len(all) != 5 || all[2].Header.Get("Nats-Msg-Id") != "retry-3w5e11264sgsf-2" ||
		all[2].Header.Get("Tarry-Once") != "" {
		t.Errorf("got %d: %v", len(all), all[2].Header)
	}
}

func TestRetry_WorksWithoutANameOfItsOwnAndInPartitions(t *testing.T) {
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
	got, err := js.Tarry().Retry(t.Context(), m, "why")
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
	got, err = js.Tarry().RetryMsg(t.Context(), own, "", In(time.Second))
	if err != nil || got.Delay != time.Second || got.Over {
		t.Fatalf("got %+v, %v", got, err)
	}
	if kept := stored(t, in)[1]; kept.Subject != "delayed.orders.created" ||
		kept.Header.Get("Tarry-Retry") != "1m,2m" || kept.Header.Get("Tarry-Delay") != "1s" {
		t.Errorf("got %q %v", kept.Subject, kept.Header)
	}
}

func TestRetry_RefusesCopies(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	conn := wrap(t, nc)
	// not what the subject is a partition of
	for _, topic := range []string{"admin.stop", "orders", "orders.create", "orders.created.1"} {
		for _, m := range []*nats.Msg{delivered(), message("orders.created", "body")} {
			Tag(m, tag("Tarry-Subject", topic))
			if _, err := conn.Tarry().RetryMsg(t.Context(), m, ""); !errors.Is(err, ErrCopy) {
				t.Errorf("a copy of %s: got %v", topic, err)
			}
		}
	}
	if _, err := conn.Tarry().RetryMsg(t.Context(), nil, ""); !errors.Is(err, nats.ErrInvalidMsg) {
		t.Errorf("got %v", err)
	}
	if _, err := conn.Tarry().Retry(t.Context(), nil, ""); !errors.Is(err, nats.ErrInvalidMsg) {
		t.Errorf("got %v", err)
	}
	if n := len(stored(t, in)); n != 0 {
		t.Errorf("%d are stored", n)
	}
}

func TestRetry_ByRequestCarriesEverything(t *testing.T) {
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
	client := wrap(t, nc, WithRoute(ByRequest), WithAckWait(200*time.Millisecond)).Tarry()
	got, err := client.RetryMsg(t.Context(), m, "why")
	if err != nil || got.UID != "1uid" || !got.Duplicate || got.Attempt != 2 || got.Delay != time.Minute ||
		got.Due.IsZero() {
		t.Fatalf("got %+v, %v", got, err)
	}
	want := "orders.created\nTarry-Attempt: 2\nTarry-Id: order-1\nTarry-Key: k\nTarry-Reason: why\n" +
		"Tarry-Retry: 1m,2m,4m\nX: 1\ntraceparent: 00\nbody"
	// A slow machine asks a third time.
	if asked := in.all(); len(asked) < 2 || asked[0] != want || len(slices.Compact(slices.Clone(asked))) != 1 ||
		len(slices.Compact(in.called())) != 1 {
		t.Errorf("asked %q\nwant %q; as %q", asked, want, in.called())
	}
}

func TestTags_OfMergingAndRetries(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	m := Tag(message("orders", "x"), In(time.Second), OnDuplicate(Debounce), MaxWait(time.Minute), Retries("1m*2~5%"))
	if err := wrap(t, nc).PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	h := one(t, in).Header
	if h.Get("Tarry-On-Duplicate") != "debounce" || h.Get("Tarry-Max-Wait") != "1m" ||
		h.Get("Tarry-Retry") != "1m,1m~5%" {
		t.Errorf("got %v", h)
	}
	asked := newInstance(t, nc, always(`{"id":"0uid","uid":"0uid","due":"2030-01-31T08:00:00.000Z","merged":true}`))
	r, err := wrap(t, nc, WithRoute(ByRequest)).Tarry().Push(t.Context(), m)
	if err != nil || !r.Merged {
		t.Errorf("got %+v, %v", r, err)
	}
	if got := asked.all()[0]; !strings.Contains(got, "Tarry-On-Duplicate: debounce\n") ||
		!strings.Contains(got, "Tarry-Max-Wait: 1m\n") || !strings.Contains(got, "Tarry-Retry: 1m,1m~5%\n") {
		t.Errorf("asked %s", got)
	}
}
