package publish_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/publish"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestPublisher_ACopyOfWhatEndedNamesTheTopicOfThatOnAPartitionToo(t *testing.T) {
	t.Parallel()
	nc := bridgetest.Connect(t, lab.SharedNATS(t).URL())
	ns := bridgetest.NewNamespace()
	sub, err := nc.SubscribeSync(ns + ".dead.>")
	if err != nil {
		t.Fatal(err)
	}
	topics := bridgetest.SettingsOf(&scheduler.Topic{Pattern: ns + ".dead.>", Partitions: 4,
		Retry: message.Retry{Delays: []time.Duration{time.Minute}}})
	p := bridgetest.Running(t, publish.Config{Conn: nc, Topics: topics})
	m := newMessage(ns+".dead.orders", "x")
	m.Headers = []message.Header{{Name: "Tarry-Subject", Value: ns + ".orders"}}
	plain := newMessage(ns+".dead.orders", "y")
	for _, o := range send(t, p, m, plain) {
		wantKind(t, o, scheduler.Delivered, "")
	}
	for _, want := range []string{ns + ".orders", ns + ".dead.orders"} {
		got, err := sub.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if names := got.Header.Values(wire.HeaderSubject); len(names) != 1 || names[0] != want ||
			!strings.HasPrefix(got.Subject, ns+".dead.orders.") {
			t.Errorf("on %s it names %q, want %q", got.Subject, names, want)
		}
		if retry := got.Header.Get(wire.HeaderRetry); retry != "1m" {
			t.Errorf("its consumer gets the schedule %q, want that of its topic", retry)
		}
	}
}
