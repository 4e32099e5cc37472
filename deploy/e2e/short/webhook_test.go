package short_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// hook is a target of webhooks. It checks the signature of each of its secrets.
type hook struct {
	*httptest.Server
	t       *testing.T
	secrets []string
	mu      sync.Mutex
	posts   []posted
	answer  func(p posted, w http.ResponseWriter) // 204 if nil
}

// posted is one request.
type posted struct {
	at     time.Time
	path   string
	id     string
	header http.Header
	body   string
}

func newHook(t *testing.T, answer func(posted, http.ResponseWriter)) *hook {
	t.Helper()
	h := &hook{t: t, answer: answer}
	for range 2 {
		var key [32]byte
		_, _ = rand.Read(key[:])
		h.secrets = append(h.secrets, "whsec_"+base64.StdEncoding.EncodeToString(key[:]))
	}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost {
		h.t.Errorf("%s: %v", r.Method, err)
	}
	for _, secret := range h.secrets {
		verifier, err := standardwebhooks.NewWebhook(secret)
		if err == nil {
			err = verifier.Verify(body, r.Header)
		}
		if err != nil {
			h.t.Errorf("signature: %v", err)
		}
	}
	p := posted{time.Now(), r.URL.Path, r.Header.Get("Webhook-Id"), r.Header, string(body)}
	h.mu.Lock()
	h.posts = append(h.posts, p)
	h.mu.Unlock()
	if h.answer != nil {
		h.answer(p, w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// about returns the requests so far whose body has the text.
func (h *hook) about(text string) (all []posted) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.posts {
		if strings.Contains(p.body, text) {
			all = append(all, p)
		}
	}
	return all
}

// await waits for n requests about a text.
func (h *hook) await(text string, n int) (all []posted) {
	h.t.Helper()
	lab.Eventually(h.t, site.Patience, func() error {
		if all = h.about(text); len(all) < n {
			return fmt.Errorf("%d of %d requests about %s", len(all), n, text)
		}
		return nil
	})
	return all
}

// topic is an item of topics that posts to the hook.
func (h *hook) topic(pattern, path string, more ...string) string {
	return fmt.Sprintf("{pattern: %q, deliver: webhook, retry: '0,0,0', webhook: {url: %q, secrets: [%s]%s}}", pattern,
		h.URL+path, strings.Join(h.secrets, ", "), strings.Join(append([]string{""}, more...), ", "))
}

// hookFile writes a settings file.
func hookFile(t *testing.T, path string, topics ...string) string {
	t.Helper()
	text := "webhook: {allow: [127.0.0.1]}\ntopics: [" + strings.Join(topics, ", ") + "]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A webhook posts what is due, signed, and does by the answers. A kill changes no id.
func TestWebhooksPostWhatIsDue(t *testing.T) {
	t.Parallel()
	h := newHook(t, func(p posted, w http.ResponseWriter) {
		switch {
		case strings.Contains(p.body, "bad"):
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "not to be shown")
		case strings.Contains(p.body, "gone"):
			w.WriteHeader(http.StatusGone)
		case strings.Contains(p.body, "later") && p.header.Get("Tarry-Attempt") == "1":
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		case strings.Contains(p.body, "moved"):
			http.Redirect(w, httptest.NewRequest(http.MethodPost, "/", nil), "/elsewhere", http.StatusTemporaryRedirect)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	file := filepath.Join(t.TempDir(), "tarry.yaml")
	hookFile(t, file)
	d := site.StartDev(t, "webhook", "--data", t.TempDir(), "--config", file)
	d.Ready(t)
	hookFile(t, file, h.topic("bill.*", "/in"), fmt.Sprintf(
		"{pattern: self, deliver: webhook, webhook: {url: 'http://%s/livez', secrets: [%s]}}", d.Addr, h.secrets[0]))
	d.Signal(syscall.SIGHUP)
	d.WaitLog("settings loaded again")
	call := func(method, path string, body any, status int) map[string]any {
		t.Helper()
		a, err := d.Call(t.Context(), method, path, body)
		if err != nil || a.Status != status {
			t.Fatalf("%s %s: %d %s, %v", method, path, a.Status, a.Raw, err)
		}
		return answered(t, a.Raw)
	}
	push := func(body string, more fields) string {
		t.Helper()
		m := fields{"topic": "bill.new", "id": body, "body": body, "delay": "0"}
		for name, value := range more {
			m[name] = value
		}
		return call(http.MethodPost, "/v1/messages", m, http.StatusCreated)["uid"].(string)
	}
	becomes := func(id, state, reason string) {
		t.Helper()
		lab.Eventually(t, site.Patience, func() error {
			if m := call(http.MethodGet, "/v1/messages/"+id, nil, http.StatusOK); m["state"] != state ||
				!strings.Contains(fmt.Sprint(m["reason"]), reason) {
				return fmt.Errorf("%v is not %s, %s", m, state, reason)
			}
			return nil
		})
	}

	begun := time.Now()
	uid := push("fine", fields{"delay": "600ms", "key": "k", "headers": fields{"Content-Type": "text/plain",
		"Webhook-Id": "forged", "Host": "forged", "Connection": "close", "X-Own": "yes"}})
	p := h.await("fine", 1)[0]
	if early := begun.Add(600 * time.Millisecond).Sub(p.at); early > 0 {
		t.Errorf("it came %s early", early)
	}
	for name, want := range map[string]string{"Webhook-Id": uid, "Tarry-Id": "fine", "Tarry-Key": "k",
		"Tarry-Attempt": "1", "Tarry-Subject": "bill.new", "Content-Type": "text/plain", "X-Own": "yes"} {
		if got := p.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if p.path != "/in" || p.body != "fine" {
		t.Errorf("posted %q to %s", p.body, p.path)
	}
	becomes("fine", "delivered", "webhook@dev: the target answered 204")
	if a, err := d.Call(t.Context(), http.MethodPost, "/v1/topics/bill.new/pull", nil); err != nil ||
		a.Status != http.StatusConflict || !strings.Contains(a.Raw, "webhook_topic") {
		t.Errorf("a consumer's pull: %d %s, %v", a.Status, a.Raw, err)
	}

	// The schedule is for failures; a redirect is one, and a refused address too. 410 ends a message at once.
	uid = push("bad", nil)
	for i, p := range h.await("bad", 4) {
		if p.id != uid || p.header.Get("Tarry-Attempt") != fmt.Sprint(i+1) {
			t.Errorf("%d: webhook-id %s, attempt %s", i, p.id, p.header.Get("Tarry-Attempt"))
		}
	}
	becomes("bad", "dead", "the target answered 500 after 3 retries")
	push("gone", nil)
	becomes("gone", "dead", "the target answered 410")
	push("moved", nil)
	becomes("moved", "dead", "the target answered 307 (redirects are not followed) after 3 retries")
	push("itself", fields{"topic": "self", "retry": "none"})
	becomes("itself", "dead", "is this instance's own")
	view, _ := d.Cli(t, "topics")
	if !regexp.MustCompile(`self +http://\S+ +2\S+ \(.*\) +2\S+ \(.*\) +.* is this instance's own`).MatchString(view) {
		t.Errorf("topics shows %s", view)
	}
	push("later", nil)
	if all := h.await("later", 2); all[1].at.Sub(all[0].at) < time.Second {
		t.Errorf("tried again after %s, and Retry-After was 1 s", all[1].at.Sub(all[0].at))
	}
	for text, want := range map[string]int{"fine": 1, "bad": 4, "gone": 1, "moved": 4, "itself": 0, "later": 2} {
		if got := len(h.about(text)); got != want {
			t.Errorf("%d requests about %s, want %d", got, text, want)
		}
	}

	// Killed between two tries.
	uid = push("killed and bad", fields{"retry": "2s,0"})
	h.await("killed", 1)
	becomes("killed%20and%20bad", "waiting", "")
	d.Kill()
	d.Restart()
	if all := h.await("killed", 3); all[1].id != uid || all[2].id != uid {
		t.Errorf("webhook-ids after a kill: %s, %s, want %s", all[1].id, all[2].id, uid)
	}
	if log := string(d.History()); strings.Contains(log, h.secrets[0]) || strings.Contains(log, "not to be shown") {
		t.Error("the log has a secret or an answer")
	}
}

// A batch is an array of what is ready at one instant. One that fails is posted message by message.
func TestWebhooksPostBatches(t *testing.T) {
	t.Parallel()
	type item struct {
		ID, UID, Topic, Body string
		Attempt              int
	}
	read := func(p posted) (all []item) {
		if err := json.Unmarshal([]byte(p.body), &all); err != nil {
			t.Errorf("%v of %s", err, p.body)
		}
		return all
	}
	h := newHook(t, func(p posted, w http.ResponseWriter) {
		if strings.Contains(p.body, "poison") {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	d := site.StartDev(t, "batches", "--config",
		hookFile(t, filepath.Join(t.TempDir(), "tarry.yaml"), h.topic("group", "/in", "batch: 50", "concurrency: 1")))
	d.Ready(t)
	group := func(name string, n int) {
		t.Helper()
		var messages []fields
		at := time.Now().Add(700 * time.Millisecond).UnixMilli()
		for i := range n {
			body := name
			if name == "ill" && i == 3 {
				body = "ill poison"
			}
			messages = append(messages, fields{"topic": "group", "id": fmt.Sprintf("%s-%d", name, i), "body": body, "at": at})
		}
		if a, err := d.Call(t.Context(), http.MethodPost, "/v1/messages/batch", fields{"messages": messages}); err != nil ||
			a.Status != http.StatusOK {
			t.Fatalf("%d %s, %v", a.Status, a.Raw, err)
		}
	}
	group("well", 40)
	all := h.await("well", 1)
	if got := read(all[0]); len(got) != 40 || got[0].Topic != "group" || got[0].Attempt != 1 ||
		!strings.HasPrefix(all[0].id, "batch_") {
		t.Errorf("posted %d messages as %s: %+v", len(got), all[0].id, got)
	}
	group("ill", 10) // the batch, then each by itself, the bad one also for its three retries
	all = h.await("ill", 14)
	alone := map[string]int{}
	for _, p := range all[1:] {
		got := read(p)
		if len(got) != 1 || p.id != got[0].UID {
			t.Fatalf("after a failure: %s with %+v", p.id, got)
		}
		alone[got[0].Body]++
	}
	if len(read(all[0])) != 10 || alone["ill"] != 9 || alone["ill poison"] != 4 {
		t.Errorf("a batch of %d, then %v", len(read(all[0])), alone)
	}
}
