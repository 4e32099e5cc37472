package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// An instance on one machine grows into two that share servers: what waits, what is dead, every name, the pauses and
// what its intake still held come along, and nothing is delivered twice.
func TestOneMachineMovesToTwoInstances(t *testing.T) {
	t.Parallel()
	const many, named, canceled, stranded = 10_000, 2000, 20, 10
	data := t.TempDir()
	d := serveLocal(t, "one", data)
	d.Ready(t)
	post := func(on *site.Instance, path string, body any, want int) site.Answer {
		t.Helper()
		// A push without an id cannot be asked again when its answer is lost, so each is waited for.
		ctx, stop := context.WithTimeout(t.Context(), site.Patience)
		defer stop()
		a, err := on.Sure(ctx, http.MethodPost, path, body, site.Slow...)
		if err != nil || a.Status != want {
			t.Fatalf("%s: %d %.300s %v", path, a.Status, a.Raw, err)
		}
		return a
	}
	message := func(i int) map[string]any {
		m := map[string]any{"topic": "move.many", "delay": "2h", "body": fmt.Sprintf("body %d", i),
			"headers": map[string]string{site.SeqHeader: strconv.Itoa(i)}}
		if i < named {
			m["id"] = fmt.Sprintf("named %d", i)
		}
		return m
	}
	for from := 0; from < many; from += 500 {
		var batch []map[string]any
		for i := from; i < from+500; i++ {
			batch = append(batch, message(i))
		}
		lab.Eventually(t, site.Patience, func() error { // a commit may take longer than a call here
			a := post(d.Instance, "/v1/messages/batch", map[string]any{"messages": batch}, http.StatusOK)
			var again []map[string]any
			for i, r := range a.Results {
				if r.Error != "" {
					if r.ID != "" {
						batch[i]["id"] = r.ID // the name, or the uid that makes it the same push
					}
					again = append(again, batch[i])
				}
			}
			if batch = again; len(batch) > 0 {
				return fmt.Errorf("%d pushes are open: %s", len(batch), a.Raw[:min(len(a.Raw), 300)])
			}
			return nil
		})
	}
	for i := range canceled {
		a, err := d.Sure(t.Context(), http.MethodDelete, fmt.Sprintf("/v1/messages/named%%20%d", i), nil, site.Slow...)
		if err != nil || a.State != "canceled" {
			t.Fatalf("cancel: %d %s %v", a.Status, a.Raw, err)
		}
	}
	dead := map[string]any{"topic": "move.dead", "id": "corpse", "body": "x", "attempt": 3, "retry": "1s",
		"reason": "it failed"}
	post(d.Instance, "/v1/messages", dead, http.StatusCreated)
	post(d.Instance, "/v1/topics/move.held/pause", nil, http.StatusOK)
	post(d.Instance, "/v1/messages", map[string]any{"topic": "move.held", "delay": "1s", "body": "held",
		"headers": map[string]string{site.SeqHeader: "held"}}, http.StatusCreated)
	d.Stop()

	// Pushes that nobody accepted, and a reject.
	old := lab.NewNATS(t, lab.NoJetStream(),
		lab.NATSConfig(fmt.Sprintf("jetstream { store_dir: %q }", filepath.Join(data, "jetstream"))))
	nc, err := nats.Connect(old.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js := site.OpenJetStream(t, nc)
	publish := func(subject string, header nats.Header) {
		t.Helper()
		lab.Eventually(t, site.Patience, func() error { // JetStream may not be up yet
			_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: header, Data: []byte("by tag")})
			return err
		})
	}
	for i := range stranded {
		publish("delayed.move.tag", nats.Header{"Tarry-Delay": {"1s"}, site.SeqHeader: {fmt.Sprint("tag ", i)},
			"Nats-Msg-Id": {fmt.Sprint("stranded ", i)}})
	}
	publish("tarry.default.rejected.move", nats.Header{"Tarry-Reason": {"invalid_delay: x"},
		"Tarry-Subject": {"delayed.move.x"}, "Nats-Msg-Id": {"rejected"}})
	nc.Close()
	old.Stop()

	s := site.New(t, site.Options{Zk: true})
	s.Ns = "default"
	s.Journal("sync", lab.SharedMariaDB(t))
	dsn := ""
	for _, setting := range s.Settings {
		if value, ok := strings.CutPrefix(setting, "TARRY_JOURNAL_DSN="); ok {
			dsn = value
		}
	}
	migrate := func(args ...string) (string, int) {
		t.Helper()
		ctx, stop := context.WithTimeout(t.Context(), site.Patience)
		defer stop()
		cmd := exec.CommandContext(ctx, s.Binary,
			append([]string{"migrate", "--data", data, "--from", "sqlite:" + filepath.Join(data, "journal.db"),
				"--journal.dsn", dsn, "--nats.url", s.Nats.URL(), "--nats.user", site.NATSUser, "--nats.password",
				site.NATSPassword}, args...)...)
		text, err := cmd.CombinedOutput()
		if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(text), cmd.ProcessState.ExitCode()
	}
	if out, code := migrate(); code != 1 ||
		!strings.Contains(out, fmt.Sprintf("%d pushes in the intake and 1 rejects", stranded)) ||
		!strings.Contains(out, "--carry") {
		t.Fatalf("it ended with %d: %s", code, out)
	}
	for i, carried := range []string{fmt.Sprintf("%d pushes of the intake (0 more had been accepted), 1 rejects",
		stranded), "0 pushes of the intake (0 more had been accepted), 0 rejects"} {
		out, code := migrate("--carry")
		for _, word := range []string{"10002 messages", "20 canceled", "1 dead", "1 pauses", carried, "empty Redis"} {
			if code != 0 || !strings.Contains(out, word) {
				t.Fatalf("time %d: it ended with %d and does not say %q: %s", i+1, code, word, out)
			}
		}
		if strings.Contains(out, site.NATSPassword) || strings.Contains(out, dsn) {
			t.Errorf("it shows a secret: %s", out)
		}
	}

	after := s.Connect("after")
	stream, err := site.OpenJetStream(t, after).CreateStream(t.Context(),
		jetstream.StreamConfig{Name: "MOVE", Subjects: []string{"move.>"}})
	if err != nil {
		t.Fatal(err)
	}
	a, b := s.Start("a"), s.Start("b")
	s.Leader(0, a, b)
	post(a, "/v1/messages", message(canceled), http.StatusOK)         // the same again: a duplicate
	post(b, "/v1/messages", message(canceled-1), http.StatusConflict) // it was canceled
	// one commit that takes too long ends the work on many
	lab.Eventually(t, site.PatienceForMany, func() error {
		out, code := s.CliWithin(site.PatienceForMany, a, "reschedule", "--all", "--topic", "move.many", "--delay", "1s")
		if code != 0 {
			return fmt.Errorf("exit code %d: %s", code, out)
		}
		return nil
	})
	if got := s.Must(b, http.MethodGet, "/v1/dead", nil); !strings.Contains(got.Raw, `"corpse"`) {
		t.Errorf("the dead are %s", got.Raw)
	}
	wait := func(want uint64) {
		t.Helper()
		lab.Eventually(t, site.Patience, func() error {
			info, err := stream.Info(t.Context())
			if err == nil && info.State.Msgs != want {
				err = fmt.Errorf("%d of %d messages came", info.State.Msgs, want)
			}
			return err
		})
	}
	wait(many - canceled + stranded)
	post(b, "/v1/topics/move.held/resume", nil, http.StatusOK)
	wait(many - canceled + stranded + 1)

	seen := map[string]bool{}
	batch, err := func() (jetstream.MessageBatch, error) {
		c, err := stream.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
		if err != nil {
			return nil, err
		}
		return c.Fetch(many-canceled+stranded+1, jetstream.FetchMaxWait(site.Patience))
	}()
	if err != nil {
		t.Fatal(err)
	}
	for m := range batch.Messages() {
		seq := m.Headers().Get(site.SeqHeader)
		if seen[seq] {
			t.Errorf("message %s came twice", seq)
		}
		seen[seq] = true
		if i, err := strconv.Atoi(seq); err == nil && (string(m.Data()) != fmt.Sprintf("body %d", i) || i < canceled) {
			t.Errorf("message %d came with %q", i, m.Data())
		}
	}
	if len(seen) != many-canceled+stranded+1 {
		t.Errorf("%d different messages came", len(seen))
	}
}
