package bridge_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// taken keeps the pushes that it gets and answers each as a test sets it.
type taken struct {
	pushes chan *scheduler.Push
	err    error
}

func (s *taken) Accept(p *scheduler.Push, done func(scheduler.Accepted)) {
	s.pushes <- p
	go done(scheduler.Accepted{UID: p.UID, ID: p.ID, State: message.StateWaiting, Merged: true, Err: s.err})
}

func TestIntake_HandsOnMergingAndRetries(t *testing.T) {
	t.Parallel()
	nc, ns := connect(t, lab.SharedNATS(t).URL()), newNamespace()
	clock := scheduler.NewClock(scheduler.System())
	to := &taken{pushes: make(chan *scheduler.Push, 1)}
	taking(t, bridge.IntakeConfig{Conn: nc, Namespace: ns, Prefix: "later." + ns, Accept: to, Clock: clock})
	for _, c := range []struct {
		headers []string
		want    scheduler.Push
	}{
		{[]string{"Tarry-At", "1896076800000", "Tarry-Id", "a", "Tarry-On-Duplicate", "debounce",
			"Tarry-Max-Wait", "1h"},
			scheduler.Push{ID: "a", HasAt: true, At: 1896076800000, Merge: message.MergeDebounce,
				MaxWait: time.Hour}},
		{[]string{"Tarry-At", "1896076800000", "Tarry-On-Duplicate", "keep"}, scheduler.Push{ID: message.ContentName(
			"orders", []byte("body")), HasAt: true, At: 1896076800000, Merge: message.MergeKeep}},
		{[]string{"Tarry-Id", "a", "Tarry-Attempt", "2", "Tarry-Retry", "1m,5m~20%", "Tarry-Reason",
			"it failed", "x", "1"},
			scheduler.Push{ID: "a", Attempt: 2, ByRetry: true,
				Retry:   message.Retry{Delays: []time.Duration{time.Minute, 5 * time.Minute}, Jitter: 20},
				Headers: []message.Header{{Name: "x", Value: "1"}, {Name: "Tarry-Reason", Value: "it failed"}}}},
		{[]string{"Tarry-Id", "t-0123456789abcdef", "Tarry-Attempt", "2"},
			scheduler.Push{ID: "t-0123456789abcdef", Attempt: 2, ByRetry: true}},
	} {
		publish(t, nc, "later."+ns+".orders", "body", c.headers...)
		got := <-to.pushes
		c.want.Topic, c.want.Body = "orders", []byte("body")
		c.want.UID, c.want.Stored, c.want.Age, c.want.Options = got.UID, got.Stored, got.Age, got.Options
		if !reflect.DeepEqual(got, &c.want) || got.Stored == 0 || !message.IsUID(string(got.UID)) ||
			(got.Options == "") != (c.want.ID == "" && c.want.Merge == 0) {
			t.Errorf("%v: got %+v\nwant %+v", c.headers, got, c.want)
		}
	}
	emptied(t, nc, ns)
	if n := streamState(t, nc, bridge.RejectsName(ns)).Msgs; n > 0 {
		t.Errorf("%d rejects", n)
	}
}

func TestIntake_RejectsWhatMayNotBeReplacedAndWhatMeetsADamagedRecord(t *testing.T) {
	t.Parallel()
	wantRejected(t, "maybe_delivered", scheduler.ErrMaybeDelivered)
	wantRejected(t, "internal", scheduler.ErrUnreadable)
}

// wantRejected holds that a push which the scheduler refuses so stands among the rejects.
func wantRejected(t *testing.T, word string, why error) {
	t.Helper()
	nc, ns := connect(t, lab.SharedNATS(t).URL()), newNamespace()
	to := &taken{pushes: make(chan *scheduler.Push, 1), err: fmt.Errorf("replace: %w", why)}
	taking(t, bridge.IntakeConfig{Conn: nc, Namespace: ns, Prefix: "later." + ns, Accept: to})
	publish(t, nc, "later."+ns+".orders", "body", "Tarry-At", "1896076800000", "Tarry-Id", "a",
		"Tarry-On-Duplicate", "replace")
	<-to.pushes
	emptied(t, nc, ns)
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	m, err := js.GetMsg(bridge.RejectsName(ns), 1)
	if err != nil || !strings.HasPrefix(m.Header.Get("Tarry-Reason"), word+": ") ||
		m.Header.Get("Tarry-On-Duplicate") != "replace" {
		t.Errorf("got %+v, %v", m, err)
	}
}

// TestWhole_AConsumersRetryComesBackBySchedule goes the way of the library: the headers that it sends.
func TestWhole_AConsumersRetryComesBackBySchedule(t *testing.T) {
	t.Parallel()
	url, ns := lab.SharedNATS(t).URL(), newNamespace()
	timeline := whole(t, url, ns, "later."+ns)
	nc := connect(t, url)
	stream(t, nc, "ORDERS_"+ns, "orders."+ns)
	sub, err := nc.SubscribeSync("orders." + ns)
	if err != nil {
		t.Fatal(err)
	}
	next := func() *nats.Msg {
		t.Helper()
		m, err := sub.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	topic := "later." + ns + ".orders." + ns
	publish(t, nc, topic, "body", "Tarry-Delay", "0", "Tarry-Retry", "100ms,300ms", "Tarry-Key", "k", "x", "1")
	first := next()
	uid := strings.TrimSuffix(first.Header.Get("Nats-Msg-Id"), "@"+ns)
	if first.Header.Get("Tarry-Retry") != "100ms,300ms" || first.Header.Get("Tarry-Id") != uid ||
		first.Header.Get("Tarry-Attempt") != "1" {
		t.Fatalf("got %v", first.Header)
	}
	start := time.Now()
	for range 2 { // a consumer whose own acknowledgement was lost asks twice
		publish(t, nc, topic, "body", "Tarry-Id", uid, "Tarry-Key", "k", "Tarry-Attempt", "2", "Tarry-Retry",
			"100ms,300ms", "Tarry-Reason", "it failed", "x", "1")
	}
	again := next()
	h := again.Header
	if took := time.Since(start); took < 100*time.Millisecond || string(again.Data) != "body" ||
		h.Get("Tarry-Id") != uid || h.Get("Tarry-Attempt") != "2" ||
		h.Get("Tarry-Reason") != "it failed" || h.Get("Tarry-Retry") != "100ms,300ms" || h.Get("x") != "1" ||
		h.Get("Nats-Msg-Id") == first.Header.Get("Nats-Msg-Id") {
		t.Errorf("after %s: got %q %v", took, again.Data, h)
	}
	emptied(t, nc, ns)
	if m, err := sub.NextMsg(500 * time.Millisecond); err == nil {
		t.Errorf("one more came: %v", m.Header)
	}
	if n := waiting(t, timeline); n != 0 {
		t.Errorf("%d wait", n)
	}
}
