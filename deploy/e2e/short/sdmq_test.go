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
	"slices"
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
	a := s.served("POST", "/push", body, true)
	id, _ := a["data"].(string)
	if a["id"] != id {
		s.Errorf("the push of %s answers %v", body, a)
	}
	return id
}

// served sends a request that sdmq answers with its envelope, and returns the fields of the answer.
func (s sdmq) served(method, target, body string, success bool) fields {
	s.Helper()
	a := answered(s.T, s.ask(method, target, body, 200))
	code := map[bool]float64{true: 200, false: 500}[success]
	_, told := a["message"].(string)
	if _, data := a["data"]; !data || a["success"] != success || a["code"] != code || told == success {
		s.Errorf("%s %s %.99s: %v; want success %v", method, target, body, a, success)
	}
	return a
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
	// As its own classes are written by Jackson and by FastJson, and with what may be text or number, null or absent.
	s.push(`{"topic":"ces","subtopic":"vip","id":null,"bizKey":null,"delay":"5","ttl":0,"body":"all","createTime":7,` +
		`"extendData":"{\"tenant\":\"t1\",\"n\":5,\"deep\":{ \"a\": [1] }}","status":0,"buckedName":null,"other":{"a":1}}`)
	m, err = heard.NextMsg(site.Patience)
	if err != nil || string(m.Data) != "all" || m.Header.Get("Subtopic") != "vip" || m.Header.Get("tenant") != "t1" ||
		m.Header.Get("n") != "5" || m.Header.Get("deep") != `{"a":[1]}` {
		t.Errorf("NATS brings %v, %v", m, err)
	}
	for _, body := range []string{`{"topic":"ces"}`, `{"topic":"ces","id":7,"delay":-1,"body":3,"extendData":""}`,
		`{"topic":"ces","delay":5.0,"subtopic":5}`, `{"topic":"ces","delay":" 5 ","priority":1.0}`} {
		s.push(body)
		if m, err = heard.NextMsg(site.Patience); err != nil || body[len(body)-1] != '}' {
			t.Errorf("%s: NATS brings %v, %v", body, m, err)
		}
	}
	for range 8 { // whatever order the fields have
		s.push(`{"topic":"ces","delay":0,"subtopic":"tag","extendData":"{\"Subtopic\":\"own\"}"}`)
		if m, err = heard.NextMsg(site.Patience); err != nil || !slices.Equal(m.Header["Subtopic"], []string{"own", "tag"}) {
			t.Errorf("NATS brings %v, %v", m, err)
		}
	}
	// The same id replaces what waits.
	if first, later := s.push(`{"topic":"ces","id":"r","delay":3600000,"body":"old"}`),
		s.push(`{"topic":"ces","id":"r","delay":1,"body":"new"}`); first != "r" || later != "r" {
		t.Errorf("the id r is answered as %s and %s", first, later)
	}
	if m, err = heard.NextMsg(site.Patience); err != nil || string(m.Data) != "new" {
		t.Errorf("replaced, NATS brings %v, %v", m, err)
	}
	// /delete, with either spelling; that nothing is there is a success.
	for _, name := range []string{"id", "jobId", "JobId"} {
		id := s.push(`{"topic":"ces","delay":3600000,"body":"x"}`)
		s.served("GET", "/delete?_=1&"+name+"="+id, "", true)
		if got := s.state(d, id, secret); got != "canceled" {
			t.Errorf("deleted by %s, it is %v", name, got)
		}
	}
	s.served("GET", "/delete?id=nobody", "", true)
	s.served("GET", "/delete", "", false)
	s.served("GET", "/delete?id=20&jobId=21", "", false)
	s.served("GET", "/reStore/20?id=21", "", false)
	lab.Eventually(t, site.Patience, func() error { // it has been delivered
		if a := s.served("GET", "/delete?id=20", "", false); a["error"] != "already_delivered" {
			return fmt.Errorf("a delete of what has been delivered: %v", a)
		}
		return nil
	})

	// /reStore brings back what only the journal has, one by one or all; here nothing is missing.
	waits := s.push(`{"topic":"ces","delay":3600000,"body":"y"}`)
	for _, target := range []string{"/reStore", "/reStore?expire=true", "/reStore?expire=false", "/reStore/" + waits,
		"/reStoreJob?jobId=" + waits, "/reStoreJob?JobId=" + waits} {
		lab.Eventually(t, site.Patience, func() error { // the journal comes after
			if a := answered(t, s.ask("GET", target, "", 200)); a["same"] != 1.0 || a["success"] != true {
				return fmt.Errorf("%s answers %v", target, a)
			}
			return nil
		})
	}
	s.served("GET", "/reStore/nobody", "", false)
	s.served("GET", "/reStoreJob?jobId=20", "", false) // delivered
	s.served("GET", "/reStore?expire=maybe", "", false)
	if a := s.served("GET", "/clearAll", "", false); !strings.Contains(fmt.Sprint(a["message"]), "/v1/messages/cancel") {
		t.Errorf("/clearAll answers %v", a)
	}
	// One without a name of its own comes back once, and is known by what its push answered.
	unnamed := s.push(`{"topic":"ces","delay":3600000,"body":"x"}`)
	s.served("GET", "/delete?jobId="+unnamed, "", true)
	for range 3 {
		lab.Eventually(t, site.Patience, func() error {
			if a := answered(t, s.ask("GET", "/reStoreJob?jobId="+unnamed, "", 200)); a["success"] != true {
				return fmt.Errorf("a deleted job: %v", a)
			}
			return nil
		})
	}
	if got := s.state(d, unnamed, secret); got != "waiting" {
		t.Errorf("restored, it is %v", got)
	}
	list := answered(t, sdmq{t, d.Addr}.ask("GET", "/v1/topics/ces", "", 200, "Authorization", "Bearer "+secret))
	waiting := list["waiting"]
	s.served("GET", "/delete?jobId="+unnamed, "", true)
	list = answered(t, sdmq{t, d.Addr}.ask("GET", "/v1/topics/ces", "", 200, "Authorization", "Bearer "+secret))
	if got := s.state(d, unnamed, secret); got != "canceled" || waiting == nil || list["waiting"] == waiting {
		t.Errorf("deleted again, it is %v; %v wait, before %v", got, list, waiting)
	}
	// A job that was deleted comes back with all that it had, as often as it is deleted.
	s.push(`{"topic":"ces","id":"again","bizKey":"k","delay":1500,"body":"back","extendData":"{\"a\":\"b\"}"}`)
	for range 2 {
		s.served("GET", "/delete?jobId=again", "", true)
		lab.Eventually(t, site.Patience, func() error { // the journal comes after
			if a := answered(t, s.ask("GET", "/reStoreJob?jobId=again", "", 200)); a["success"] != true {
				return fmt.Errorf("a deleted job: %v", a)
			}
			return nil
		})
		if got := s.state(d, "again", secret); got != "waiting" {
			t.Errorf("restored, it is %v", got)
		}
	}
	if m, err = heard.NextMsg(site.Patience); err != nil || string(m.Data) != "back" || m.Header.Get("a") != "b" ||
		m.Header.Get("Tarry-Key") != "k" || m.Header.Get("Tarry-Id") != "again" {
		t.Errorf("restored, NATS brings %v, %v", m, err)
	}

	// /get waits for one message, and acknowledges it.
	s.ask("GET", "/get/got?wait=0", "", 204)
	begun = time.Now()
	id = s.push(`{"topic":"got","delay":400,"body":"z","bizKey":"k","priority":7,"ttl":0,"subtopic":"s",` +
		`"extendData":"{\"x\":\"y\"}"}`)
	got := answered(t, s.ask("GET", "/get/got", "", 200))
	if got["id"] != id || got["body"] != "z" || got["bizKey"] != "k" || got["priority"] != 7.0 || got["topic"] != "got" ||
		got["subtopic"] != "s" || got["extendData"] != `{"x":"y"}` ||
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

	// What is no job has HTTP 400, as there; what is one, and cannot be taken, the envelope.
	for body, want := range map[string]string{
		`{"topic":"got","body":"x","delay":1}]`:   "after",
		`{"topic":"got","body":"x","delay":1} {}`: "after",
		`[]`: "object",
		`{"topic":"got","body":"` + "\xff" + `","delay":1}`: "UTF-8",
		`{"topic":"got","body":"\ud800","delay":1}`:         "escape",
	} {
		if text := s.ask("POST", "/push", body, 400); !strings.Contains(text, want) || len(text) > 500 {
			t.Errorf("%.60s is answered with %s", body, text)
		}
	}
	for body, want := range map[string]string{
		`{"body":"x"}`: "topic",
		`{"topic":"got","topic":"got","body":"x"}`:                         "more than once",
		`{"topic":"got","Topic":"got","body":"x"}`:                         "more than once",
		`{"topic":"got","x":1,"X":2,"body":"x"}`:                           "more than once",
		`{"topic":"got","Delay":60000,"body":"x"}`:                         "written delay",
		`{"topic":"got","subtopic":["a"],"body":"x"}`:                      "subtopic",
		`{"topic":"got","body":"a","bodyBase64":"YQ=="}`:                   "body",
		`{"topic":"got","body":"x","delay":"soon"}`:                        "delay",
		`{"topic":"got","body":"x","delay":1e99}`:                          "delay",
		`{"topic":"got","body":"x","delay":999999999999999}`:               "delay",
		`{"topic":"got","body":"x","delay":1,"priority":256}`:              "priority",
		`{"topic":"got","body":"x","delay":1,"ttl":-1}`:                    "ttl",
		`{"topic":"got","body":{},"delay":1}`:                              "body",
		`{"topic":"got.*","body":"x","delay":1}`:                           "topic",
		`{"topic":"got","body":"x","bizKey":"` + wide(10<<10) + `"}`:       "bizKey",
		`{"topic":"got","body":"x","delay":1,"id":"` + wide(10<<10) + `"}`: "id",
		`{"topic":"got","body":"x","extendData":"no"}`:                     "extendData",
		`{"topic":"got","body":"x","extendData":"{\"a b\":\"c\"}"}`:        "a b",
		`{"topic":"got","body":"x","extendData":"{\"Nats-X\":\"c\"}"}`:     "Nats-",
		`{"topic":"got","body":"x","extendData":"{\"a\":1,\"a\":2}"}`:      "more than once",
	} {
		a := s.served("POST", "/push", body, false)
		if text, _ := a["message"].(string); !strings.Contains(text, want) || len(text) > 500 || a["detail"] != text {
			t.Errorf("%.60s is answered with %v", body, a)
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
