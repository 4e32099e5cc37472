package tarry

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestJetStreamContext_StoresTaggedMessages(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	in := intake(t, nc)
	js, err := wrap(t, nc).JetStream()
	if err != nil {
		t.Fatal(err)
	}
	bare, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	other, err := WrapJetStreamContext(nc, bare)
	if err != nil {
		t.Fatal(err)
	}
	m := message("orders", "body", "Tarry-Delay", "1h", "X", "1")
	ack, err := js.PublishMsg(m)
	if err != nil || ack.Stream != "TARRY_default" || ack.Sequence != 1 {
		t.Fatalf("got %+v, %v", ack, err)
	}
	for _, opts := range [][]nats.PubOpt{
		nil, {nats.AckWait(time.Second)}, {nats.Context(t.Context())},
	} {
		if _, err := other.PublishMsg(m, opts...); err != nil {
			t.Fatal(err)
		}
	}
	named := message("orders", "body", "Tarry-Delay", "1h", "X", "1", "Nats-Msg-Id", "order-1")
	for _, m := range []*nats.Msg{m, named} {
		f, err := js.PublishMsgAsync(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := outcome(t, f); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	list := stored(t, in)
	if len(list) != 6 || js.PublishAsyncPending() != 0 {
		t.Fatalf("%d stored", len(list))
	}
	for n, got := range list {
		want := nats.Header{"Tarry-Delay": {"1h"}, "X": {"1"}, "Nats-Msg-Id": got.Header["Nats-Msg-Id"]}
		if n == 5 {
			want["Tarry-Id"] = []string{"order-1"}
		}
		if got.Subject != "delayed.orders" || !reflect.DeepEqual(got.Header, want) ||
			!isFresh(got.Header.Get("Nats-Msg-Id")) {
			t.Errorf("%d: got %q %v, want %v", n, got.Subject, got.Header, want)
		}
	}
	if !reflect.DeepEqual(m, message("orders", "body", "Tarry-Delay", "1h", "X", "1")) {
		t.Errorf("the caller's message was changed: %+v", m)
	}
}

func TestJetStreamContext_RefusesAndPassesThroughAsNats(t *testing.T) {
	t.Parallel()
	nc, _ := account(t)
	intake(t, nc)
	bare, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	js, err := WrapJetStreamContext(nc, bare)
	if err != nil {
		t.Fatal(err)
	}
	tag := message("orders", "", "Tarry-Delay", "1h")
	for _, opt := range []nats.PubOpt{nats.MsgId("a"), nats.ExpectStream("X"), nats.ExpectLastSequence(3),
		nats.RetryAttempts(1), nats.StallWait(time.Second), nil} {
		_, err = js.PublishMsg(tag, nats.AckWait(time.Second), opt)
		wantRefused(t, err, WordOptions, "options")
		_, err = js.PublishMsgAsync(tag, opt)
		wantRefused(t, err, WordOptions, "options")
		if text := err.Error(); !strings.Contains(text, "tarry.As for nats.MsgId") {
			t.Errorf("it names no tag: %s", text)
		}
	}
	if _, err := js.PublishMsg(tag, nats.Context(t.Context()), nats.AckWait(time.Second)); !errors.Is(err,
		nats.ErrContextAndTimeout) {
		t.Errorf("got %v", err)
	}
	_, err = js.PublishMsgAsync(tag, nats.AckWait(time.Second))
	wantRefused(t, err, WordOptions, "options")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := js.PublishMsg(tag, nats.Context(ctx)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for _, m := range []*nats.Msg{message("nobody.there", "", "X", "1"), {Subject: "a b"}, {}} {
		_, e1 := bare.PublishMsg(m, nats.RetryAttempts(0))
		_, e2 := js.PublishMsg(m, nats.RetryAttempts(0))
		compare(t, m.Subject, e1, e2)
		f1, e1 := bare.PublishMsgAsync(m)
		f2, e2 := js.PublishMsgAsync(m)
		compare(t, m.Subject, e1, e2)
		if e1 == nil && e2 == nil {
			compare(t, m.Subject, outcome(t, f1), outcome(t, f2))
		}
	}
	js.CleanupPublisher()
}
