package short_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// One command says where a message is, whatever became of it.
func TestWhySaysWhereAMessageIs(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	file := filepath.Join(t.TempDir(), "tarry.yaml")
	hookFile(t, file, h.topic("hook", "/in"), "{pattern: 'pull.*', deliver: pull}",
		"{pattern: serial, deliver: pull, serial: true}")
	d := site.StartDev(t, "why", "--data", t.TempDir(), "--config", file)
	d.Ready(t)
	push := func(topic, id string, more fields) {
		t.Helper()
		m := fields{"topic": topic, "id": id, "delay": "0", "body": "b"}
		for name, value := range more {
			m[name] = value
		}
		if a, err := d.Call(t.Context(), http.MethodPost, "/v1/messages", m); err != nil || a.Status != http.StatusCreated {
			t.Fatalf("push: %d %s, %v", a.Status, a.Raw, err)
		}
	}
	says := func(code int, want string, args ...string) (out string) {
		t.Helper()
		lab.Eventually(t, site.Patience, func() error {
			var got int
			if out, got = d.Cli(t, append([]string{"why"}, args...)...); got != code || !strings.Contains(out, want) {
				return fmt.Errorf("why %q: exit %d, want %d with %q:\n%s", args, got, code, want, out)
			}
			return nil
		})
		return out
	}
	if out, code := d.Cli(t, "topics", "pause", "held.>"); code != 0 {
		t.Fatal(out)
	}
	push("later.x", "later", fields{"delay": "1h"})
	push("nobody.listens", "unheard", nil)
	push("held.x", "held", nil)
	push("pull.x", "ready", fields{"key": "customer"})
	push("pull.x", "dropped", nil)
	push("hook", "hooked", nil)
	push("serial", "first", fields{"key": "one"})
	push("serial", "second", fields{"key": "one"})
	if out, code := d.Cli(t, "cancel", "dropped"); code != 0 {
		t.Fatal(out)
	}
	nc, err := nats.Connect("nats://" + d.Nats)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	m := nats.NewMsg("delayed.bad.x")
	m.Header.Set("Tarry-Delay", "tomorrow")
	m.Header.Set("Tarry-Id", "refused")
	if _, err := nc.RequestMsg(m, site.Patience); err != nil { // NATS acknowledges it to its producer
		t.Fatal(err)
	}

	says(0, "not_due: ", "later")
	says(0, "no_listener: nobody listens on nobody.listens", "unheard")
	says(0, "paused: held.> is paused", "held")
	says(0, "unpulled: ", "ready")
	says(0, "canceled", "dropped")
	says(0, "delivered", "hooked")
	says(0, "rejected: ", "refused")
	says(0, "behind_key: ", "second")
	if out := says(3, "nothing was found", "never-pushed"); !strings.Contains(out,
		"looked at store: 1, all; journal: 0, all; rejects: 0, all; intake: 0, all; aside: 0, all") {
		t.Errorf("it does not say how far it looked: %s", out)
	}
	if out, code := d.Cli(t, "pull", "serial", "--consumer", "worker"); code != 0 {
		t.Fatal(out)
	}
	says(0, "leased: a consumer has it", "first")
	if out := says(0, "ready", "--topic", "pull.x", "--key", "customer"); strings.Contains(out, "dropped") {
		t.Errorf("of a topic and key: %s", out)
	}
	if out := says(0, "second", "--topic", "serial"); !strings.Contains(out, "first") || strings.Contains(out, "later") {
		t.Errorf("of a topic: %s", out)
	}
	says(0, "ready", "--key", "customer")
	says(2, "one of id, topic and key is needed")
}
