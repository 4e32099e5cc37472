package browser_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// answer makes a call and decodes what it answers.
func answer[T any](t *testing.T, method, url, body string) (got T) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil || resp.StatusCode >= 300 {
		t.Fatalf("%s: %d %.500s, %v", url, resp.StatusCode, text.String(), err)
	}
	if err := json.Unmarshal(text.Bytes(), &got); err != nil {
		t.Fatalf("%s: %.500s: %v", url, text.String(), err)
	}
	return got
}

// fails has a consumer pull a message of a topic and refuse it, as verb says.
func fails(t *testing.T, server, topic, verb, reason string) {
	t.Helper()
	type pulled struct{ Messages []struct{ Receipt string } }
	got := answer[pulled](t, "POST", server+"/v1/topics/"+topic+"/pull", `{"max":1,"wait":"10s","consumer":"billing"}`)
	if len(got.Messages) != 1 {
		t.Fatalf("%d messages were pulled", len(got.Messages))
	}
	post(t, server+"/v1/leases/"+got.Messages[0].Receipt+"/"+verb, map[string]any{"reason": reason})
}

// known returns the state, version and body of a message.
type known struct {
	UID, State, Body string
	Version          int
	Due              time.Time
}

type listed struct{ Messages []known }

// fills puts a value into the field of a form.
func (p *page) fills(t *testing.T, field, value string) {
	t.Helper()
	p.do(t, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector(%q).value = %q`, field, value)))
}

// One message from its push to its end: what it was, what comes, and each act with its true answer.
func TestConsole_ShowsALifeAndActsOnIt(t *testing.T) {
	t.Parallel()
	d, server := dev(t, "")
	id := `<b>order</b>&"7131`
	message := answer[known](t, "POST", server+"/v1/messages", fmt.Sprintf(`{"topic":"jobs.render","id":%q,
		"delay":"0s","deliver":"pull","retry":"1ms,1h,2h",
		"body":"{\"total\":12345678901234567890123,\"ok\":{}}","headers":{"A":"b"}}`, id))
	fails(t, server, "jobs.render", "nack", "ledger is locked")
	fails(t, server, "jobs.render", "nack", "ledger is locked")
	now := func() known { t.Helper(); return answer[known](t, "GET", server+"/v1/messages/"+message.UID, "") }

	p := open(t, server+"/console")
	p.sees(t, "All is well")
	p.do(t, chromedp.KeyEvent("/"))
	lab.Eventually(t, patience, func() error {
		if on := evaluate[string](t, p, `document.activeElement.id`); on != "search" {
			return fmt.Errorf("the focus is on %q", on)
		}
		return nil
	})
	p.fills(t, "#search", "") // a browser's own key leaves no character
	p.do(t, chromedp.SendKeys(chromedp.CSS("#search"), id+kb.Enter))
	p.sees(t, id+" jobs.render waiting retry")
	p.click(t, id)
	p.sees(t, "waiting in 59m ")
	p.sees(t, "Why it is here: it was tried, and waits for try 3.")
	p.sees(t, "try 2 failed consumer billing: sent back: ledger is locked")
	p.sees(t, "The body has 41 bytes.")
	p.click(t, "json")
	p.sees(t, `{ "total": 12345678901234567890123, "ok": {} }`)
	p.auditAll(t, p.at(t))
	p.do(t, chromedp.Evaluate[chromedp.Void](`location.hash = "#/message?id=nobody-knows-it"`))
	p.sees(t, "No message nobody-knows-it Nothing was found.")
	p.audit(t, 320, "light")
	p.do(t, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`location.hash = "#/message?id=%s"`, message.UID)))

	p.click(t, "Move…")
	p.sees(t, "Due from now in")
	p.fills(t, "dialog input", "soon")
	p.click(t, "Move")
	p.sees(t, "delay") // what is wrong is said, and the field keeps its text
	p.fills(t, "dialog input", "3h")
	p.click(t, "Move")
	p.sees(t, "It is due ")
	p.click(t, "Close")
	p.sees(t, "changed rescheduled")
	if due := time.Until(now().Due); due < 179*time.Minute || due > 3*time.Hour {
		t.Errorf("it is due in %s", due)
	}

	// Another operator is first: nothing of theirs is overwritten before it was seen, and what was typed is not lost.
	p.click(t, "Edit…")
	p.sees(t, "Body")
	if out, code := d.Cli(t, "reschedule", message.UID, "--delay", "4h"); code != 0 {
		t.Fatal(out)
	}
	p.fills(t, "dialog textarea", "mended")
	p.click(t, "Save")
	p.sees(t, "Somebody else has changed it. Version")
	p.sees(t, "total") // theirs
	p.audit(t, 320, "light")
	if body := now().Body; !strings.Contains(body, "total") {
		t.Errorf("a stale edit was made: %s", body)
	}
	p.click(t, "Save")
	p.sees(t, "Consumers had it, so it goes on as t-")
	next := evaluate[string](t, p, `document.querySelector("dialog a").textContent`)
	p.click(t, next)
	p.click(t, "Close")
	p.sees(t, "accepted as a requeue")
	if m := answer[known](t, "GET", server+"/v1/messages/"+next, ""); m.Body != "mended" {
		t.Errorf("the new one is %+v", m)
	}

	p.click(t, "Cancel…")
	p.sees(t, "It has not been tried yet.")
	p.audit(t, 320, "dark")
	p.click(t, "Cancel the message")
	p.sees(t, "It is canceled: it will not be delivered.")
	p.click(t, "Close")
	p.sees(t, "How it ended: ")
	if n := evaluate[int](t, p, `document.querySelectorAll("main .acts button").length`); n != 0 {
		t.Errorf("of what has ended %d acts are offered", n)
	}
	p.forgets() // nobody-knows-it, a delay of "soon", a stale version
	if p.said() != "" {
		t.Errorf("went wrong: %s", p.said())
	}
}

// A push that was refused is mended; a topic is paused and let go.
func TestConsole_MendsAndPauses(t *testing.T) {
	t.Parallel()
	d, server := dev(t, `webhook: {allow: ["127.0.0.0/8"]}
topics:
  - pattern: "hooks.*"
    deliver: webhook
    retry: 1h
    webhook: {url: "http://127.0.0.1:1/x", secrets: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}
`)
	nc, err := nats.Connect("nats://" + d.Nats)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	refused := &nats.Msg{Subject: "delayed.orders.x", Data: []byte("hello"), Header: nats.Header{
		"Tarry-Delay": {"<i>soon</i>"}}}
	site.PublishStored(t, nc, refused)
	post(t, server+"/v1/messages", map[string]any{"topic": "orders.y", "delay": "20m", "body": "x"})
	post(t, server+"/v1/messages", map[string]any{"topic": "hooks.a", "delay": "0s", "body": "x"})
	p := open(t, server+"/console#/rejected")
	p.sees(t, `orders.x – invalid_delay: Tarry-Delay "<i>soon</i>" is not a duration`)
	p.sees(t, "Rejected 1")
	p.tree(t, "rejected")
	p.auditAll(t, "#/rejected", "#/topics", "#/cluster")
	p.do(t, chromedp.Evaluate[chromedp.Void](`location.hash = "#/rejected"`))
	p.sees(t, "NATS acknowledged these pushes")
	p.click(t, "Push again…")
	p.sees(t, "Push orders.x again")
	p.audit(t, 320, "light")
	p.fills(t, `dialog input[name="set"]`, "nonsense")
	p.click(t, "Push again")
	p.sees(t, "A header is a name, a colon and a value")
	p.fills(t, `dialog input[name="set"]`, "Tarry-Delay: 2h")
	p.click(t, "Push again")
	p.sees(t, "It is the message t-")
	p.click(t, "Close")
	p.sees(t, "Nothing was refused.")

	p.do(t, chromedp.EmulateViewport(1360, 900), chromedp.Evaluate[chromedp.Void](`location.hash = "#/topics"`))
	p.sees(t, "orders.x 1 ")
	p.sees(t, "hooks.*: deliver webhook, retry 1h")
	p.tree(t, "topics")
	p.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelector(".head input").value = "ders.y";
		document.querySelector(".head input").dispatchEvent(new Event("input"))`))
	lab.Eventually(t, patience, func() error {
		if n := evaluate[int](t, p, `document.querySelector("main table").tBodies[0].rows.length`); n != 1 {
			return fmt.Errorf("%d topics have it in their name", n)
		}
		return nil
	})
	p.click(t, "Pause…")
	p.sees(t, "Pause orders.y? What falls due on it waits until it is resumed.")
	p.sees(t, "In the next hour 1 falls due.")
	p.click(t, "Pause")
	p.sees(t, "It is paused.")
	p.click(t, "Close")
	p.sees(t, "orders.y is paused by 127.0.0.1, for ")
	p.sees(t, "orders.y is paused Resume…") // in its row: nothing is due, and it cannot be paused again
	p.do(t, chromedp.Evaluate[chromedp.Void](`location.hash = "#/overview"`))
	p.sees(t, "orders.y is paused: what falls due there waits, by 127.0.0.1, for ")
	p.click(t, "waiting")
	p.sees(t, "orders.y")
	p.click(t, answer[listed](t, "GET", server+"/v1/messages?topic=orders.y", "").Messages[0].UID)
	p.sees(t, "it is not due yet; orders.y is paused, and will hold it back")
	p.do(t, chromedp.Evaluate[chromedp.Void](`location.hash = "#/topics?part=ders.y"`))
	p.click(t, "Resume…")
	p.sees(t, "Resume orders.y? What is due leaves at once")
	p.click(t, "Resume")
	p.sees(t, "It is no longer paused.")
	p.click(t, "Close")

	p.do(t, chromedp.Evaluate[chromedp.Void](`location.hash = "#/actions"`))
	p.sees(t, "anonymous resume topic orders.y done 127.0.0.1:")
	p.sees(t, "anonymous requeue rejects")
	p.sees(t, "orders.x was refused: invalid_delay")
	p.sees(t, "dev leads, term 1")
	p.do(t, chromedp.Evaluate[chromedp.Void](`location.hash = "#/pull"`))
	p.sees(t, "hooks.* http://127.0.0.1:1 ")
	p.auditAll(t, "#/actions", "#/pull")
	p.do(t, chromedp.EmulateViewport(1360, 900), chromedp.Evaluate[chromedp.Void](`location.hash = "#/cluster"`))
	p.sees(t, "dev leads term 1, for ")
	p.tree(t, "cluster")
	if off := evaluate[bool](t, p, `document.querySelector(".head button").disabled`); !off {
		t.Error("the only instance may step down")
	}
	if p.said() != "" {
		t.Errorf("went wrong: %s", p.said())
	}
}

// Acts on many say what they take, stand by their bounds, and tell how far they came when they are broken off.
func TestConsole_ActsOnManySayWhatTheyDo(t *testing.T) {
	t.Parallel()
	d, _ := dev(t, "")
	server := "http://" + d.Addr
	var cut atomic.Bool
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: d.Addr})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = d.Addr
		if strings.HasSuffix(r.URL.Path, "/v1/messages/reschedule") && cut.Load() { // all but the end comes
			held := httptest.NewRecorder()
			proxy.ServeHTTP(held, r)
			_, _ = io.WriteString(w, `{"progress":{"looked":1,"matched":1,"done":1,"in_flight":0,"maybe_delivered":0,`+
				`"ended":0,"failed":0}}`+"\n")
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	for _, delay := range []string{"30s", "50s", "70s", "1h"} {
		post(t, server+"/v1/messages", map[string]any{"topic": "bound.a", "delay": delay, "body": "x", "key": "k"})
	}
	count := func(query string) int {
		t.Helper()
		return len(answer[listed](t, "GET", server+"/v1/messages?"+query, "").Messages)
	}
	p := open(t, front.URL+"/console#/messages?topic=bound.a&due_to=60s")
	p.sees(t, "bound.a waiting")
	p.fills(t, `.filters input[name="key"]`, "typed-and-not-shown")
	p.click(t, "Cancel all…")
	p.sees(t, "2 messages match. topic bound.a due to")
	if text := evaluate[string](t, p, `document.querySelector("dialog").innerText`); strings.Contains(text, "key") {
		t.Errorf("the dialog says %s", text)
	}
	lab.Eventually(t, patience, func() error { // the bound, counted from now, would take the third too by then
		if n := count("topic=bound.a&state=waiting&due_to=60s"); n != 3 {
			return fmt.Errorf("%d fall due within a minute", n)
		}
		return nil
	})
	// So would one that is pushed after the count.
	post(t, server+"/v1/messages", map[string]any{"topic": "bound.a", "delay": "20s", "body": "x"})
	p.fills(t, `dialog input[name="typed"]`, "bound.a")
	p.click(t, "Cancel 2")
	p.sees(t, "canceled 2")
	p.click(t, "Close")
	if n := count("topic=bound.a&state=waiting"); n != 3 {
		t.Errorf("%d wait", n)
	}

	p.do(t, chromedp.Evaluate[chromedp.Void](`location.hash = "#/messages?key=k"`))
	p.sees(t, "bound.a waiting")
	p.click(t, "Move all…")
	p.sees(t, "2 messages match. key k")
	cut.Store(true)
	p.fills(t, `dialog input[name="shift"]`, "1h")
	p.click(t, "Move 2")
	p.sees(t, "It was broken off: No instance answers this page. At least this was done by then.")
	p.sees(t, "Look at the list before you repeat it: what was moved would be moved once more.")
	p.sees(t, "moved 1")
	p.click(t, "Close")

	// Nothing that was not touched is changed: the line ends of a body, when it is requeued.
	body := "a\r\nb\r\n"
	post(t, server+"/v1/messages", map[string]any{"topic": "jobs.x", "id": "crlf", "delay": "0s", "deliver": "pull",
		"body": body})
	fails(t, server, "jobs.x", "dead", "no")
	p.do(t, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`location.hash = "#/message?id=%s"`,
		answer[known](t, "GET", server+"/v1/messages/crlf", "").UID)))
	p.click(t, p.shows(t, "Requeue…"))
	p.click(t, p.shows(t, "Requeue"))
	p.sees(t, "It goes on as t-")
	if m := answer[known](t, "GET", server+"/v1/messages/crlf?topic=jobs.x", ""); m.Body != body || m.State == "dead" {
		t.Errorf("the requeued one is %s, with %q", m.State, m.Body)
	}
}

// shows waits until a link or button has a text, and returns it.
func (p *page) shows(t *testing.T, text string) string {
	t.Helper()
	lab.Eventually(t, patience, func() error {
		if !evaluate[bool](t, p, fmt.Sprintf(
			`[...document.querySelectorAll("a, button")].some((e) => e.textContent.trim() === %q)`, text)) {
			return fmt.Errorf("nothing says %q", text)
		}
		return nil
	})
	return text
}

// What failed is requeued by its cause, while more of it die, and the result says what was done.
func TestConsole_RequeuesACause(t *testing.T) {
	t.Parallel()
	_, server := dev(t, "")
	for n := range 12 {
		post(t, server+"/v1/messages", map[string]any{"topic": "crm.sync", "delay": "0s", "deliver": "pull", "body": "x"})
		fails(t, server, "crm.sync", "dead", fmt.Sprintf("HTTP %d from <i>crm</i>", 500+n))
	}
	post(t, server+"/v1/messages", map[string]any{"topic": "other", "delay": "0s", "deliver": "pull", "body": "x"})
	fails(t, server, "other", "dead", "")
	p := open(t, server+"/console#/failed")
	p.sees(t, "13 are dead, of 2 causes; 13 died in the last hour.")
	p.sees(t, "12 crm.sync consumer billing: HTTP # from <i>crm</i>")
	p.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelector(".what").click()`))
	p.sees(t, "HTTP 511 from <i>crm</i>")
	p.tree(t, "failed")
	p.auditAll(t, p.at(t), "#/messages?state=dead&topic="+url.QueryEscape("crm.>"))
	p.do(t, chromedp.Evaluate[chromedp.Void](`location.hash = "#/failed"`))

	p.sees(t, "are dead, of 2 causes")
	p.click(t, "Requeue…")
	p.sees(t, "12 messages match.")
	p.audit(t, 320, "light")
	post(t, server+"/v1/messages", map[string]any{"topic": "crm.sync", "delay": "0s", "deliver": "pull", "body": "x"})
	fails(t, server, "crm.sync", "dead", "HTTP 599 from <i>crm</i>") // it is not touched
	p.fills(t, `select[name="spread"]`, "1h")
	p.click(t, "Requeue 12")
	p.sees(t, "requeued 12")
	p.click(t, "Close")
	p.sees(t, "2 are dead, of 2 causes")
	waits := answer[listed](t, "GET", server+"/v1/messages?topic=crm.sync&state=waiting,ready", "").Messages
	var last time.Duration
	for _, m := range waits {
		last = max(last, time.Until(m.Due))
	}
	if len(waits) != 12 || last < 53*time.Minute || last > 55*time.Minute {
		t.Errorf("%d wait, the last for %s", len(waits), last)
	}

	p.click(t, "Purge…")
	p.sees(t, "They end for good, and cannot be requeued.")
	p.click(t, "Purge 1")
	p.sees(t, "This is not what is to be typed.")
	topic := evaluate[string](t, p, `document.querySelector("dialog form b .name").textContent`)
	p.fills(t, `dialog input[name="typed"]`, topic)
	p.click(t, "Purge 1")
	p.sees(t, "purged 1")
	p.click(t, "Close")
	p.sees(t, "1 is dead, of 1 cause")

	// Many are asked for twice, and all of them are told.
	many := make([]any, 1000)
	for n := range 5 {
		for i := range many {
			many[i] = map[string]any{"topic": "many.x", "id": fmt.Sprint(n, "-", i), "attempt": 3, "retry": "1m",
				"reason": fmt.Sprint("HTTP ", i)}
		}
		post(t, server+"/v1/messages/batch", map[string]any{"messages": many})
	}
	p.sees(t, "5 001 are dead, of 2 causes")
	p.click(t, "Requeue…")
	p.sees(t, "5 000 messages match.")
	p.click(t, "Requeue 5\u2009000")
	p.sees(t, "This is not what is to be typed.")
	p.fills(t, `dialog input[name="typed"]`, "many.x")
	p.click(t, "Requeue 5\u2009000")
	p.sees(t, "requeued 5 000")
	p.click(t, "Close")
	p.sees(t, "1 is dead, of 1 cause")
	if p.said() != "" {
		t.Errorf("went wrong: %s", p.said())
	}
}

// Who holds what of a topic is seen, and freed; what happened stands on the Overview.
func TestConsole_FreesALease(t *testing.T) {
	t.Parallel()
	_, server := dev(t, "")
	for _, id := range []string{"<i>render</i> 1", "render 2"} {
		post(t, server+"/v1/messages", map[string]any{"topic": "jobs.render", "id": id, "delay": "0s", "deliver": "pull"})
	}
	post(t, server+"/v1/messages", map[string]any{"topic": "jobs.thumb", "delay": "0s", "deliver": "pull"})
	fails(t, server, "jobs.thumb", "dead", "unknown <i>field</i>")
	p := open(t, server+"/console#/pull")
	p.sees(t, "jobs.render 2 ")
	post(t, server+"/v1/topics/jobs.render/pull", map[string]any{"max": 1, "wait": "10s", "lease": "1h",
		"consumer": "r-5"})
	p.sees(t, "Leases of jobs.render the soonest end first")
	p.sees(t, " in 59m ")
	p.sees(t, "<i>render</i> 1 r-5 ")
	p.tree(t, "pull")
	p.auditAll(t, "#/pull", "#/pull?topic=jobs.render", "#/overview")
	p.do(t, chromedp.EmulateViewport(1360, 900), chromedp.Evaluate[chromedp.Void](`location.hash = "#/pull"`))
	p.sees(t, "<i>render</i> 1 r-5 ")
	p.click(t, "Free…")
	p.sees(t, "r-5 loses its lease, and the message is ready at once.")
	p.click(t, "Free it")
	p.sees(t, "It is ready for another consumer.")
	p.click(t, "Close")
	p.sees(t, "jobs.render 2 ")
	p.click(t, "Overview")
	p.sees(t, " of jobs.thumb died: unknown <i>field</i>")
	p.click(t, "All")
	p.sees(t, "anonymous release id t-")
	p.tree(t, "actions")
	if p.said() != "" {
		t.Errorf("went wrong: %s", p.said())
	}
}
