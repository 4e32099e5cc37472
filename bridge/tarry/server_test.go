package tarry

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The tests run against a real nats-server: the one that TARRY_NATS_SERVER names, else the version the daemon's module
// requires, built once per run. Without one they fail; only -short skips them.
var (
	binary string
	shared *natsServer
	users  atomic.Int64

	daemonBuilt  sync.Once
	daemonBinary string // where it goes
	daemonError  error
)

// accounts is how many tests can have the shared server to themselves.
const accounts = 150

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	flag.Parse()
	if testing.Short() {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "tarry-lib")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a directory:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	daemonBinary = filepath.Join(dir, "tarry")
	if binary = os.Getenv("TARRY_NATS_SERVER"); binary == "" {
		binary = filepath.Join(dir, "nats-server")
		build := exec.Command("go", "-C", "../..", "build", "-o", binary, "github.com/nats-io/nats-server/v2")
		build.Env = append(build.Environ(), "CGO_ENABLED=0") // as it is released
		if text, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr,
				"no nats-server: set TARRY_NATS_SERVER, or run the tests in tarry's repository: %v\n%s", err, text)
			return 1
		}
	}
	var conf strings.Builder
	conf.WriteString("jetstream { store_dir: \"" + filepath.Join(dir, "shared") +
		"\" }\nmax_payload: 1MB\naccounts {\n")
	for n := range accounts {
		fmt.Fprintf(&conf, "  A%d { jetstream: enabled, users: [{user: u%d, password: p}] }\n", n, n)
	}
	conf.WriteString("  OFF { users: [{user: without, password: p}] }\n}\n")
	if shared, err = startServer(filepath.Join(dir, "conf"), conf.String()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer shared.stop()
	return m.Run()
}

// natsServer is a running process.
type natsServer struct {
	url  string
	addr string
	cmd  *exec.Cmd
	done chan struct{}
}

// startServer starts a process on a free port and waits until it says that it is ready.
func startServer(dir, conf string) (*natsServer, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "nats.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, "-c", file, "-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", dir)
	out, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start nats-server: %w", err)
	}
	s := &natsServer{cmd: cmd, done: make(chan struct{})}
	ready := make(chan string, 1)
	go func() { // ends with the process, which stop waits for
		defer close(s.done)
		var last []string
		for lines := bufio.NewScanner(out); lines.Scan(); {
			last = append(last[max(0, len(last)-20):], lines.Text())
			if strings.Contains(lines.Text(), "Server is ready") {
				select {
				case ready <- "":
				default:
				}
			}
		}
		_ = cmd.Wait()
		select {
		case ready <- strings.Join(last, "\n"):
		default:
		}
	}()
	select {
	case said := <-ready:
		if said != "" {
			return nil, fmt.Errorf("nats-server ended:\n%s", said)
		}
	case <-time.After(30 * time.Second):
		s.stop()
		return nil, errors.New("nats-server is not ready after 30 s")
	}
	if err := s.findPort(dir); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// findPort reads the file in which the server says where it listens, soon after it is ready.
func (s *natsServer) findPort(dir string) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(10 * time.Second)
	for {
		names, err := filepath.Glob(filepath.Join(dir, "*.ports"))
		if err == nil && len(names) == 1 {
			var text []byte
			if text, err = os.ReadFile(names[0]); err == nil {
				var ports struct{ Nats []string }
				if err = json.Unmarshal(text, &ports); err == nil && len(ports.Nats) > 0 {
					s.url, s.addr = ports.Nats[0], strings.TrimPrefix(ports.Nats[0], "nats://")
					return nil
				}
			}
		}
		select {
		case <-tick.C:
		case <-limit:
			return fmt.Errorf("nats-server does not say where it listens: %d files, %v", len(names), err)
		}
	}
}

func (s *natsServer) stop() {
	_ = s.cmd.Process.Kill()
	<-s.done
}

// needs skips the test in short mode and names what it needs.
func needs(t *testing.T, what string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("needs %s: run without -short", what)
	}
}

// newServer starts a server for one test.
func newServer(t *testing.T, conf string) *natsServer {
	t.Helper()
	needs(t, "nats-server")
	s, err := startServer(t.TempDir(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

// account connects to an account of its own on the shared server, JetStream on and nothing in it. The second result
// makes further connections to the same account.
func account(t *testing.T) (*nats.Conn, func(...nats.Option) *nats.Conn) {
	t.Helper()
	needs(t, "nats-server")
	n := users.Add(1) - 1
	if n >= accounts {
		t.Fatalf("more than %d tests want an account", accounts)
	}
	more := func(opts ...nats.Option) *nats.Conn {
		t.Helper()
		return connect(t, shared.url, append(opts, nats.UserInfo(fmt.Sprintf("u%d", n), "p"))...)
	}
	return more(), more
}

func connect(t *testing.T, url string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// intake makes the stream that tarry makes, and returns a way to read what it holds.
func intake(t *testing.T, nc *nats.Conn) jetstream.Stream {
	t.Helper()
	return stream(t, nc, jetstream.StreamConfig{
		Name: "TARRY_default", Subjects: []string{"delayed.>"}, Retention: jetstream.WorkQueuePolicy,
		Discard: jetstream.DiscardNew,
	})
}

func stream(t *testing.T, nc *nats.Conn, conf jetstream.StreamConfig) jetstream.Stream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.CreateStream(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// stored returns the messages of a stream in order.
func stored(t *testing.T, s jetstream.Stream) []*jetstream.RawStreamMsg {
	t.Helper()
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var list []*jetstream.RawStreamMsg
	for seq := info.State.FirstSeq; seq != 0 && seq <= info.State.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}

// one returns the single message of a stream.
func one(t *testing.T, s jetstream.Stream) *jetstream.RawStreamMsg {
	t.Helper()
	list := stored(t, s)
	if len(list) != 1 {
		t.Fatalf("the stream holds %d messages, want 1", len(list))
	}
	return list[0]
}

func wrap(t *testing.T, nc *nats.Conn, opts ...Option) *Conn {
	t.Helper()
	c, err := Wrap(nc, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// patient are the options of a test that counts requests of much, which a busy machine may take long to answer.
func patient() []Option { return []Option{WithTimeout(time.Minute), WithAckWait(20 * time.Second)} }

func wrapJS(t *testing.T, nc *nats.Conn, opts ...Option) *JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	w, err := WrapJetStream(js, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// message builds one with headers given as name, value, name, value.
func message(subject, body string, headers ...string) *nats.Msg {
	m := &nats.Msg{Subject: subject, Data: []byte(body)}
	for i := 0; i < len(headers); i += 2 {
		if m.Header == nil {
			m.Header = nats.Header{}
		}
		m.Header[headers[i]] = append(m.Header[headers[i]], headers[i+1])
	}
	return m
}

// isFresh reports whether a Nats-Msg-Id is one that this package made.
func isFresh(id string) bool {
	group, rest, found := strings.Cut(id, ".")
	return found && group != "" && len(rest) == 22
}

// eventually polls until check is satisfied and reports the last reason when it never is.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("still: %v", err)
		}
	}
}

func wantRefused(t *testing.T, err error, word, field string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Word != word || e.Field != field {
		t.Fatalf("got %v (%#v), want a refusal %s of %q", err, err, word, field)
	}
}
