package intake_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// A merging push says since when the stream counts as it does, also after the stream was removed.
func TestIntake_SaysSinceWhenSequencesTellTheOrder(t *testing.T) {
	t.Parallel()
	nc, ns := bridgetest.Connect(t, lab.SharedNATS(t).URL()), bridgetest.NewNamespace()
	to := &bridgetest.Taken{Pushes: make(chan *scheduler.Push, 10)}
	in := bridgetest.IntakeOn(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "later." + ns, Accept: to,
		Clock: scheduler.NewClock(scheduler.System())})
	bridgetest.RunFor(t, in.Run)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	push := func() *scheduler.Push {
		t.Helper()
		lab.Eventually(t, 20*time.Second, func() error {
			_, err := js.Consumer(t.Context(), link.StreamName(ns), "tarry")
			return err
		})
		bridgetest.Publish(t, nc, "later."+ns+".a", "x", "Tarry-Delay", "1h", "Tarry-Id", "a", "Tarry-On-Duplicate",
			"replace")
		return <-to.Pushes
	}
	before := push()
	since, stored := before.Since.Time(), before.UID.Time()
	if since.After(stored) || since.Before(stored.Add(-message.Nearby)) {
		t.Errorf("sequences tell the order since %s, and the push was stored at %s", since, stored)
	}
	if err := js.DeleteStream(t.Context(), link.StreamName(ns)); err != nil {
		t.Fatal(err)
	}
	if after := push(); after.Since <= before.Since || after.Since.Time().Before(before.UID.Time()) {
		t.Errorf("the stream was made anew, and sequences tell the order since %s, before %s", after.Since.Time(),
			before.UID.Time())
	}
}
