package topology

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// proxy is a running nginx with deploy/nginx.conf.
type proxy struct {
	*lab.Process
	url string
}

// startNginx runs nginx.conf as it is, but for addresses, directories, and what more replaces: expressions that stand
// there once, each with what takes its place.
func startNginx(t testing.TB, tarryA, tarryB string, more ...[2]string) *proxy {
	t.Helper()
	dir := t.TempDir()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(lab.FreePort(t)))
	conf := inDeploy(t, "nginx.conf")
	replace := func(expression, with string, times int) {
		t.Helper()
		re := regexp.MustCompile(expression)
		if got := len(re.FindAllString(conf, -1)); got != times {
			t.Fatalf("nginx.conf has %d of %s, want %d", got, expression, times)
		}
		conf = re.ReplaceAllLiteralString(conf, with)
	}
	replace(`tarry-a:7070`, tarryA, 1)
	replace(`tarry-b:7070`, tarryB, 1)
	replace(`\b8080;`, address+";", 1)
	replace(` /tmp/`, " "+dir+"/", 6)
	for _, one := range more {
		replace(one[0], one[1], 1)
	}
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	directives := "daemon off;"
	if os.Geteuid() == 0 {
		directives += " user root;" // else its workers could not reach the test's directory
	}
	p := &proxy{lab.Start(t, "nginx", nil, "nginx", "-p", dir, "-e", "stderr", "-c", path, "-g", directives),
		"http://" + address}
	lab.Eventually(t, time.Minute, func() error {
		status, body, err := get(p.url + "/proxy-health")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d %s", status, body)
		}
		if err != nil && !p.Running() {
			t.Fatalf("nginx ended: %s", p.Log())
		}
		return err
	})
	return p
}

// call sends one request, with the token, and returns what came back.
func call(method, url, body string) (status int, answer string, err error) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), errors.Join(err, response.Body.Close())
}

func get(url string) (status int, answer string, err error) { return call(http.MethodGet, url, "") }

// mustCall is call where no error is in order.
func mustCall(t testing.TB, method, url, body string) (status int, answer string) {
	t.Helper()
	status, answer, err := call(method, url, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return status, answer
}

// upstream takes the place of an instance and counts the requests that reach it.
type upstream struct {
	address string
	seen    atomic.Int64
}

func newUpstream(t testing.TB, answer http.HandlerFunc) *upstream {
	t.Helper()
	u := &upstream{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.seen.Add(1)
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	u.address = s.Listener.Addr().String()
	return u
}

// fine answers; hangsUp takes the request and breaks the connection.
func fine(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }

func hangsUp(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		conn.Close()
	}
}

func TestNginxSendsRequestsInTurn(t *testing.T) {
	t.Parallel()
	a, b := newUpstream(t, fine), newUpstream(t, fine)
	p := startNginx(t, a.address, b.address)
	for i := range 20 {
		method := []string{http.MethodPost, http.MethodGet}[i/10]
		if status, body := mustCall(t, method, p.url+"/v1/messages", "{}"); status != http.StatusCreated {
			t.Fatalf("%s: got %d %s", method, status, body)
		}
	}
	if a.seen.Load() != 10 || b.seen.Load() != 10 {
		t.Errorf("got %d and %d, want 10 each", a.seen.Load(), b.seen.Load())
	}
}

func TestNginxSendsAPostOnWhenNobodyListens(t *testing.T) {
	t.Parallel()
	nobody := net.JoinHostPort("127.0.0.1", strconv.Itoa(lab.FreePort(t)))
	there := newUpstream(t, fine)
	p := startNginx(t, nobody, there.address)
	for range 10 {
		if status, body := mustCall(t, http.MethodPost, p.url+"/v1/messages", "{}"); status != http.StatusCreated {
			t.Fatalf("got %d %s", status, body)
		}
	}
	if got := there.seen.Load(); got != 10 {
		t.Errorf("got %d, want 10", got)
	}
}

func TestNginxNeverSendsAPostTwice(t *testing.T) {
	t.Parallel()
	bad, good := newUpstream(t, hangsUp), newUpstream(t, fine)
	p := startNginx(t, bad.address, good.address)
	broken := 0
	const posts = 10
	for range posts {
		switch status, body := mustCall(t, http.MethodPost, p.url+"/v1/messages", "{}"); status {
		case http.StatusCreated:
		case http.StatusGatewayTimeout:
			broken++
			var said struct{ Error, Detail string }
			if err := json.Unmarshal([]byte(body), &said); err != nil || said.Error != "outcome_unknown" ||
				said.Detail == "" {
				t.Errorf("got %s, %v", body, err)
			}
		default:
			t.Fatalf("got %d %s", status, body)
		}
	}
	if broken == 0 || int64(broken) != bad.seen.Load() || bad.seen.Load()+good.seen.Load() != posts {
		t.Errorf("%d answered as unknown; %d and %d arrived, want %d together", broken, bad.seen.Load(),
			good.seen.Load(), posts)
	}
}

func TestNginxAsksTheOtherWhereThatIsSafe(t *testing.T) {
	t.Parallel()
	bad, good := newUpstream(t, hangsUp), newUpstream(t, fine)
	p := startNginx(t, bad.address, good.address)
	for i := range 10 {
		method := []string{http.MethodGet, http.MethodDelete}[i%2]
		if status, body := mustCall(t, method, p.url+"/v1/messages/x", ""); status != http.StatusCreated {
			t.Fatalf("%s: got %d %s", method, status, body)
		}
	}
	if bad.seen.Load() == 0 || good.seen.Load() != 10 {
		t.Errorf("got %d and %d", bad.seen.Load(), good.seen.Load())
	}
}

// A client without a token that sends large bodies and never ends them holds no more of /tmp than its share, and small
// requests, its own and others', go on.
func TestNginxBoundsTheLargeBodiesOfOneClient(t *testing.T) {
	t.Parallel()
	a, b := newUpstream(t, fine), newUpstream(t, fine)
	p := startNginx(t, a.address, b.address)
	answers := make(chan string, 12) // of a body that nginx waits for there is none
	for i := range cap(answers) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		start := []string{"Content-Length: 5000000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n3e8\r\n"}[i%2]
		if _, err := io.WriteString(
			conn, "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n"+start+strings.Repeat("x", 1000)); err != nil {
			t.Fatal(err)
		}
		go func() { // until the test closes the connection
			text := make([]byte, 1000)
			if n, err := conn.Read(text); err == nil {
				answers <- string(text[:n])
			}
		}()
	}
	for range 4 { // all above 8
		select {
		case answer := <-answers:
			if !strings.HasPrefix(answer, "HTTP/1.1 503 ") || !strings.Contains(answer, `"error":"busy"`) ||
				!strings.Contains(answer, "Retry-After: 1") {
				t.Errorf("got %q", answer)
			}
		case <-time.After(5 * time.Second): // below nginx's own patience with a body
			t.Fatal("fewer than 4 of 12 are refused")
		}
	}
	if n := a.seen.Load() + b.seen.Load(); n != 0 {
		t.Errorf("%d reached an instance", n)
	}
	for range 20 {
		if status, body := mustCall(t, http.MethodPost, p.url+"/v1/messages", "{}"); status != http.StatusCreated {
			t.Fatalf("a small push: got %d %s", status, body)
		}
	}
	if len(answers) != 0 {
		t.Errorf("one of the first 8 is refused too: %q", <-answers)
	}
}

// One client holds what it can of half-sent headers, which count for no limit: the others are answered.
func TestNginxIsNotClosedByHalfSentHeaders(t *testing.T) {
	t.Parallel()
	a := newUpstream(t, fine)
	p := startNginx(t, a.address, a.address)
	for range 3000 {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nX: "); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		if status, body := mustCall(t, http.MethodPost, p.url+"/v1/messages", "{}"); status != http.StatusCreated {
			t.Fatalf("got %d %s", status, body)
		}
	}
}

// A receipt is as good as the lease.
func TestNginxLogsNoReceipt(t *testing.T) {
	t.Parallel()
	a := newUpstream(t, fine)
	p := startNginx(t, a.address, a.address)
	mustCall(t, http.MethodPost, p.url+"/v1/leases/r-t0123:42.work/ack", "{}")
	mustCall(t, http.MethodPost, p.url+"/v1/leases/ack", "{}")
	lab.Eventually(t, 10*time.Second, func() error {
		if log := p.Log(); !strings.Contains(log, `"/v1/leases/-/ack"`) || !strings.Contains(log, `"/v1/leases/ack"`) {
			return fmt.Errorf("the log has %s", log)
		}
		return nil
	})
	if log := p.Log(); strings.Contains(log, "t0123") {
		t.Errorf("the log has %s", log)
	}
}

func TestNginxPassesRefusalsOn(t *testing.T) {
	t.Parallel()
	const refusal = `{"error":"unavailable","detail":"redis does not answer"}`
	var seen atomic.Value
	busy := func(w http.ResponseWriter, r *http.Request) {
		seen.Store([2]string{r.Host, r.Header.Get("Authorization")})
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, refusal)
	}
	a, b := newUpstream(t, busy), newUpstream(t, busy)
	p := startNginx(t, a.address, b.address)
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		if status, body := mustCall(t, method, p.url+"/v1/messages", ""); status != http.StatusServiceUnavailable ||
			body != refusal {
			t.Errorf("%s: got %d %s", method, status, body)
		}
	}
	if n := a.seen.Load() + b.seen.Load(); n != 3 {
		t.Errorf("%d requests arrived, want 3", n)
	}
	if got, want := seen.Load(), [2]string{strings.TrimPrefix(p.url, "http://"), "Bearer " + token}; got != want {
		t.Errorf("host and token: got %q, want %q", got, want)
	}
	if strings.Contains(p.Log(), token) {
		t.Error("the token is in the log")
	}
}

// An instance that can accept no push says 503 on /readyz and still answers look-ups and cancels: it keeps its turn.
func TestNginxKeepsAnInstanceThatIsNotReady(t *testing.T) {
	t.Parallel()
	unready := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost || r.URL.Path == "/readyz" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fine(w, r)
	}
	a, b := newUpstream(t, unready), newUpstream(t, fine)
	p := startNginx(t, a.address, b.address)
	for range 10 {
		mustCall(t, http.MethodGet, p.url+"/readyz", "")
		mustCall(t, http.MethodPost, p.url+"/v1/messages", "{}")
	}
	before := a.seen.Load()
	for i := range 10 {
		method := []string{http.MethodGet, http.MethodDelete}[i/5]
		if status, body := mustCall(t, method, p.url+"/v1/messages/x", ""); status != http.StatusCreated {
			t.Fatalf("%s: got %d %s", method, status, body)
		}
	}
	if got := a.seen.Load() - before; got != 5 {
		t.Errorf("%d of 10 look-ups and cancels went to the instance that is not ready, want its turn of 5", got)
	}
}

// A poll may wait for longer than any other request.
func TestNginxLetsPollsWait(t *testing.T) {
	t.Parallel()
	polled, answer := make(chan struct{}), make(chan struct{})
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server sees no connection close
		if strings.HasSuffix(r.URL.Path, "/pull") {
			polled <- struct{}{}
			<-answer
			return
		}
		<-r.Context().Done()
	})
	p := startNginx(t, u.address, u.address, [2]string{`proxy_read_timeout +35s`, "proxy_read_timeout 1s"})
	done := make(chan int, 2)
	for _, path := range []string{"/v1/topics/a/pull", "/v1/pull"} {
		go func() {
			status, _, _ := call(http.MethodPost, p.url+path, "{}")
			done <- status
		}()
		<-polled
	}
	if status, body := mustCall(t, http.MethodPost, p.url+"/v1/messages", "{}"); status != http.StatusGatewayTimeout {
		t.Errorf("another request: %d %s", status, body)
	}
	close(answer)
	for range cap(done) {
		if status := <-done; status != http.StatusOK {
			t.Errorf("a poll that waits for longer: %d", status)
		}
	}
}

func TestNginxKeepsMetricsBack(t *testing.T) {
	t.Parallel()
	a, b := newUpstream(t, fine), newUpstream(t, fine)
	p := startNginx(t, a.address, b.address)
	if status, body := mustCall(t, http.MethodGet, p.url+"/metrics", ""); status != http.StatusNotFound ||
		!strings.Contains(body, "unknown_route") {
		t.Errorf("got %d %s", status, body)
	}
	if n := a.seen.Load() + b.seen.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

func TestNginxLeavesLimitsToTarry(t *testing.T) {
	t.Parallel()
	var size atomic.Int64
	a := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		size.Store(n)
		fine(w, r)
	})
	p := startNginx(t, a.address, a.address)
	const large = 9 << 20 // above the default of http.body_limit
	status, body := mustCall(t, http.MethodPost, p.url+"/v1/messages", strings.Repeat("x", large))
	if status != http.StatusCreated || size.Load() != large {
		t.Errorf("got %d %s, %d bytes", status, body, size.Load())
	}
}
