package browser_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// Two instances on real servers, which go and come back: the standby's page says what is amiss while it is.
func TestConsole_OnRealServersSaysWhatFails(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	a := s.Start("a")
	b := s.Start("b")
	as := func(method, path string, body any) {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		lab.Eventually(t, patience, func() error {
			r, err := http.NewRequestWithContext(t.Context(), method, "http://"+b.Addr+path, strings.NewReader(string(text)))
			if err != nil {
				return err
			}
			r.Header.Set("Authorization", "Bearer "+site.HTTPToken)
			r.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(r)
			if err == nil {
				_ = resp.Body.Close()
			}
			return err
		})
	}
	as("POST", "/v1/messages", map[string]any{"topic": "real.x", "delay": "1h", "id": "waits"})
	as("POST", "/v1/messages", map[string]any{"topic": "real.y", "delay": "10ms"})
	p := open(t, "http://"+b.Addr+"/console")
	p.sees(t, "This tarry asks callers for a token.")
	p.do(t, chromedp.SendKeys(chromedp.CSS("dialog input"), site.HTTPToken+kb.Enter))
	p.sees(t, "What may leave, leaves on time. 1 due message is held back because nobody listens on real.y.")
	p.sees(t, "nobody listens on real.y")
	p.sees(t, "instances well 2 of 2")
	p.sees(t, "a leads, term 1")
	p.forgets() // that it was refused
	p.auditAll(t, "#/overview", "#/cluster", "#/stuck", "#/messages?topic=real.%3E")

	a.Kill()
	p.do(t, chromedp.EmulateViewport(1360, 900), chromedp.Evaluate[chromedp.Void](`location.hash = "#/overview"`))
	p.sees(t, "No other instance is well: if b dies, nobody takes over.")
	p.sees(t, "leads term 2 b")
	p.sees(t, "b leads, term 2") // what a knew of itself has gone with it
	p.sees(t, "a is gone")
	p.sees(t, "1 gone")
	s.Redis.Pause()
	p.sees(t, "Redis does not answer: nothing is accepted and nothing leaves; what waits is kept in it.")
	p.picture(t, "redis-away.png")
	p.click(t, "Cluster")
	p.sees(t, "b lacks redis: ")
	p.click(t, "Stuck")
	p.sees(t, "What is stuck redis does not answer: nothing is accepted and nothing leaves")
	p.sees(t, "partly ") // what stands there was read before
	p.sees(t, "list lanes: store unavailable: redis")
	if !evaluate[bool](t, p, `document.querySelector("main").classList.contains("stale")`) {
		t.Error("old figures look like new ones")
	}
	p.audit(t, 1360, "dark")
	p.click(t, "Overview")
	s.Redis.Resume()
	p.sees(t, "No other instance is well: if b dies, nobody takes over.")
	a.Restart()
	p.sees(t, "What may leave, leaves on time. 1 due message is held back because nobody listens on real.y.")
	p.click(t, "Cluster")
	p.sees(t, "b leads term 2")
	p.sees(t, "stands by")
	p.sees(t, "live")
}
