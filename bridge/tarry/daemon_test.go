package tarry

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestClient_AgainstTheDaemon makes every call of this package to a tarry that was built from the source beside it,
// over the NATS that tarry dev brings: what the scripted instances of the other tests say is what it says itself.
func TestClient_AgainstTheDaemon(t *testing.T) {
	t.Parallel()
	needDaemon(t)
	d := startDev(t, `
namespace: shop
topics:
  - {pattern: scheduled.>, retry: 20ms, dead: graves.scheduled}
  - {pattern: untagged.>, retry: "20ms,30ms", dead: graves.untagged}
`)
	t.Run("calls", func(t *testing.T) { // returns when all of them have ended
		for name, test := range map[string]func(*testing.T, *dev){
			"publishing by tag":         publishByTag,
			"publishing with JetStream": publishWithJetStream,
			"a batch":                   pushBatch,
			"gathering":                 gatherPushes,
			"gathering acks":            gatherAcks,
			"merging":                   mergeByName,
			"looking up":                lookUp,
			"changing":                  changeWaiting,
			"canceling":                 cancelAndTell,
			"in flight":                 cancelInFlight,
			"bad input":                 refuseBadInput,
			"many":                      changeMany,
			"a schedule of retries":     retryUntilDead,
			"a topic's schedule":        retryByTopic,
			"a delay of its own":        retryByDelay,
			"untagged":                  retryUntagged,
			"your own push":             readOwnPush,
			"pull":                      pullAndSettle,
			"consume":                   consume,
			"stopping":                  stopInOrder,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, d)
			})
		}
	})
}

// dev is a running tarry dev.
type dev struct {
	nats, http string
	kill       func() // with SIGKILL
}

// greeting is where tarry dev says that it listens.
var greeting = regexp.MustCompile(`tarry dev: HTTP (\S+), NATS (\S+),`)

// startDev runs tarry dev until the test ends.
func startDev(t *testing.T, settings string, flags ...string) *dev {
	t.Helper()
	bin, file := builtDaemon(t), filepath.Join(t.TempDir(), "tarry.yaml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, append([]string{"dev", "--config", file, "--http.listen", "127.0.0.1:0", "--nats.listen",
		"127.0.0.1:0", "--log.level", "warn"}, flags...)...)
	log := &tail{}
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found, ended, killed := make(chan *dev, 1), make(chan struct{}), false
	go func() { // ends with the process, which the clean-up waits for
		defer close(ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if m := greeting.FindStringSubmatch(lines.Text()); m != nil {
				found <- &dev{http: m[1], nats: m[2]}
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		<-ended
		if err := cmd.Wait(); err != nil && !killed {
			t.Errorf("tarry dev ended with %v", err)
		}
		kill.Stop()
		if t.Failed() {
			t.Log(log)
		}
	})
	select {
	case d := <-found:
		d.kill = func() {
			killed = true
			_ = cmd.Process.Kill()
			<-ended
		}
		d.ready(t)
		return d
	case <-ended:
		t.Fatalf("tarry dev does not start: %s", log)
	case <-time.After(30 * time.Second):
		t.Fatalf("tarry dev says not where it listens: %s", log)
	}
	return nil
}

// builtDaemon builds tarry, once for all tests.
func builtDaemon(t *testing.T) string {
	t.Helper()
	needs(t, "a build of tarry")
	daemonBuilt.Do(func() {
		build := append([]string{"-C", "../..", "build", "-o", daemonBinary}, append(race(), "./cmd/tarry")...)
		if text, err := exec.Command("go", build...).CombinedOutput(); err != nil {
			daemonError = fmt.Errorf("build tarry: %w\n%s", err, text)
		}
	})
	if daemonError != nil {
		t.Fatal(daemonError)
	}
	return daemonBinary
}

// race is the flag that this test was built with itself.
func race() []string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-race" && s.Value == "true" {
				return []string{"-race"}
			}
		}
	}
	return nil
}

// tail keeps the end of what a process says.
type tail struct {
	mu   sync.Mutex
	text string
}

func (l *tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(p)
	l.text = l.text[max(0, len(l.text)-8<<10):]
	return len(p), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}

// ready waits until it leads and takes pushes.
func (d *dev) ready(t *testing.T) {
	t.Helper()
	eventually(t, func() error { return d.call(t.Context(), http.MethodGet, "/readyz", "") })
}

// client is a connection of the test's own.
func (d *dev) client(t *testing.T, opts ...Option) *Conn {
	t.Helper()
	return wrap(t, connect(t, d.nats), append(opts, WithNamespace("shop"))...)
}

// listen subscribes and waits until the server knows.
func listen(t *testing.T, c interface {
	SubscribeSync(subject string) (*nats.Subscription, error)
	Flush() error
}, subject string) *nats.Subscription {
	t.Helper()
	sub, err := c.SubscribeSync(subject)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	return sub
}

func next(t *testing.T, sub *nats.Subscription) *nats.Msg {
	t.Helper()
	m, err := sub.NextMsg(10 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// becomes waits until a message is in a state, and returns it.
func becomes(t *testing.T, c *Conn, ref Ref, state State) (m Message) {
	t.Helper()
	eventually(t, func() (err error) {
		if m, err = c.Tarry().Get(t.Context(), ref); err == nil && m.State != state {
			err = fmt.Errorf("%s is %s, not %s", ref.ID, m.State, state)
		}
		return err
	})
	return m
}

// pushed pushes by request, which is done when it is answered.
func pushed(t *testing.T, c *Conn, m *nats.Msg) Stored {
	t.Helper()
	r, err := c.Tarry().Push(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantIs wants one of the errors that programs distinguish, and returns its text.
func wantIs(t *testing.T, err error, target *Error) *Error {
	t.Helper()
	e := new(Error)
	if !errors.Is(err, target) || !errors.As(err, &e) || e.Detail == "" {
		t.Errorf("got %v, want %s", err, target.Word)
	}
	return e
}

func wantWord(t *testing.T, err error, word string) {
	t.Helper()
	wantIs(t, err, &Error{Word: word})
}

// publishByTag publishes both ways, with a delay and with a time, and gets at the due time what was sent.
func publishByTag(t *testing.T, d *dev) {
	conn, err := Connect(d.nats)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	wantRefusedRequests(t, conn)
	for way, c := range map[string]*Conn{
		"door":        d.client(t),
		"only.stream": d.client(t, WithRoute(ByStream), WithPrefix("delayed")),
		"request":     d.client(t, WithRoute(ByRequest), WithTimeout(5*time.Second), WithAckWait(time.Second)),
	} {
		subject := "tagged." + way
		sub := listen(t, c, subject)
		start := time.Now()
		at := start.Add(300 * time.Millisecond)
		send := func(m *nats.Msg) {
			t.Helper()
			if err := c.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
		send(Tag(message(subject, "delayed", "X", "1", "X", "2"), In(300*time.Millisecond), As(way+"-delayed")))
		send(Tag(message(subject, "timed"), At(at), As(way+"-timed"), Key("k"), Retries("1m")))
		send(Tag(message(subject, "first"), At(at), As(way+"-first"), Priority(9), TTL(time.Hour)))
		r := pushed(t, c, Tag(message(subject, "later"), In(time.Hour), As(way+"-later")))
		if byStream := strings.HasSuffix(way, "stream"); r.ID != way+"-later" || r.Duplicate ||
			r.Merged || byStream != (r.Stream == "TARRY_shop" && r.Sequence > 0) ||
			byStream != (r.Route == ByStream && r.Durable == "stream") || !byStream && r.Durable != "memory" ||
			byStream == (r.UID != "" && r.Due.After(start.Add(59*time.Minute))) {
			t.Errorf("%s: got %+v", way, r)
		}
		for range 3 {
			m := next(t, sub)
			if early := time.Until(at); early > 0 {
				t.Errorf("%s came %s early", m.Data, early)
			}
			h := m.Header
			if h.Get(HeaderID) != way+"-"+string(m.Data) || Attempt(h) != 1 || h.Get(nats.MsgIdHdr) == "" ||
				has(h, HeaderDelay) || has(h, HeaderAt) || has(h, HeaderPriority) || has(h, HeaderTTL) {
				t.Errorf("%s came with %v", m.Data, h)
			}
			switch string(m.Data) {
			case "delayed":
				if got := h["X"]; len(got) != 2 || got[0] != "1" || got[1] != "2" {
					t.Errorf("it came with %v", h)
				}
			case "timed":
				if h.Get(HeaderKey) != "k" || h.Get(HeaderRetry) != "1m" ||
					h.Get(HeaderDue) != fmt.Sprint(at.Add(time.Millisecond-1).UnixMilli()) {
					t.Errorf("it came with %v, due %v", h, at)
				}
			}
		}
	}
}

func wantRefusedRequests(t *testing.T, c *Conn) {
	t.Helper()
	m := Tag(message("tagged.ask", "x"), In(time.Second))
	_, err := c.RequestMsg(m, time.Second)
	wantWord(t, err, WordRequest)
	_, err = c.RequestMsgWithContext(t.Context(), m)
	wantWord(t, err, WordRequest)
	m.Reply = "somewhere"
	wantWord(t, c.PublishMsg(m), WordReply)
}

// publishWithJetStream publishes with each method of both JetStream packages, by both ways.
func publishWithJetStream(t *testing.T, d *dev) {
	for n, opts := range [][]Option{{WithNamespace("shop")}, {WithNamespace("shop"), WithRoute(ByRequest)}} {
		subject := fmt.Sprintf("streamed.%d", n)
		nc := connect(t, d.nats)
		s := stream(t, nc, jetstream.StreamConfig{Name: fmt.Sprintf("STREAMED%d", n), Subjects: []string{subject}})
		js, older := wrapJS(t, nc, opts...), wrap(t, nc, opts...)
		legacy, err := older.JetStream()
		if err != nil {
			t.Fatal(err)
		}
		soon := func(body string) *nats.Msg { return Tag(message(subject, body), In(50*time.Millisecond)) }
		scheduled := func(body string) *nats.Msg {
			at := time.Now().Add(50 * time.Millisecond).UTC().Format(time.RFC3339Nano)
			return message("schedules."+subject, body, "Nats-Schedule", "@at "+at, "Nats-Schedule-Target", subject)
		}
		if _, err := js.PublishMsg(t.Context(), Tag(soon("sync"), As(subject+"-sync"))); err != nil {
			t.Error(err)
		}
		if _, err := js.PublishMsg(t.Context(), scheduled("schedule")); err != nil {
			t.Error(err)
		}
		if _, err := legacy.PublishMsg(soon("legacy sync"), nats.AckWait(5*time.Second)); err != nil {
			t.Error(err)
		}
		future, err := js.PublishMsgAsync(soon("async"))
		if err != nil {
			t.Fatal(err)
		}
		later, err := js.PublishMsgAsync(scheduled("async schedule"))
		if err != nil {
			t.Fatal(err)
		}
		past, err := legacy.PublishMsgAsync(soon("legacy async"))
		if err != nil {
			t.Fatal(err)
		}
		<-js.PublishAsyncComplete()
		<-legacy.PublishAsyncComplete()
		for _, f := range []interface{ Err() <-chan error }{future, later, past} {
			select {
			case err := <-f.Err():
				t.Error(err)
			default:
			}
		}
		if left := js.PublishAsyncPending() + legacy.PublishAsyncPending(); left != 0 {
			t.Errorf("%d publishes are pending", left)
		}
		js.CleanupPublisher()
		legacy.CleanupPublisher()
		want := map[string]bool{"sync": true, "schedule": true, "legacy sync": true, "async": true,
			"async schedule": true, "legacy async": true}
		eventually(t, func() error {
			info, err := s.Info(t.Context())
			if err == nil && int(info.State.Msgs) < len(want) {
				err = fmt.Errorf("%d of %d arrived", info.State.Msgs, len(want))
			}
			return err
		})
		for _, m := range stored(t, s) {
			if !want[string(m.Data)] || m.Subject != subject ||
				string(m.Data) == "sync" && m.Header.Get(HeaderID) != subject+"-sync" {
				t.Errorf("got %s on %s with %v", m.Data, m.Subject, m.Header)
			}
			delete(want, string(m.Data))
		}
	}
}

// pushBatch pushes a full batch, in which one name is taken and one message is refused here.
func pushBatch(t *testing.T, d *dev) {
	c := d.client(t, patient()...).Tarry()
	msgs := batch(MaxBatch, "batched")
	Tag(msgs[1], As("0"))
	Tag(msgs[2], In(-time.Second))
	for n, err := range []error{nil, ErrDuplicateID} { // the second time all of it is stored already
		if n == 1 {
			Tag(msgs[1], In(2*time.Hour))
		}
		outcomes, asked := c.PushBatch(t.Context(), msgs)
		if asked != nil || len(outcomes) != MaxBatch {
			t.Fatalf("got %d outcomes, %v", len(outcomes), asked)
		}
		if !errors.Is(outcomes[1].Err, err) {
			t.Errorf("a name twice: %+v, want %v", outcomes[1], err)
		}
		wantWord(t, outcomes[2].Err, "invalid_delay")
		for i, o := range outcomes {
			if i != 1 && i != 2 && (o.Err != nil || o.Stored.ID != fmt.Sprint(i) || o.Stored.UID == "" ||
				o.Stored.Duplicate != (n == 1)) {
				t.Fatalf("%d: got %+v", i, o)
			}
		}
	}
	if got, err := c.CancelMany(t.Context(), Selection{Topic: "batched"}); err != nil || got.Done != MaxBatch-2 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// mergeByName pushes again under names that are taken.
func mergeByName(t *testing.T, d *dev) {
	c := d.client(t, WithRoute(ByRequest))
	later := func(body, id string) *nats.Msg { return Tag(message("merged", body), In(time.Hour), As(id)) }
	first := pushed(t, c, later("a", "rejecting"))
	if again := pushed(t, c, later("a", "rejecting")); !again.Duplicate || again.UID != first.UID ||
		!again.Due.Equal(first.Due) {
		t.Errorf("the same again: %+v", again)
	}
	_, err := c.Tarry().Push(t.Context(), later("b", "rejecting"))
	if e := wantIs(t, err, ErrDuplicateID); e.UID != first.UID || e.State != "waiting" {
		t.Errorf("got %#v", e)
	}
	for how, body := range map[DuplicateMode]string{Keep: "a", Replace: "b", Debounce: "b"} {
		merging := func(body string) *nats.Msg {
			m := Tag(later(body, string(how)), OnDuplicate(how))
			if how == Debounce {
				Tag(m, MaxWait(2*time.Hour))
			}
			return m
		}
		first := pushed(t, c, merging("a"))
		if again := pushed(t, c, merging("b")); !again.Merged || again.UID != first.UID {
			t.Errorf("%s: %+v after %+v", how, again, first)
		}
		if m, err := c.Tarry().Get(t.Context(), Ref{ID: string(how)}); err != nil || string(m.Data) != body {
			t.Errorf("%s: %q, %v", how, m.Data, err)
		}
	}
}
