package short_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestDevDeliversAMessageThatTheCommandLinePushed(t *testing.T) {
	t.Parallel()
	d := site.StartDev(t, "dev")
	d.Ready(t)
	nc, err := nats.Connect("nats://" + d.Nats)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	got, err := nc.SubscribeSync("orders.remind")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}

	begun := time.Now()
	out, code := d.Cli(t, "push", "orders.remind", "--delay", "700ms", "--body", "order 7131", "--id", "order-7131",
		"--header", "kind=basket", "--json")
	var pushed struct{ ID, State string }
	if err := json.Unmarshal([]byte(out), &pushed); err != nil || code != 0 || pushed.ID != "order-7131" ||
		pushed.State != "waiting" {
		t.Fatalf("push: %d %s (%v)", code, out, err)
	}
	m, err := got.NextMsg(site.Patience)
	if err != nil {
		t.Fatal(err)
	}
	if early := time.Until(begun.Add(700 * time.Millisecond)); early > 0 {
		t.Errorf("it came %s early", early)
	}
	if string(m.Data) != "order 7131" || m.Header.Get("kind") != "basket" || m.Header.Get("Tarry-Id") != "order-7131" {
		t.Errorf("got %q %v", m.Data, m.Header)
	}

	// A push by tag that is refused is shown: its producer received a PubAck.
	bad := nats.NewMsg("delayed.orders.remind")
	bad.Header["Tarry-Delay"] = []string{"soon"}
	site.PublishStored(t, nc, bad)
	d.WaitLog(`refused on "delayed.orders.remind": "invalid_delay: `)

	// What arrives on the demo subjects is shown to the newcomer.
	if out, code := d.Cli(t, "push", "demo.hello", "--delay", "1ms", "--body", "hello newcomer"); code != 0 {
		t.Errorf("push: %d %s", code, out)
	}
	d.WaitLog("hello newcomer")
	// Canceled, unknown, delivered: each has its exit code.
	if out, code := d.Cli(t, "push", "orders.remind", "--delay", "1h", "--id", "order-7132"); code != 0 {
		t.Errorf("push: %d %s", code, out)
	}
	for _, c := range []struct {
		id   string
		code int
	}{{"order-7132", 0}, {"order-7132", 0}, {"order-0", 3}, {"order-7131", 4}} {
		if out, code := d.Cli(t, "cancel", c.id); code != c.code {
			t.Errorf("cancel %s: %d %s, want %d", c.id, code, out, c.code)
		}
	}
	for _, said := range []string{"http://" + d.Addr, d.Nats, "tarry push", "tarry get", "tarry cancel",
		"are kept in memory"} {
		if !strings.Contains(d.Log(), said) {
			t.Errorf("it does not say %q: %s", said, d.Log())
		}
	}

	if out, code := d.Cli(t, "push", "orders.remind", "--delay", "1h"); code != 0 {
		t.Errorf("push: %d %s", code, out)
	}
	begun = time.Now()
	d.Signal(syscall.SIGINT)
	if code := d.Wait(10 * time.Second); code != 0 {
		t.Errorf("Ctrl-C: it ended with %d", code)
	}
	t.Logf("Ctrl-C took %s", time.Since(begun).Round(time.Millisecond))
	if log := d.Log(); !strings.Contains(log, `"messages":1,`) || !strings.Contains(log, "--data DIR keeps it") {
		t.Errorf("it does not say what was lost: %s", log)
	}
}

// What a killed one left behind in the folder for temporary files, the next one removes.
func TestDevRemovesWhatAKilledOneLeft(t *testing.T) {
	t.Parallel()
	d := site.StartDev(t, "killed")
	d.Ready(t)
	_, dir, _ := strings.Cut(d.Log(), "files in ")
	dir, _, _ = strings.Cut(dir, " ")
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	d.Kill()
	site.StartDev(t, "next").Ready(t)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", dir, err)
	}
	// What somebody named is kept, whatever it is called.
	kept, err := os.MkdirTemp("", "tarry-dev-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(kept) })
	if err := os.WriteFile(filepath.Join(kept, "temporary"), nil, 0o600); err != nil { // as of one that was killed
		t.Fatal(err)
	}
	k := site.StartDev(t, "kept", "--data", kept)
	k.Ready(t)
	if out, code := k.Cli(t, "push", "orders.remind", "--delay", "1h", "--id", "kept"); code != 0 {
		t.Errorf("push: %d %s", code, out)
	}
	k.Kill()
	site.StartDev(t, "another").Ready(t)
	k = site.StartDev(t, "kept-again", "--data", kept)
	k.Ready(t)
	if out, code := k.Cli(t, "get", "kept"); code != 0 {
		t.Errorf("get: %d %s", code, out)
	}
}

// SIGHUP takes over the tokens, and what is refused leaves the old ones.
func TestDevLoadsItsSettingsAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one := func(token string) string {
		return fmt.Sprintf("tokens: [{name: one, sha256: %x, read: true}]\n", sha256.Sum256([]byte(token)))
	}
	write(one("the-first-of-the-tokens"))
	d := site.StartDev(t, "dev-again", "--http.tokens_file", file)
	d.Ready(t)
	says := func(token string, want int) {
		t.Helper()
		if out, code := d.Cli(t, "get", "nobody", "--token", token); code != want {
			t.Errorf("%s: %d %s, want %d", token, code, out, want)
		}
	}
	says("the-first-of-the-tokens", 3)
	write("tokens: [{name: one}]\n")
	d.Signal(syscall.SIGHUP)
	d.WaitLog("settings were not reloaded")
	says("the-first-of-the-tokens", 3)
	write(one("the-second-of-the-tokens"))
	d.Signal(syscall.SIGHUP)
	d.WaitLog("settings loaded again")
	says("the-first-of-the-tokens", 1)
	says("the-second-of-the-tokens", 3)
	d.Signal(syscall.SIGTERM)
	if code := d.Wait(10 * time.Second); code != 0 {
		t.Errorf("it ended with %d", code)
	}
}

func TestDevKeepsItsDirectoryToItself(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	first := site.StartDev(t, "first", "--data", data)
	first.Ready(t)
	second := site.StartDev(t, "second", "--data", data)
	if code := second.Wait(site.Patience); code == 0 || code == -1 {
		t.Errorf("a second one ended with %d", code)
	}
	if !strings.Contains(second.Log(), filepath.Base(data)) || !strings.Contains(second.Log(), "data") {
		t.Errorf("it does not name the directory: %s", second.Log())
	}
	first.Ready(t) // and has no harm from it
	if out, code := first.Cli(t, "push", "demo.x", "--delay", "1h"); code != 0 {
		t.Errorf("push: %d %s", code, out)
	}
	first.Kill() // without a chance to clean up
	third := site.StartDev(t, "third", "--data", data)
	third.Ready(t)
}

func TestASecondSignalEndsAnInstanceAtOnce(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	a := s.Start("a", "TARRY_STOP_TIMEOUT=1m")
	// A request that never ends holds up a graceful stop.
	conn, err := net.Dial("tcp", a.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+
		"%s\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", site.HTTPToken); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, site.Patience, func() error { // the request is being read
		_, err := a.Call(t.Context(), http.MethodGet, "/livez", nil)
		return err
	})
	a.Signal(syscall.SIGTERM)
	lab.Eventually(t, site.Patience, func() error { // it has begun to stop
		if conn, err := net.DialTimeout("tcp", a.Addr, time.Second); err == nil {
			conn.Close()
			return errors.New("it still listens")
		}
		return nil
	})
	if !a.Running() {
		t.Fatalf("the open request did not hold it up: %s", a.Log())
	}
	begun := time.Now()
	a.Signal(syscall.SIGTERM)
	if code := a.Wait(5 * time.Second); code == 0 {
		t.Error("the second signal ended it with 0, as if all was given back")
	}
	t.Logf("the second signal took %s", time.Since(begun).Round(time.Millisecond))
}
