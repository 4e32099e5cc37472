package intake_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestIntake_HandsOnMergingAndRetries(t *testing.T) {
	t.Parallel()
	nc, ns := bridgetest.Connect(t, lab.SharedNATS(t).URL()), bridgetest.NewNamespace()
	clock := scheduler.NewClock(scheduler.System())
	to := &bridgetest.Taken{Pushes: make(chan *scheduler.Push, 1)}
	bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "later." + ns, Accept: to, Clock: clock})
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
		bridgetest.Publish(t, nc, "later."+ns+".orders", "body", c.headers...)
		got := <-to.Pushes
		c.want.Topic, c.want.Body, c.want.By = "orders", []byte("body"), "nats"
		c.want.UID, c.want.Stored, c.want.Age, c.want.Options = got.UID, got.Stored, got.Age, got.Options
		c.want.Since = got.Since // its own test
		if !reflect.DeepEqual(got, &c.want) || got.Stored == 0 || !message.IsUID(string(got.UID)) ||
			(got.Options == "") != (c.want.ID == "" && c.want.Merge == 0) {
			t.Errorf("%v: got %+v\nwant %+v", c.headers, got, c.want)
		}
	}
	bridgetest.Emptied(t, nc, ns)
	if n := bridgetest.StreamState(t, nc, link.RejectsName(ns)).Msgs; n > 0 {
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
	nc, ns := bridgetest.Connect(t, lab.SharedNATS(t).URL()), bridgetest.NewNamespace()
	to := &bridgetest.Taken{Pushes: make(chan *scheduler.Push, 1), Err: fmt.Errorf("replace: %w", why)}
	bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "later." + ns, Accept: to})
	bridgetest.Publish(t, nc, "later."+ns+".orders", "body", "Tarry-At", "1896076800000", "Tarry-Id", "a",
		"Tarry-On-Duplicate", "replace")
	<-to.Pushes
	bridgetest.Emptied(t, nc, ns)
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	m, err := js.GetMsg(link.RejectsName(ns), 1)
	if err != nil || !strings.HasPrefix(m.Header.Get("Tarry-Reason"), word+": ") ||
		m.Header.Get("Tarry-On-Duplicate") != "replace" {
		t.Errorf("got %+v, %v", m, err)
	}
}
