package tarry

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestExample_PrintsALineForEachStoredMessage runs the example as the process that a newcomer pastes.
func TestExample_PrintsALineForEachStoredMessage(t *testing.T) {
	t.Parallel()
	s := newServer(t, "jetstream { store_dir: \""+t.TempDir()+"\" }")
	bin := filepath.Join(t.TempDir(), "example")
	if text, err := exec.CommandContext(
		t.Context(), "go", "build", "-o", bin, "./example").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	in := intake(t, connect(t, s.url))
	for n, args := range [][]string{{"-delay", "2s"}, {"-delay", "2s", "-jetstream"}} {
		cmd := exec.CommandContext(t.Context(), bin,
			append(args, "-count", "3", "-subject", "orders.created", "-id", "run")...)
		cmd.Env = append(cmd.Environ(), "NATS_URL="+s.url)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var l struct {
				ID, Subject, Delay, Stream string
				Sent, Stored               time.Time
			}
			if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
				t.Fatalf("%v in %s", err, lines.Text())
			}
			if l.Subject != "orders.created" || l.Delay != "2s" || l.Stored.Before(l.Sent) ||
				(l.Stream != "") != (n == 1) {
				t.Errorf("got %s", lines.Text())
			}
			ids = append(ids, l.ID)
		}
		if err := cmd.Wait(); err != nil || len(ids) != 3 || ids[0] != "run-1" || ids[2] != "run-3" {
			t.Fatalf("%v after %v", err, ids)
		}
	}
	list := stored(t, in)
	if len(list) != 6 {
		t.Fatalf("%d stored, want 6", len(list))
	}
	for _, m := range list {
		if m.Subject != "delayed.orders.created" || m.Header.Get("Tarry-Delay") != "2s" ||
			m.Header.Get("Content-Type") != "application/json" {
			t.Errorf("got %q %v", m.Subject, m.Header)
		}
	}
}
