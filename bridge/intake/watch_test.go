package intake_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// A nats-server that comes back with the stream as it was before, and with the consumer as it became after: so may one
// of 2.9 that was killed, or one whose files are of a backup. The consumer counts as handed out what is still to come.
func TestIntake_TakesWhatComesAfterNATSCameBackWithAnOlderStream(t *testing.T) {
	t.Parallel()
	const before, lost = 5, 10
	for name, c := range map[string]struct {
		running bool // an instance, while the server comes back
		pushes  int  // after that
	}{
		"as one comes":                        {running: true, pushes: 1},
		"as more came than were lost":         {pushes: 2 * lost},
		"as all came before an instance came": {pushes: lost / 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, timeline := lab.NewNATS(t, lab.NATS29()), bridgetest.NewTimeline(t)
			log, registry := &bridgetest.LogBuffer{}, prometheus.NewRegistry()
			nc, ns := bridgetest.Connect(t, server.URL()), bridgetest.NewNamespace()
			cfg := intake.Config{Conn: nc, Namespace: ns, Prefix: "delayed",
				Accept: bridgetest.Scheduling(t, nc, timeline), Log: log.Logger(), Registerer: registry}
			push := func(count int) {
				t.Helper()
				for range count {
					bridgetest.Publish(t, nc, "delayed.a", "x", "Tarry-Delay", "1h")
				}
			}
			back := func() {
				t.Helper()
				server.Restart()
				lab.Eventually(t, 15*time.Second, func() error { return nc.FlushTimeout(time.Second) })
			}
			first := cfg
			first.Registerer = nil
			run, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			in := bridgetest.IntakeOn(t, first)
			bridgetest.StreamOf(t, nc, jetstream.StreamConfig{Name: link.StreamName(ns), Subjects: []string{"delayed.>"},
				Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew})
			push(before)
			server.Stop()
			stream := filepath.Join(server.Dir(), "store", "jetstream", "$G", "streams", link.StreamName(ns))
			messages := filepath.Join(stream, "msgs")
			kept := filepath.Join(t.TempDir(), "msgs")
			if err := os.CopyFS(kept, os.DirFS(messages)); err != nil {
				t.Fatal(err)
			}
			back()
			go func() { ended <- in.Run(run) }()
			push(lost)
			bridgetest.Emptied(t, nc, ns)
			stop()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			// The consumer's state is kept too: a server that stops while it writes it may leave an older one.
			consumer, state := filepath.Join(stream, "obs", "tarry", "o.dat"), []byte(nil)
			lab.Eventually(t, 15*time.Second, func() error {
				var err error
				state, err = os.ReadFile(consumer)
				if err == nil && (len(state) < 4 || state[3] != before+lost) { // all up to it are acknowledged
					err = fmt.Errorf("the consumer's state is %v", state)
				}
				return err
			})
			if c.running {
				bridgetest.Taking(t, cfg)
			}
			server.Stop()
			if err := errors.Join(os.RemoveAll(messages), os.CopyFS(messages, os.DirFS(kept)),
				os.WriteFile(consumer, state, 0o600)); err != nil {
				t.Fatal(err)
			}
			back()
			push(c.pushes)
			if !c.running {
				bridgetest.Taking(t, cfg)
			}
			lab.Eventually(t, 40*time.Second, func() error {
				if n, want := bridgetest.Waiting(t, timeline), before+lost+c.pushes; n != want {
					return fmt.Errorf("%d messages wait, want %d", n, want)
				}
				return nil
			})
			bridgetest.Emptied(t, nc, ns)
			if n := log.Count("older than the intake's consumer"); n != 1 {
				t.Errorf("it says so %d times", n)
			}
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			renewed := 0.0
			for _, f := range families {
				if f.GetName() == "tarry_intake_consumer_renewed_total" {
					renewed = f.GetMetric()[0].GetCounter().GetValue()
				}
			}
			if renewed != 1 {
				t.Errorf("%v consumers are counted", renewed)
			}
		})
	}
}
