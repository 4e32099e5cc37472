package tarry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

func TestPublishMsg_StoresATaggedMessageBeforeItReturns(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	conn := wrap(t, nc)
	m := message("orders.created", "body \x00\xff", "tarry-delay", " 20m ", "TARRY-ID", "order-7131",
		"Tarry-Priority", "7",
		"traceparent", "00-4bf9-01", "X-Many", "2", "X-Many", "1", "x-case", "Ümlaut")
	if err := conn.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	got := one(t, in)
	if got.Subject != "delayed.orders.created" || !bytes.Equal(got.Data, m.Data) {
		t.Errorf("got %q %q", got.Subject, got.Data)
	}
	id := got.Header.Get(nats.MsgIdHdr)
	if !isFresh(id) {
		t.Errorf("got Nats-Msg-Id %q, want a fresh one", id)
	}
	want := nats.Header{
		"Tarry-Delay": {"20m"}, "Tarry-Id": {"order-7131"}, "Tarry-Priority": {"7"}, "Nats-Msg-Id": {id},
		"traceparent": {"00-4bf9-01"}, "X-Many": {"2", "1"}, "x-case": {"Ümlaut"},
	}
	if !reflect.DeepEqual(got.Header, want) {
		t.Errorf("got %v\nwant %v", got.Header, want)
	}
}

func TestPublishMsg_LeavesTheCallersMessageAlone(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	intake(t, nc)
	conn := wrap(t, nc)
	build := func() *nats.Msg {
		return message("orders", "body", "Tarry-Delay", "1h", "Nats-Msg-Id", "mine", "X", "1", "X", "2")
	}
	m := build()
	if err := conn.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	js := wrapJS(t, nc)
	if _, err := js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if _, err := js.PublishMsgAsync(m); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(m, build()) {
		t.Fatalf("got %+v, want %+v", m, build())
	}
}

func TestPublishMsg_MakesTheCallersMessageIDTheName(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	conn := wrap(t, nc)
	for _, m := range []*nats.Msg{
		message("orders", "1", "Tarry-Delay", "1h", "Nats-Msg-Id", "order-1"),
		message("orders", "1", "Tarry-Delay", "1h", "nats-msg-id", "order-1"),
		message("orders", "1", "Tarry-Delay", "1h", "Nats-Msg-Id", "order-0", "Tarry-Id", "order-1"),
	} {
		if err := conn.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	for _, got := range stored(t, in) {
		if got.Header.Get("Tarry-Id") != "order-1" {
			t.Errorf("got Tarry-Id %q", got.Header["Tarry-Id"])
		}
		seen[got.Header.Get(nats.MsgIdHdr)] = true
	}
	if len(seen) != 3 || seen["order-1"] || seen["order-0"] {
		t.Fatalf("three calls went out under %v, want three fresh ids: new content must never look like old", seen)
	}
}

func TestPublishMsg_SendsAnIntakeMessageAgainUnderItsID(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	conn := wrap(t, nc)
	if err := conn.PublishMsg(message("orders", "1", "Tarry-Delay", "1h")); err != nil {
		t.Fatal(err)
	}
	first := one(t, in)
	r, err := conn.Tarry().Push(t.Context(), &nats.Msg{Subject: first.Subject, Header: first.Header, Data: first.Data})
	if err != nil || !r.Duplicate || r.Stream != "TARRY_default" || r.Sequence != first.Sequence {
		t.Fatalf("got %+v, %v, want a duplicate of %d", r, err, first.Sequence)
	}
	one(t, in)
}

func TestPublishMsg_RefusesWhatATagExcludes(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	conn := wrap(t, nc)
	withReply := message("orders", "", "Tarry-Delay", "1s")
	withReply.Reply = "answers"
	for _, c := range []struct {
		m           *nats.Msg
		word, field string
	}{
		{withReply, WordReply, "reply"},
		{message("orders", "", "Tarry-Delay", "1s", "Nats-Expected-Stream", "S"), "invalid_header",
			"Nats-Expected-Stream"},
		{message("orders", "", "Tarry-Delay", "1s", "Nats-TTL", "1m"), "invalid_header", "Nats-TTL"},
		{message("orders", "", "Tarry-Delay", "1s", "Nats-Rollup", "sub"), "invalid_header", "Nats-Rollup"},
		{message("orders", "", "Tarry-Delay", "1s", "Nats-Msg-Id", "a", "Nats-Msg-Id", "b"), "repeated_header",
			"Nats-Msg-Id"},
		{message("orders.*", "", "Tarry-Delay", "1s"), "invalid_topic", "topic"},
		{message("", "", "Tarry-Delay", "1s"), "invalid_topic", "topic"},
		{message("tarry.default.api.cancel", "", "Tarry-Delay", "1s"), "invalid_topic", "topic"},
		{Tag(message("orders", ""), At(time.Time{})), "invalid_at", "Tarry-At"},
		{message("orders", "", "Tarry-At", time.Now().AddDate(11, 0, 0).Format(time.RFC3339)),
			"invalid_at", "Tarry-At"},
		{Tag(message("orders", ""), In(-time.Second)), "invalid_delay", "Tarry-Delay"},
		{Tag(message("orders", ""), In(time.Second), As("")), "invalid_id", "Tarry-Id"},
	} {
		wantRefused(t, conn.PublishMsg(c.m), c.word, c.field)
	}
	if list := stored(t, in); len(list) != 0 {
		t.Fatalf("%d refused messages were stored", len(list))
	}
}

func TestPublishMsg_RefusesWhatTheIntakeWouldReject(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	conn := wrap(t, nc)
	max := int(nc.MaxPayload())
	for _, size := range []int{max - wire.HeadRoom + 1, max, max + 1} {
		err := conn.PublishMsg(Tag(&nats.Msg{Subject: "orders", Data: make([]byte, size)}, In(time.Hour)))
		wantRefused(t, err, "too_large", "body")
		if !errors.Is(err, nats.ErrMaxPayload) {
			t.Errorf("%d bytes: %v is not nats.ErrMaxPayload", size, err)
		}
	}
	if err := conn.PublishMsg(
		Tag(&nats.Msg{Subject: "orders", Data: make([]byte, max-wire.HeadRoom)}, In(time.Hour))); err != nil {
		t.Errorf("as large as the intake takes: %v", err)
	}
	one(t, in)
}

func TestHelpers_SetOneTagEach(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 31, 8, 0, 0, 1, time.FixedZone("", 3600))
	m := message("orders", "", "tarry-at", "x", "TARRY-TTL", "y")
	got := Tag(m, In(90*time.Second), As("i"), Key("k"), Priority(9), TTL(time.Minute))
	want := nats.Header{"Tarry-Delay": {"1m30s"}, "Tarry-Id": {"i"}, "Tarry-Key": {"k"}, "Tarry-Priority": {"9"},
		"Tarry-TTL": {"1m0s"}}
	if got != m || !reflect.DeepEqual(m.Header, want) {
		t.Fatalf("got %v, want %v", m.Header, want)
	}
	Tag(m, At(at))
	delete(want, "Tarry-Delay")
	want["Tarry-At"] = []string{"2030-01-31T07:00:00.000000001Z"}
	if !reflect.DeepEqual(m.Header, want) {
		t.Fatalf("got %v, want %v", m.Header, want)
	}
	if m := Tag(&nats.Msg{Subject: "orders"}, At(at)); len(m.Header) != 1 {
		t.Fatalf("got %v", m.Header)
	}
}

func TestAt_RoundsUpAndNeverDown(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	conn := wrap(t, nc)
	at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	if err := conn.PublishMsg(Tag(message("orders", ""), At(at.Add(time.Nanosecond)))); err != nil {
		t.Fatal(err)
	}
	got, err := time.Parse(time.RFC3339Nano, one(t, in).Header.Get("Tarry-At"))
	if err != nil || !got.Equal(at.Add(time.Millisecond)) {
		t.Fatalf("got %v, %v, want %v", got, err, at.Add(time.Millisecond))
	}
}

func TestRequestMsg_RefusesATag(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	intake(t, nc)
	conn := wrap(t, nc)
	m := message("orders", "", "Tarry-Delay", "1s")
	_, err := conn.RequestMsg(m, time.Second)
	wantRefused(t, err, WordRequest, "request")
	_, err = conn.RequestMsgWithContext(t.Context(), m)
	wantRefused(t, err, WordRequest, "request")
}

func TestPublishMsg_FailsWhereNothingTakesIt(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	conn := wrap(t, nc)
	err := conn.PublishMsg(message("orders", "", "Tarry-Delay", "1s"))
	if !errors.Is(err, ErrNoIntake) || !errors.Is(err, nats.ErrNoResponders) {
		t.Fatalf("got %v, want ErrNoIntake", err)
	}
}

func TestPublishMsg_FailsWhereTheStreamIsAnother(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	other := stream(t, nc, jetstream.StreamConfig{Name: "AUDIT", Subjects: []string{">"}, NoAck: true})
	m := message("orders", "", "Tarry-Delay", "1s")
	if _, err := wrapJS(t, nc).PublishMsg(t.Context(), m); !errors.Is(err, ErrNoIntake) {
		t.Fatalf("got %v, want ErrNoIntake: a foreign stream would keep the message for ever", err)
	}
	// The door's request goes to that stream, which does not answer: an instance may have it too.
	if err := wrap(t, nc, WithTimeout(300*time.Millisecond)).PublishMsg(m); !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("by the door: %v", err)
	}
	for _, m := range stored(t, other) {
		if m.Subject == "delayed.orders" {
			t.Fatal("the message was given to a foreign stream")
		}
	}
}

func TestPublishMsg_PassesOnTheServersRefusal(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	stream(t, nc, jetstream.StreamConfig{Name: "TARRY_default", Subjects: []string{"delayed.>"},
		Retention: jetstream.WorkQueuePolicy,
		Discard:   jetstream.DiscardNew, MaxMsgs: 1})
	conn := wrap(t, nc)
	if err := conn.PublishMsg(message("orders", "1", "Tarry-Delay", "1h")); err != nil {
		t.Fatal(err)
	}
	err := conn.PublishMsg(message("orders", "2", "Tarry-Delay", "1h"))
	var api *jetstream.APIError
	if !errors.As(err, &api) || errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("got %v, want the server's own error for a full stream", err)
	}
}

func TestPublishMsg_OnAClosedConnectionSaysSo(t *testing.T) {
	t.Parallel()
	nc, more := account(t)
	intake(t, nc)
	for _, looked := range []bool{false, true} {
		other := more()
		conn := wrap(t, other)
		m := message("orders", "", "Tarry-Delay", "1h")
		if looked {
			if err := conn.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
		other.Close()
		err := conn.PublishMsg(m)
		if !errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("looked up before: %v: got %v, want ErrConnectionClosed and nothing unknown", looked, err)
		}
	}
}

func TestPush_UnderAnEndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	conn := wrap(t, nc, WithRoute(ByStream))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := conn.Tarry().Push(ctx, message("orders", "", "Tarry-Delay", "1h"))
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("got %v", err)
	}
	if list := stored(t, in); len(list) != 0 {
		t.Fatal("the message was stored")
	}
	if _, err := conn.Tarry().Push(t.Context(), message("orders", "")); err == nil {
		t.Fatal("Push takes a message without a tag")
	}
	if _, err := conn.Tarry().Push(t.Context(), nil); !errors.Is(err, nats.ErrInvalidMsg) {
		t.Fatalf("nil: %v", err)
	}
}

func TestPublishMsg_FromManyGoroutinesStoresEachOnce(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	conn, js := wrap(t, nc), wrapJS(t, nc)
	const each, senders = 25, 16
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for n := range each {
				m := message("orders", fmt.Sprintf("%d-%d", s, n), "Tarry-Delay", "1h")
				var err error
				switch n % 3 {
				case 0:
					err = conn.PublishMsg(m)
				case 1:
					_, err = js.PublishMsg(t.Context(), m)
				default:
					_, err = js.PublishMsgAsync(m)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	select {
	case <-js.PublishAsyncComplete():
	case <-t.Context().Done():
	}
	bodies := map[string]bool{}
	for _, m := range stored(t, in) {
		bodies[string(m.Data)] = true
	}
	if info, err := in.Info(t.Context()); err != nil || info.State.Msgs != each*senders || len(bodies) != each*senders {
		t.Fatalf("the stream holds %+v of %d bodies, want %d; %v", info.State, len(bodies), each*senders, err)
	}
}

func TestWrap_RefusesBadSettingsByName(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	for name, o := range map[string]Option{
		"prefix":             WithPrefix("a..b"),
		"prefix under tarry": WithPrefix("tarry.in"),
		"namespace":          WithNamespace("a.b"),
		"empty namespace":    WithNamespace(""),
		"timeout":            WithTimeout(0),
		"ack wait":           WithAckWait(-1),
		"route":              WithRoute(0),
		"JetStream":          WithJetStream(nil),
	} {
		if _, err := Wrap(nc, o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := Wrap(nil); !errors.Is(err, nats.ErrInvalidConnection) {
		t.Errorf("no connection: %v", err)
	}
	if _, err := WrapJetStream(nil); err == nil {
		t.Error("no JetStream: accepted")
	}
	if _, err := WrapJetStreamContext(nc, nil); err == nil {
		t.Error("no JetStream context: accepted")
	}
	if _, err := Connect("nats://127.0.0.1:1"); err == nil {
		t.Error("connected to nothing")
	}
}

// TestWrappers_EmbedWhatTheyWrapAlone keeps a name that nats.go adds some day from meeting one of ours.
func TestWrappers_EmbedWhatTheyWrapAlone(t *testing.T) {
	t.Parallel()
	for _, wrapper := range []any{Conn{}, JetStream{}, JetStreamContext{}} {
		var embedded []string
		for f := range reflect.TypeOf(wrapper).Fields() {
			if f.Anonymous {
				embedded = append(embedded, f.Type.String())
			}
		}
		if len(embedded) != 1 || strings.Contains(embedded[0], "tarry") {
			t.Errorf("%T embeds %v", wrapper, embedded)
		}
	}
	nc, _ := account(t)
	client, err := NewClient(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Push(t.Context(), message("orders", "", "Tarry-Delay", "1s")); !errors.Is(err, ErrNoIntake) {
		t.Errorf("got %v", err)
	}
}

func TestWrap_TakesPrefixAndNamespace(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := stream(t, nc, jetstream.StreamConfig{Name: "TARRY_eu", Subjects: []string{"acme.later.>"},
		Retention: jetstream.WorkQueuePolicy})
	conn := wrap(t, nc, WithPrefix("acme.later"), WithNamespace("eu"))
	if err := conn.PublishMsg(message("orders", "", "Tarry-Delay", "1h")); err != nil {
		t.Fatal(err)
	}
	if got := one(t, in); got.Subject != "acme.later.orders" {
		t.Fatalf("got %q", got.Subject)
	}
}
