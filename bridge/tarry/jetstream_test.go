package tarry

import (
	"errors"
	"fmt"
	"reflect"
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

func TestJetStream_StoresTaggedMessagesAndTellsWhere(t *testing.T) {
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

func TestJetStream_OptionMsgIDBecomesTheName(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	js := wrapJS(t, nc)
	for how, err := range both(t, js, message("orders", "", "Tarry-Delay", "1h", "Nats-Msg-Id", "header"),
		jetstream.WithMsgID("order-1"), jetstream.WithRetryAttempts(3)) {
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
	}
	list := stored(t, in)
	if len(list) != 2 {
		t.Fatalf("%d stored", len(list))
	}
	for _, got := range list {
		if id := got.Header.Get(nats.MsgIdHdr); got.Header.Get("Tarry-Id") != "order-1" || len(id) != 22 {
			t.Errorf("got %v", got.Header)
		}
	}
}

func TestJetStream_OptionsThatConditionAStreamAreRefused(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	js := wrapJS(t, nc)
	for field, opt := range map[string]jetstream.PublishOpt{
		"Nats-Expected-Stream":        jetstream.WithExpectStream("TARRY_default"),
		"Nats-Expected-Last-Sequence": jetstream.WithExpectLastSequence(0),
		"Nats-Expected-Last-Msg-Id":   jetstream.WithExpectLastMsgID("a"),
		"Nats-TTL":                    jetstream.WithMsgTTL(time.Minute),
	} {
		for _, err := range both(t, js, message("orders", "", "Tarry-Delay", "1h"), opt) {
			wantRefused(t, err, "invalid_header", field)
		}
	}
	_, err := js.PublishMsg(t.Context(), message("orders", "", "Tarry-Delay", "1h"),
		jetstream.WithStallWait(time.Second))
	if !errors.Is(err, jetstream.ErrInvalidOption) {
		t.Errorf("a stall wait on a sync publish: %v", err)
	}
	if _, err := js.PublishMsgAsync(
		message("orders", "", "Tarry-Delay", "1h"), jetstream.WithStallWait(time.Second)); err != nil {
		t.Errorf("a stall wait on an async publish: %v", err)
	}
	<-js.PublishAsyncComplete()
	one(t, in)
}

func TestJetStream_TakesTheServersOwnSchedules(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	js := wrapJS(t, nc)
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	opts := []jetstream.PublishOpt{jetstream.WithScheduleAt(at), jetstream.WithScheduleTarget("orders"),
		jetstream.WithMsgID("order-1")}
	headers := message("schedules.1", "body", "Nats-Schedule", "@at "+at.Format(time.RFC3339), "Nats-Schedule-Target",
		"orders", "Nats-Msg-Id", "order-1")
	if _, err := js.Publish(t.Context(), "schedules.1", []byte("body"), opts...); err != nil {
		t.Fatal(err)
	}
	if f, err := js.PublishAsync("schedules.1", []byte("body"), opts...); err != nil || outcome(t, f) != nil {
		t.Fatal(err)
	}
	for how, err := range both(t, js, headers) {
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
	}
	if err := wrap(t, nc).PublishMsg(headers); err != nil {
		t.Fatal(err)
	}
	for how, err := range both(t, js, message("schedules.1", "body", "Nats-Schedule-Target", "orders"),
		opts[0], opts[2]) {
		if err != nil {
			t.Fatalf("%s, half by option, half by header: %v", how, err)
		}
	}
	list := stored(t, in)
	if len(list) != 7 {
		t.Fatalf("%d stored, want 7", len(list))
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
	_, err := js.Publish(t.Context(), "schedules.1", nil, jetstream.WithScheduleEvery(time.Minute),
		jetstream.WithScheduleTarget("orders"))
	wantRefused(t, err, "unsupported_yet", "Nats-Schedule")
	_, err = js.PublishAsync("schedules.1", nil, jetstream.WithScheduleAt(time.Now()),
		jetstream.WithScheduleTarget("orders"), jetstream.WithScheduleTTL(time.Minute))
	wantRefused(t, err, "unsupported_yet", "Nats-Schedule-TTL")
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

func TestJetStream_UntaggedCostsNoAllocation(t *testing.T) {
	nc, _ := account(t)
	js := wrapJS(t, nc)
	opts := []jetstream.PublishOpt{jetstream.WithMsgID("a"), jetstream.WithRetryAttempts(1),
		jetstream.WithScheduleTarget("x")}
	if n := testing.AllocsPerRun(100, func() {
		if js.kinds.schedule(opts) {
			t.Error("tagged")
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
	if opts = append(opts, jetstream.WithScheduleAt(time.Now())); !js.kinds.schedule(opts) || !js.kinds.schedule(opts) {
		t.Fatal("not tagged")
	}
	if js.kinds.schedule([]jetstream.PublishOpt{nil}) || js.kinds.schedule(nil) {
		t.Fatal("nothing is tagged")
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
	f, err := js.PublishMsgAsync(message("orders", "", "Tarry-Delay", "1h"), jetstream.WithRetryAttempts(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := outcome(t, f); !errors.Is(err, jetstream.ErrNoStreamResponse) {
		t.Fatalf("got %v", err)
	}
	_, err = js.PublishMsg(t.Context(), message("orders", "", "Tarry-Delay", "1h"), jetstream.WithRetryAttempts(0))
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

func BenchmarkUntaggedOptions(b *testing.B) {
	nc, err := nats.Connect(shared.url, nats.UserInfo("without", "p"))
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	w, err := WrapJetStream(js)
	if err != nil {
		b.Fatal(err)
	}
	opts := []jetstream.PublishOpt{jetstream.WithMsgID("order-1"), jetstream.WithRetryAttempts(3)}
	b.ReportAllocs()
	for b.Loop() {
		if w.kinds.schedule(opts) {
			b.Fatal("tagged")
		}
	}
}

func BenchmarkRewrite(b *testing.B) {
	c := &Client{config: config{prefix: "delayed"}, nc: &nats.Conn{}}
	m := message("orders", "body", "Tarry-Delay", "20m", "Tarry-Id", "order-1", "traceparent", "00")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.rewrite(m, nil); err != nil {
			b.Fatal(err)
		}
	}
}
