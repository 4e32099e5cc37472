package short_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// sdmq speaks as a client of sdmq does, which sends no token.
type sdmq struct {
	*testing.T
	addr string
}

// ask sends a request and returns its answer.
func (s sdmq) ask(method, target, body string, status int, header ...string) string {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, "http://"+s.addr+target, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = a.Body.Close() }()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != status {
		s.Fatalf("%s %s: %d %s, %v; want %d", method, target, a.StatusCode, text, err, status)
	}
	return string(text)
}

// push pushes a message and returns its id.
func (s sdmq) push(body string) string {
	s.Helper()
	text := s.ask("POST", "/push", body, 200)
	id, _ := answered(s.T, text)["id"].(string)
	return id
}

// state is that of a message, by the API.
func (s sdmq) state(d *site.Dev, id, secret string) any {
	s.Helper()
	own := sdmq{s.T, d.Addr}
	return answered(s.T, own.ask("GET", "/v1/messages/"+id, "", 200, "Authorization", "Bearer "+secret))["state"]
}

// Every route of the first seed, and of its README, through the listener for clients without a token.
func TestSdmqsClientsFindTheirServer(t *testing.T) {
	t.Parallel()
	const secret = "the-seeds-own-secret"
	listen := net.JoinHostPort("127.0.0.1", strconv.Itoa(lab.FreePort(t)))
	settings := filepath.Join(t.TempDir(), "tarry.yaml")
	if err := os.WriteFile(settings, fmt.Appendf(nil, `
seeds: {listen: %q, token: old}
topics: [{pattern: got, deliver: pull}]
http:
  tokens: [{name: old, sha256: '%x', push: [">"], pull: [got], operate: true}]
`, listen, sha256.Sum256([]byte(secret))), 0o600); err != nil {
		t.Fatal(err)
	}
	d := site.StartDev(t, "sdmq", "--config", settings)
	d.Ready(t)
	s := sdmq{t, listen}
	heard := listening(t, d, "ces")

	// /push, with all that the README sends, goes to NATS and not early.
	begun := time.Now()
	id := s.push(`{"body":"{ffff}","delay":300,"id":"20","status":0,"topic":"ces","subtopic":"","ttl":60000,` +
		`"priority":3,"bizKey":"order-1","createTime":1}`)
	m, err := heard.NextMsg(site.Patience)
	if err != nil || string(m.Data) != "{ffff}" || id != "20" || time.Since(begun) < 300*time.Millisecond {
		t.Errorf("after %s NATS brings %v, %v; the id is %s", time.Since(begun), m, err, id)
	}
	if m != nil && m.Header.Get("Tarry-Key") != "order-1" {
		t.Errorf("bizKey is no key: %v", m.Header)
	}
	// /delete, with either spelling; what is not there is no success.
	for _, name := range []string{"id", "jobId", "JobId"} {
		id := s.push(`{"topic":"ces","delay":3600000,"body":"x"}`)
		s.ask("GET", "/delete?"+name+"="+id, "", 200)
		if got := s.state(d, id, secret); got != "canceled" {
			t.Errorf("deleted by %s, it is %v", name, got)
		}
	}
	s.ask("GET", "/delete?id=nobody", "", 404)
	s.ask("GET", "/delete", "", 400)
	s.ask("GET", "/delete?id=20&jobId=21", "", 400)
	s.ask("GET", "/reStore/20?id=21", "", 400)
	s.ask("GET", "/delete?id=20", "", 409) // it has been delivered

	// /reStore brings back what only the journal has, one by one or all; here nothing is missing.
	waits := s.push(`{"topic":"ces","delay":3600000,"body":"y"}`)
	for _, target := range []string{"/reStore", "/reStore?expire=true", "/reStore?expire=false", "/reStore/" + waits,
		"/reStoreJob?jobId=" + waits, "/reStoreJob?JobId=" + waits} {
		lab.Eventually(t, site.Patience, func() error { // the journal comes after
			if a := answered(t, s.ask("GET", target, "", 200)); a["same"] != 1.0 {
				return fmt.Errorf("%s answers %v", target, a)
			}
			return nil
		})
	}
	s.ask("GET", "/reStore/nobody", "", 404)
	s.ask("GET", "/reStore?expire=maybe", "", 400)
	if text := s.ask("GET", "/clearAll", "", 410); !strings.Contains(text, "/v1/messages/cancel") {
		t.Errorf("/clearAll answers %s", text)
	}

	// /get waits for one message, and acknowledges it.
	s.ask("GET", "/get/got?wait=0", "", 204)
	begun = time.Now()
	id = s.push(`{"topic":"got","delay":400,"body":"z","bizKey":"k","priority":7,"ttl":0}`)
	got := answered(t, s.ask("GET", "/get/got", "", 200))
	if got["id"] != id || got["body"] != "z" || got["bizKey"] != "k" || got["priority"] != 7.0 || got["topic"] != "got" ||
		time.Since(begun) < 400*time.Millisecond {
		t.Errorf("after %s /get answers %v", time.Since(begun), got)
	}
	lab.Eventually(t, site.Patience, func() error {
		if got := s.state(d, id, secret); got != "delivered" {
			return fmt.Errorf("got, it is %v", got)
		}
		return nil
	})
	// Nothing that is no GET of a client takes it: not HEAD, not a page of another origin, not a client that has gone.
	id = s.push(`{"topic":"got","delay":0,"body":"w"}`)
	s.ask("HEAD", "/get/got", "", 405)
	for _, target := range []string{"/get/got", "/delete?id=" + id, "/reStore", "/reStore/" + id,
		"/reStoreJob?jobId=" + id} {
		s.ask("GET", target, "", 403, "Sec-Fetch-Site", "cross-site")
		s.ask("GET", target, "", 403, "User-Agent", "Mozilla/5.0 (X11)") // over plain HTTP browsers send no mark
	}
	s.ask("GET", "/get/got", "", 200)
	conn, err := net.Dial("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "GET /get/got?wait=30s HTTP/1.1\r\nHost: %s\r\n\r\n", listen); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, site.Patience, func() error {
		if text := (sdmq{t, d.Addr}).ask("GET", "/metrics", "", 200, "Authorization", "Bearer "+secret); !strings.Contains(
			text, "\ntarry_polls 1\n") {
			return errNotYet
		}
		return nil
	})
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	id = s.push(`{"topic":"got","delay":100,"body":"v"}`)
	if got := answered(t, s.ask("GET", "/get/got", "", 200)); got["id"] != id {
		t.Errorf("after a client that went, /get answers %v", got)
	}

	id = s.push(`{"topic":"got","delay":0,"bodyBase64":"/w=="}`)
	if got := answered(t, s.ask("GET", "/get/got", "", 200)); got["id"] != id || got["bodyBase64"] != "/w==" {
		t.Errorf("bytes come as %v", got)
	}

	for body, want := range map[string]string{
		`{"topic":"got","body":"` + "\xff" + `","delay":1}`:                "body",
		`{"topic":"got","body":"\ud800","delay":1}`:                        "body",
		`{"topic":"got","body":"a","bodyBase64":"YQ==","delay":1}`:         "bodyBase64",
		`{"topic":"got","body":"x","delay":1}]`:                            "after",
		`[]`:                                                               "object",
		`{"topic":"got","body":"x"}`:                                       "delay",
		`{"topic":"got","body":"x","delay":-1}`:                            "delay",
		`{"topic":"got","body":"x","delay":"1"}`:                           "delay",
		`{"topic":"got","body":"x","delay":1,"priority":256}`:              "priority",
		`{"topic":"got","body":"x","delay":1,"ttl":-1}`:                    "ttl",
		`{"topic":"got","body":{},"delay":1}`:                              "body",
		`{"topic":"got.*","body":"x","delay":1}`:                           "topic",
		`{"topic":"got","body":"x","delay":1,"other":1}`:                   "other",
		`{"topic":"got","body":"x","delay":1} {}`:                          "after",
		`{"topic":"got","body":"x","delay":1,"id":"` + wide(10<<10) + `"}`: "id",
	} {
		if text := s.ask("POST", "/push", body, 400); !strings.Contains(text, want) || len(text) > 500 {
			t.Errorf("%.60s is answered with %s", body, text)
		}
	}
	s.ask("GET", "/get/got?wait=61s", "", 400)
	s.ask("GET", "/get/got.*", "", 400)
	if text := s.ask("GET", "/get/got2?wait=0", "", 403); !strings.Contains(text, "pull") {
		t.Errorf("a topic of no right: %s", text)
	}
	// The listener has nothing else, and knows only its own names; elsewhere a token is asked for.
	s.ask("GET", "/v1/topics", "", 404)
	s.ask("GET", "/metrics", "", 404)
	s.ask("GET", "/get/got?wait=0", "", 204)
	r, err := http.ReadResponse(bufio.NewReader(foreign(t, listen)), nil)
	if err != nil || r.StatusCode != http.StatusForbidden {
		t.Errorf("for a foreign host: %v, %v", r, err)
	}
	own := sdmq{t, d.Addr}
	own.ask("GET", "/get/got?wait=0", "", 401)
	// Camellia's SDK repeats a long poll at once.
	for _, target := range []string{listen, d.Addr} {
		begun := time.Now()
		own.addr = target
		if a := own.ask("POST", "/camellia/delayQueue/longPollingMsg?topic=none", "", map[string]int{listen: 403,
			d.Addr: 401}[target]); time.Since(begun) < time.Second {
			t.Errorf("a long poll is refused after %s: %s", time.Since(begun), a)
		}
	}
}

func wide(n int) string { return strings.Repeat("w", n) }

// foreign sends a request for another host, as a rebound name makes a browser do, and returns the answer.
func foreign(t *testing.T, addr string) io.Reader {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, "GET /get/got?wait=0 HTTP/1.1\r\nHost: evil.example\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return conn
}
