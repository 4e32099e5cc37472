package tarry

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// both runs a test on a tagged publish through the sync and the async method.
func both(t *testing.T, js *JetStream, m *nats.Msg, opts ...jetstream.PublishOpt) map[string]error {
	t.Helper()
	_, sync := js.PublishMsg(t.Context(), m, opts...)
	f, async := js.PublishMsgAsync(m, opts...)
	if async == nil {
		async = outcome(t, f)
	}
	return map[string]error{"sync": sync, "async": async}
}

func outcome[A any](t *testing.T, f interface {
	Ok() <-chan *A
	Err() <-chan error
}) error {
	t.Helper()
	select {
	case <-f.Ok():
		return nil
	case err := <-f.Err():
		return err
	case <-time.After(20 * time.Second):
		return errors.New("the future never ends")
	}
}

func TestJetStream_IsAJetStream(t *testing.T) {
	t.Parallel()
	var _ jetstream.JetStream = (*JetStream)(nil)
	var _ nats.JetStreamContext = (*JetStreamContext)(nil)
	nc, _ := account(t)
	js := wrapJS(t, nc)
	if js.Conn() != nc {
		t.Fatal("Conn is another one")
	}
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b"}); err != nil {
		t.Fatal(err)
	}
}

func TestJetStream_StoresTaggedMessagesAndReturnsWhere(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	js := wrapJS(t, nc)
	ack, err := js.PublishMsg(t.Context(), message("orders", "sync", "Tarry-Delay", "1h", "X", "1"))
	if err != nil || ack.Stream != "TARRY_default" || ack.Sequence != 1 || ack.Duplicate {
		t.Fatalf("got %+v, %v", ack, err)
	}
	f, err := js.PublishMsgAsync(message("orders", "async", "Tarry-Delay", "1h", "X", "1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := outcome(t, f); err != nil || f.Msg().Subject != "delayed.orders" {
		t.Fatalf("%v on %q", err, f.Msg().Subject)
	}
	<-js.PublishAsyncComplete()
	list := stored(t, in)
	if len(list) != 2 || js.PublishAsyncPending() != 0 {
		t.Fatalf("%d stored, %d pending", len(list), js.PublishAsyncPending())
	}
	for _, got := range list {
		id := got.Header.Get(nats.MsgIdHdr)
		want := nats.Header{"Tarry-Delay": {"1h"}, "X": {"1"}, "Nats-Msg-Id": {id}}
		if got.Subject != "delayed.orders" || !reflect.DeepEqual(got.Header, want) {
			t.Errorf("got %q %v, want %v", got.Subject, got.Header, want)
		}
	}
}

func TestJetStream_MsgIDBecomesTheName(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	js := wrapJS(t, nc)
	for how, err := range both(t, js, message("orders", "", "Tarry-Delay", "1h", "Nats-Msg-Id", "order-1")) {
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
	}
	list := stored(t, in)
	if len(list) != 2 {
		t.Fatalf("%d stored", len(list))
	}
	for _, got := range list {
		if id := got.Header.Get(nats.MsgIdHdr); got.Header.Get("Tarry-Id") != "order-1" || !isFresh(id) {
			t.Errorf("got %v", got.Header)
		}
	}
}

// TestJetStream_RefusesOptionsTogetherWithATag covers every option that nats.go has, before anything is sent.
func TestJetStream_RefusesOptionsTogetherWithATag(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	js := wrapJS(t, nc)
	at := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for _, m := range []*nats.Msg{message("orders", "", "Tarry-Delay", "1h"), message("orders", "", "Tarry-Id", "a"),
		message("schedules.1", "", "Nats-Schedule", "@at "+at, "Nats-Schedule-Target", "orders")} {
		for name, opt := range map[string]jetstream.PublishOpt{
			"id":            jetstream.WithMsgID("a"),
			"stream":        jetstream.WithExpectStream("TARRY_default"),
			"sequence":      jetstream.WithExpectLastSequence(0),
			"last id":       jetstream.WithExpectLastMsgID("a"),
			"ttl":           jetstream.WithMsgTTL(time.Minute),
			"schedule":      jetstream.WithScheduleAt(time.Now()),
			"retries":       jetstream.WithRetryAttempts(1),
			"retry wait":    jetstream.WithRetryWait(time.Second),
			"stall wait":    jetstream.WithStallWait(time.Second),
			"a wrong value": jetstream.WithRetryAttempts(-1),
			"nil":           nil,
		} {
			for how, err := range both(t, js, m, opt) {
				wantRefused(t, err, WordOptions, "options")
				if text := err.Error(); !strings.Contains(text, "tarry.As for jetstream.WithMsgID") {
					t.Errorf("%s, %s: it names no tag: %s", name, how, text)
				}
			}
		}
	}
	if list := stored(t, in); len(list) != 0 {
		t.Fatalf("%d refused messages were stored", len(list))
	}
}

func TestJetStream_TakesTheServersOwnSchedules(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	js := wrapJS(t, nc)
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	headers := message("schedules.1", "body", "Nats-Schedule", "@at "+at.Format(time.RFC3339), "Nats-Schedule-Target",
		"orders", "Nats-Msg-Id", "order-1")
	for how, err := range both(t, js, headers) {
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
	}
	if err := wrap(t, nc).PublishMsg(headers); err != nil {
		t.Fatal(err)
	}
	list := stored(t, in)
	if len(list) != 3 {
		t.Fatalf("%d stored, want 3", len(list))
	}
	for _, got := range list {
		want := nats.Header{"Tarry-At": {at.Format("2006-01-02T15:04:05.000Z")}, "Tarry-Id": {"order-1"},
			"Nats-Msg-Id": got.Header["Nats-Msg-Id"]}
		if got.Subject != "delayed.orders" || string(got.Data) != "body" || !reflect.DeepEqual(got.Header, want) {
			t.Errorf("got %q %q %v, want %v", got.Subject, got.Data, got.Header, want)
		}
	}
}

func TestJetStream_RefusesSchedulesItCannotKeep(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	js := wrapJS(t, nc)
	for what, c := range map[string]struct {
		headers     []string
		word, field string
	}{
		"every": {[]string{"Nats-Schedule", "@every 5s", "Nats-Schedule-Target", "orders"}, "unsupported_yet",
			"Nats-Schedule"},
		"cron": {[]string{"Nats-Schedule", "0 0 * * * *", "Nats-Schedule-Target", "orders"}, "unsupported_yet",
			"Nats-Schedule"},
		"hourly": {[]string{"nats-schedule", "@hourly", "Nats-Schedule-Target", "orders"}, "unsupported_yet",
			"Nats-Schedule"},
		"no target": {[]string{"Nats-Schedule", "@at 2030-01-31T08:00:00Z"}, "invalid_topic", "Nats-Schedule-Target"},
		"wild target": {[]string{"Nats-Schedule", "@at 2030-01-31T08:00:00Z", "Nats-Schedule-Target", "orders.*"},
			"invalid_topic", "topic"},
		"bad time": {[]string{"Nats-Schedule", "@at tomorrow", "Nats-Schedule-Target", "orders"}, "invalid_at",
			"Nats-Schedule"},
		"too far": {[]string{"Nats-Schedule", "@at 2999-01-31T08:00:00Z", "Nats-Schedule-Target", "orders"},
			"invalid_at", "Nats-Schedule"},
		"twice": {[]string{"Nats-Schedule", "@at 2030-01-31T08:00:00Z", "nats-schedule",
			"@at 2030-01-31T08:00:00Z", "Nats-Schedule-Target", "orders"}, "repeated_header", "nats-schedule"},
		"empty": {[]string{"Nats-Schedule", "", "Nats-Schedule-Target", "orders"}, "missing_delay",
			"Nats-Schedule"},
		"ttl": {[]string{"Nats-Schedule", "@at 2030-01-31T08:00:00Z", "Nats-Schedule-Target", "orders",
			"Nats-Schedule-TTL", "5m"}, "unsupported_yet", "Nats-Schedule-TTL"},
		"zone": {[]string{"Nats-Schedule", "@at 2030-01-31T08:00:00Z", "Nats-Schedule-Target", "orders",
			"Nats-Schedule-Time-Zone", "CET"}, "unsupported_yet", "Nats-Schedule-Time-Zone"},
		"and a delay": {[]string{"Nats-Schedule", "@at 2030-01-31T08:00:00Z", "Nats-Schedule-Target", "orders",
			"Tarry-Delay", "1s"}, "delay_and_at", "Nats-Schedule"},
	} {
		t.Run(what, func(t *testing.T) {
			for _, err := range both(t, js, message("schedules.1", "", c.headers...)) {
				wantRefused(t, err, c.word, c.field)
			}
		})
	}
	if list := stored(t, in); len(list) != 0 {
		t.Fatalf("%d were stored", len(list))
	}
}

// TestJetStream_UntaggedBehavesAsBareNats sends the same through a bare JetStream context and a wrapped one.
func TestJetStream_UntaggedBehavesAsBareNats(t *testing.T) {
	t.Parallel()
	nc, more := account(t)
	intake(t, nc)
	plain := stream(t, nc, jetstream.StreamConfig{Name: "PLAIN", Subjects: []string{"plain.>"}})
	closed := more()
	closed.Close()
	opts := map[string][]jetstream.PublishOpt{
		"none":         nil,
		"id":           {jetstream.WithMsgID("same")},
		"retries":      {jetstream.WithRetryAttempts(0)},
		"wrong stream": {jetstream.WithExpectStream("OTHER")},
		"stall":        {jetstream.WithStallWait(time.Millisecond)},
		"bad":          {jetstream.WithRetryAttempts(-1), jetstream.WithScheduleEvery(1)},
		"ttl":          {jetstream.WithMsgTTL(time.Hour)},
		"target alone": {jetstream.WithScheduleTarget("plain.y")},
		"schedule":     {jetstream.WithScheduleAt(time.Now()), jetstream.WithScheduleTarget("plain.y")},
	}
	for name, conn := range map[string]*nats.Conn{"open": nc, "closed": closed} {
		bare, err := jetstream.New(conn)
		if err != nil {
			t.Fatal(err)
		}
		ours := wrapJS(t, conn)
		for oname, o := range opts {
			for _, subject := range []string{"plain.x", "nobody.there", "a b", ""} {
				if subject == "nobody.there" && oname != "retries" && oname != "bad" {
					continue // half a second of nats.go's own retries each
				}
				what := fmt.Sprintf("%s, %s, %q", name, oname, subject)
				build := func() *nats.Msg { return message(subject, "body", "X", "1", "Tarry-Key", "a") }
				m1, m2 := build(), build()
				_, e1 := bare.PublishMsg(t.Context(), m1, o...)
				_, e2 := ours.PublishMsg(t.Context(), m2, o...)
				compare(t, what+": PublishMsg", e1, e2)
				if !reflect.DeepEqual(m1, m2) {
					t.Errorf("%s: nats.go leaves %v, the wrapper %v", what, m1.Header, m2.Header)
				}
				_, e1 = bare.Publish(t.Context(), subject, nil, o...)
				_, e2 = ours.Publish(t.Context(), subject, nil, o...)
				compare(t, what+": Publish", e1, e2)
				f1, e1 := bare.PublishMsgAsync(build(), o...)
				f2, e2 := ours.PublishMsgAsync(build(), o...)
				compare(t, what+": PublishMsgAsync", e1, e2)
				if e1 == nil && e2 == nil {
					compare(t, what+": the future of PublishMsgAsync", outcome(t, f1), outcome(t, f2))
				}
				f1, e1 = bare.PublishAsync(subject, nil, o...)
				f2, e2 = ours.PublishAsync(subject, nil, o...)
				compare(t, what+": PublishAsync", e1, e2)
				if e1 == nil && e2 == nil {
					compare(t, what+": the future of PublishAsync", outcome(t, f1), outcome(t, f2))
				}
			}
		}
		reply := message("plain.x", "")
		reply.Reply = "answers"
		_, e1 := bare.PublishMsgAsync(reply)
		_, e2 := ours.PublishMsgAsync(reply)
		compare(t, name+": a reply subject", e1, e2)
	}
	if info, err := plain.Info(t.Context()); err != nil || info.State.Msgs == 0 {
		t.Fatalf("nothing was published: %v", err)
	}
}

func TestJetStream_FuturesFailWhenTheIntakeIsGone(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	js := wrapJS(t, nc)
	if _, err := js.PublishMsg(t.Context(), message("orders", "", "Tarry-Delay", "1h")); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), in.CachedInfo().Config.Name); err != nil {
		t.Fatal(err)
	}
	f, err := js.PublishMsgAsync(message("orders", "", "Tarry-Delay", "1h"))
	if err != nil {
		t.Fatal(err)
	}
	if err := outcome(t, f); !errors.Is(err, jetstream.ErrNoStreamResponse) {
		t.Fatalf("got %v", err)
	}
	_, err = js.PublishMsg(t.Context(), message("orders", "", "Tarry-Delay", "1h"))
	if !errors.Is(err, ErrNoIntake) || !errors.Is(err, jetstream.ErrNoStreamResponse) {
		t.Fatalf("got %v, want ErrNoIntake", err)
	}
	asked := newInstance(t, nc, always(kept))
	if _, err := js.PublishMsg(t.Context(), message("orders", "", "Tarry-Delay", "1h")); err != nil ||
		len(asked.all()) != 1 {
		t.Fatalf("an instance is there, and the push says: %v", err)
	}
}

func BenchmarkUntagged(b *testing.B) {
	m := message("plain.x", "", "X", "1", "traceparent", "00")
	b.ReportAllocs()
	for b.Loop() {
		if tagged(m.Header) {
			b.Fatal("tagged")
		}
	}
}

func BenchmarkRewrite(b *testing.B) {
	c := &Client{config: config{prefix: "delayed"}, nc: &nats.Conn{}}
	m := message("orders", "body", "Tarry-Delay", "20m", "Tarry-Id", "order-1", "traceparent", "00")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.rewrite(m); err != nil {
			b.Fatal(err)
		}
	}
}
