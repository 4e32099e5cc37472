package browser_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

var update = flag.Bool("update", false, "take the picture of the README and the trees anew")

// screens are addresses at which a scene is looked at.
var screens = []string{"#/overview", "#/due?span=hour&at=3", "#/due?span=month", "#/stuck"}

// dev starts tarry dev with settings.
func dev(t *testing.T, settings string) (d *site.Dev, server string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tarry.yaml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	d = site.StartDev(t, "dev", "--config", file)
	d.Ready(t)
	return d, "http://" + d.Addr
}

// post makes a call that must succeed.
func post(t *testing.T, url string, body any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(url, "application/json", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	if resp.StatusCode >= 300 || bytes.Contains(answer, []byte(`"error"`)) {
		t.Fatalf("%s: %d %.1000s", url, resp.StatusCode, answer)
	}
}

type push struct {
	Topic string `json:"topic"`
	Delay string `json:"delay"`
	Body  string `json:"body"`
}

func pushAll(t *testing.T, server string, pushes []push) {
	t.Helper()
	post(t, server+"/v1/messages/batch", map[string]any{"messages": pushes})
}

// sees waits until the page shows a text, wherever its parts stand.
func (p *page) sees(t *testing.T, want string) {
	t.Helper()
	lab.Eventually(t, patience, func() error {
		if text := evaluate[string](t, p, `document.body.innerText.replace(/\s+/g, " ")`); !strings.Contains(text, want) {
			return fmt.Errorf("the page has no %q: %s", want, text)
		}
		return nil
	})
}

// click clicks the link or button with a text.
func (p *page) click(t *testing.T, text string) {
	t.Helper()
	p.do(t, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(
		`[...document.querySelectorAll("a, button")].find((e) => e.textContent.trim() === %q).click()`, text)))
}

// fits holds that a page does not scroll sideways at a width.
func (p *page) fits(t *testing.T, width int64, colours string) {
	t.Helper()
	p.do(t, chromedp.EmulateViewport(width, 900), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: colours}}})
		return err
	}))
	// The page draws anew when its window changes.
	room := evaluate[[2]int64](t, p, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() =>
		done([document.documentElement.scrollWidth, innerWidth]))))`)
	if room[0] > room[1] {
		t.Errorf("%s at %d: %d wide, and the window is %d", p.at(t), width, room[0], room[1])
	}
}

// audit holds that a page fits, and that axe finds nothing, at a width, in light or dark.
func (p *page) audit(t *testing.T, width int64, colours string) {
	t.Helper()
	p.fits(t, width, colours)
	evaluate[bool](t, p, `window.axe || (() => {`+axe(t)+`})(), true`)
	found := evaluate[[]string](t, p, `axe.run().then((found) => found.violations.map((v) =>
		v.id + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " " + n.failureSummary).join("; ")))`)
	if len(found) > 0 {
		t.Errorf("%s at %d in %s: %s", p.at(t), width, colours, strings.Join(found, "\n"))
	}
	p.picture(t, fmt.Sprintf("%.100s-%d-%s.png", strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, p.at(t)), "-"), width, colours))
}

// axe is axe-core 4.14.1 (https://github.com/dequelabs/axe-core, MPL 2.0), as npm has it.
func axe(t *testing.T) string {
	t.Helper()
	packed, err := os.Open("testdata/axe.min.js.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (p *page) at(t *testing.T) string { return evaluate[string](t, p, `location.hash`) }

// auditAll looks at screens of a scene.
func (p *page) auditAll(t *testing.T, screens ...string) {
	t.Helper()
	for _, screen := range screens {
		p.do(t, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`location.hash = %q`, screen)))
		lab.Eventually(t, patience, func() error {
			if !evaluate[bool](t, p, `!document.querySelector(".ghost")`) {
				return fmt.Errorf("%s is still loading", screen)
			}
			return nil
		})
		p.fits(t, 360, "dark") // drawn as at 320
		for _, width := range []int64{320, 1360} {
			for _, colours := range []string{"light", "dark"} {
				p.audit(t, width, colours)
			}
		}
	}
	if p.said() != "" {
		t.Errorf("went wrong: %s", p.said())
	}
}

// picture takes a picture of the window, for people: an artifact of the test, or a file of that path.
func (p *page) picture(t *testing.T, name string) {
	t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	image, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		if !strings.Contains(name, "/") {
			name = filepath.Join(t.ArtifactDir(), name)
		}
		err = os.WriteFile(name, image, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A new user's first message is seen waiting, counting down and arriving.
func TestConsole_ShowsTheFirstMessageUntilItArrives(t *testing.T) {
	t.Parallel()
	d, server := dev(t, "")
	p := open(t, server+"/console")
	p.sees(t, "All is well, and nothing waits. Push a first message, and watch it here.")
	p.sees(t, "tarry push demo.hello --delay 20s --body hello --server "+server)
	p.tree(t, "overview-empty")
	pushed := time.Now()
	if out, code := d.Cli(t, "push", "demo.hello", "--delay", "20s", "--body", "hello"); code != 0 {
		t.Fatal(out)
	}
	p.sees(t, "All is well. Nothing is late; 1 message waits, and the next leaves in ")
	p.sees(t, "1 falls due in the next hour")
	p.sees(t, "All is well, and nothing waits.")
	p.sees(t, "1 left in the last hour")
	p.sees(t, "0 fall due in the next hour")
	p.sees(t, "accepted 1 delivered 1")
	p.sees(t, "99 of 100 within about ")
	if took := time.Since(pushed); took < 20*time.Second {
		t.Errorf("it had arrived after %s", took)
	}
	p.auditAll(t, screens...)
	if *update {
		filmFirst(t)
	}
}

// filmFirst shows the same to who reads docs/console.md.
func filmFirst(t *testing.T) {
	d, server := dev(t, "")
	p := open(t, server+"/console")
	p.do(t, chromedp.EmulateViewport(960, 540))
	p.sees(t, "All is well, and nothing waits. Push a first message, and watch it here.")
	p.film(t, "../../docs/console.gif", 32, map[int]func(){
		3: func() {
			if out, code := d.Cli(t, "push", "demo.hello", "--delay", "20s", "--body", "hello", "--id", "first"); code != 0 {
				t.Fatal(out)
			}
		},
		9:  func() { p.click(t, "waiting") },
		12: func() { p.click(t, "first") },
		19: func() { p.click(t, "Overview") },
	})
}

// A busy day: messages of many topics, some held back, and a rate that is too low. Names are what others make of them.
func TestConsole_ShowsWhatFallsDue(t *testing.T) {
	t.Parallel()
	_, server := dev(t, `namespace: shop
topics:
  - {pattern: "mail.*", rate: 2}
  - {pattern: "jobs.>", deliver: pull}
`)
	post(t, server+"/v1/topics/mail.welcome/pause", map[string]any{})
	hostile := []string{`<img/src=x/onerror=alert(1)//.עברית`, "deep." + strings.Repeat("0123456789", 24)}
	var pushes []push
	random := rand.New(rand.NewPCG(1, 2)) // the same each time
	within := func(least, most int) string { return fmt.Sprintf("%ds", least+random.IntN(most-least)) }
	for n := range 600 {
		pushes = append(pushes, push{[]string{"orders.remind", "carts.abandoned"}[random.IntN(5)/3], within(600, 3500), "x"})
		if n%2 == 0 {
			pushes = append(pushes, push{"mail.digest", "20m", "x"}, push{hostile[n/2%2], within(1200, 3300), "x"})
		}
	}
	for range 41 {
		pushes = append(pushes, push{"mail.welcome", "1ms", "x"}, push{"jobs.render", "1ms", "x"})
	}
	for len(pushes) > 0 {
		n := min(len(pushes), 500)
		pushAll(t, server, pushes[:n])
		pushes = pushes[n:]
	}
	p := open(t, server+"/console")
	p.sees(t, "What may leave, leaves on time. 82 due messages are held back.")
	p.sees(t, "mail.welcome is paused, by 127.0.0.1, for ")
	p.sees(t, "the rate of mail.* makes some 2m 2")
	p.click(t, "Resume…")
	p.sees(t, "Resume mail.welcome? 41 messages are due, and leave at once")
	p.click(t, "Back")
	if *update {
		p.do(t, chromedp.EmulateViewport(1200, 560))
		p.picture(t, "../../docs/console.png")
	}
	p.click(t, "By topic")
	p.sees(t, "1 200 messages fall due in the next day. 82 are overdue already.")
	p.sees(t, "Falls due 1 200 Stuck") // what is overdue counts there alone
	if late := evaluate[string](t, p, `document.querySelector(".lede .warntext").textContent`); !regexp.MustCompile(
		`^ What falls due between \d\d:\d\d and \d\d:\d\d leaves up to 2m 2\ds late: it is more than the rate of mail\.\*`).
		MatchString(late) {
		t.Errorf("it says %q", late)
	}
	for _, name := range hostile {
		p.sees(t, name)
	}
	p.sees(t, "Rates that will be too low")
	p.auditAll(t, append(screens, "#/messages?topic="+url.QueryEscape(hostile[0]),
		"#/messages?held=paused&name=mail.welcome", "#/found?text="+url.QueryEscape(hostile[1]))...)

	// By keyboard alone: to the bar after next, and what it holds.
	p.do(t, chromedp.Evaluate[chromedp.Void](`location.hash = "#/due?span=hour"`))
	p.sees(t, "What falls due in the next")
	p.do(t, chromedp.Focus(chromedp.CSS(`[data-step="0"]`)), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.End),
		chromedp.KeyEvent(kb.Home), chromedp.KeyEvent(kb.ArrowRight))
	lab.Eventually(t, patience, func() error {
		if at := p.at(t); !strings.Contains(at, "at=1") {
			return fmt.Errorf("the address is %s", at)
		}
		return nil
	})
	p.sees(t, " fall due open as a list close")
	if on := evaluate[string](t, p, `document.activeElement.dataset.step`); on != "1" {
		t.Errorf("the focus is on step %q", on)
	}

	// On a phone somebody lets the paused ones go.
	p.do(t, chromedp.EmulateViewport(320, 600), chromedp.Evaluate[chromedp.Void](`location.hash = "#/stuck"`))
	p.sees(t, "82 messages are due and wait.")
	p.sees(t, "who pulls it")
	p.sees(t, "The oldest")
	p.click(t, "jobs.render")
	p.sees(t, "The oldest unpulled, jobs.render all")
	if at := p.at(t); at != "#/stuck?held=unpulled&name=jobs.render" {
		t.Errorf("the address is %s", at)
	}
	lab.Eventually(t, patience, func() error { // of which 20 are shown
		rows := evaluate[string](t, p, `[...document.querySelectorAll("main table")].at(-1).innerText`)
		if strings.Count(rows, "jobs.render") != 20 || strings.Contains(rows, "mail.welcome") {
			return errors.New(rows)
		}
		return nil
	})
	p.audit(t, 320, "light")
	p.click(t, "all")
	p.do(t, chromedp.KeyEvent("?"))
	p.sees(t, "Keys / search g o Overview g d Falls due")
	p.audit(t, 320, "dark")
	p.click(t, "Close")
	p.click(t, "Resume…")
	p.sees(t, "Resume mail.welcome? 41 messages are due, and leave at once, unless something else holds it back too.")
	p.audit(t, 320, "light")
	p.click(t, "Resume 41")
	p.sees(t, "It is no longer paused.")
	p.click(t, "Close")
	p.sees(t, "nobody listens on mail.welcome")
	if p.said() != "" {
		t.Errorf("went wrong: %s", p.said())
	}
}

// Each token sees what it may; an unknown one nothing.
func TestConsole_AsksForAToken(t *testing.T) {
	t.Parallel()
	sum := func(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }
	_, server := dev(t, fmt.Sprintf(`http:
  token: the-token-of-all
  tokens:
    - {name: shop, sha256: %s, push: ["orders.>"]}
    - {name: viewer, sha256: %s, read: true}
`, sum("the-token-of-shop"), sum("the-token-of-viewer")))
	authorized := func(path, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer the-token-of-all")
		resp, err := http.DefaultClient.Do(r)
		if err != nil || resp.StatusCode >= 300 {
			t.Fatal(resp, err)
		}
		_ = resp.Body.Close()
	}
	authorized("/v1/topics/orders.x/pause", "")
	authorized("/v1/messages", `{"topic":"orders.x","delay":"1ms","body":"x"}`)
	enters := func(token string) *page {
		p := open(t, server+"/console#/stuck")
		p.sees(t, "This tarry asks callers for a token.")
		p.do(t, chromedp.SendKeys(chromedp.CSS("dialog input"), token+kb.Enter))
		return p
	}
	enters("the-token-of-nobody").sees(t, "This token is not known here.")
	enters("the-token-of-shop").sees(t, "shop may not read")
	p := enters("the-token-of-viewer")
	p.sees(t, "viewer may read")
	p.sees(t, "1 message is due and waits.")
	acts := `document.querySelectorAll("main table .button").length`
	if n := evaluate[int](t, p, acts); n != 0 {
		t.Errorf("a viewer is offered %d acts", n)
	}
	operator := enters("the-token-of-all")
	operator.sees(t, "1 message is due and waits.")
	if n := evaluate[int](t, operator, acts); n != 1 {
		t.Errorf("an operator is offered %d acts", n)
	}
	if address := evaluate[string](t, p, `location.href + document.cookie`); strings.Contains(address, "the-token") {
		t.Errorf("the token stands in %s", address)
	}
	p.click(t, "leave")
	p.sees(t, "This tarry asks callers for a token.")
	p.audit(t, 320, "dark")
}

// A page whose instance is gone says so, and goes on when it is back.
func TestConsole_SaysThatNobodyAnswers(t *testing.T) {
	t.Parallel()
	d, _ := dev(t, "")
	var gone atomic.Bool
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: d.Addr})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host = d.Addr; gone.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	p := open(t, front.URL+"/console")
	p.sees(t, "All is well")
	gone.Store(true)
	p.sees(t, "No instance has answered this page for ")
	p.sees(t, "Held here") // what stood there stays
	if title := evaluate[string](t, p, `document.title`); !strings.HasPrefix(title, "✕ ") {
		t.Errorf("the title is %q", title)
	}
	p.audit(t, 360, "light")
	gone.Store(false)
	p.sees(t, "All is well")
}

// A page that is told what it cannot draw says so, as does one whose tarry is of another version by now.
func TestConsole_SaysWhatItCannotShow(t *testing.T) {
	t.Parallel()
	_, server := dev(t, "")
	p := open(t, server+"/console")
	p.sees(t, "All is well")
	told := func(also string) {
		t.Helper()
		p.do(t, chromedp.Evaluate[chromedp.Void](`window.told = `+also))
	}
	told(`{}`)
	p.do(t, chromedp.Evaluate[chromedp.Void](`{
		const real = window.fetch;
		window.fetch = async (url, asked) => {
			const answer = await real(url, asked);
			if (!String(url).includes('v1/overview')) return answer;
			return new Response(JSON.stringify({ ...await answer.json(), ...window.told }));
		};
	}`))
	told(`{ version: 'v9 <b>' }`)
	p.sees(t, "tarry was updated to v9 <b>: reload this page.")
	if p.said() != "" {
		t.Errorf("went wrong: %s", p.said())
	}
	told(`{ conditions: null }`)
	p.sees(t, "This page cannot show what it was told: ")
	p.sees(t, "Falls due") // the way to the other screens
	told(`{}`)
	p.sees(t, "All is well")
	p.forgets()
}
