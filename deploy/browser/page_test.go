package browser_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// patience is how long a busy machine may take for a page.
const patience = 2 * time.Minute

// page is a tab of a browser that stays open until the test ends.
type page struct {
	ctx context.Context

	mu    sync.Mutex
	wrong []string                     // what a page that works does not do
	asked map[network.RequestID]string // what it has asked for
}

// open shows an address in a browser of its own. The page then notes errors, violations of its policy, requests to
// other hosts, and answers that are none.
func open(t *testing.T, address string) *page {
	t.Helper()
	lab.Needs(t, "chromium-headless-shell")
	home, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium-headless-shell"),
		chromedp.NoSandbox, // root has none
		chromedp.WSURLReadTimeout(patience), chromedp.WindowSize(1360, 900))
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)
	p := &page{ctx: ctx, asked: map[network.RequestID]string{}}
	if err := chromedp.Listen(ctx, func(event any) { p.hear(home.Host, event) }); err != nil {
		t.Fatal(err)
	}
	p.do(t, chromedp.Navigate(address))
	return p
}

// hear notes what is wrong about an event.
func (p *page) hear(host string, event any) {
	wrong := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		wrong = "exception: " + fmt.Sprintf("%+v", e.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			wrong = fmt.Sprintf("console: %s %s", e.Type, e.Args[0].Value)
		}
	case *log.EventEntryAdded: // violations of the policy and answers of 400 and above, too
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			wrong = fmt.Sprintf("log: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		p.mu.Lock()
		p.asked[e.RequestID] = e.Request.Method + " " + e.Request.URL
		p.mu.Unlock()
		at, err := url.Parse(e.Request.URL)
		if err != nil || at.Scheme != "data" && at.Host != host {
			wrong = "request to elsewhere: " + e.Request.URL
		}
	case *network.EventResponseReceived:
		if e.Response.MimeType == "application/x-ndjson" {
			p.mu.Lock()
			p.asked[e.RequestID] = "" // read piece by piece
			p.mu.Unlock()
		}
	case *network.EventLoadingFailed:
		p.mu.Lock()
		asked := p.asked[e.RequestID]
		p.mu.Unlock()
		if asked != "" || e.ErrorText != "net::ERR_ABORTED" { // Chrome says so of streams that were read to their end
			wrong = fmt.Sprintf("loading: %s %s", e.ErrorText, asked)
		}
	}
	if wrong != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.wrong = append(p.wrong, wrong)
	}
}

// do does things in the page, and fails the test if one cannot be done.
func (p *page) do(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatalf("%v; the page says: %s", err, p.said())
	}
}

// evaluate returns the value of an expression in the page.
func evaluate[T any](t *testing.T, p *page, expression string) T {
	t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%v; the page says: %s", err, p.said())
	}
	return value
}

// said returns what was wrong so far.
func (p *page) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.wrong, "; ")
}

// forgets forgets that answers refused something, which the browser logs as an error: the page was to show them.
func (p *page) forgets() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong = slices.DeleteFunc(p.wrong, func(what string) bool {
		return strings.HasPrefix(what, "log: Failed to load resource: the server responded with a status of 4")
	})
}

// A page that goes wrong in each of the ways does not pass for one that works.
func TestPage_HearsWhatGoesWrong(t *testing.T) {
	for what, c := range map[string]struct{ body, want string }{
		"an exception":         {`<script>throw new Error("oh")</script>`, "exception: "},
		"an error":             {`<script>console.error("oh")</script>`, "console: error"},
		"an answer of 404":     {`<img src="/nothing.png">`, "log: Failed to load resource"},
		"a request elsewhere":  {`<img src="http://127.0.0.2:1/x.png">`, "request to elsewhere"},
		"a breach of a policy": {`<img src="data:image/png;base64,AA==">`, "log: Loading the image"},
		"nothing":              {`<p>all is well</p>`, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/icon":
					w.WriteHeader(http.StatusNoContent)
					return
				case "/nothing.png":
					http.NotFound(w, r)
					return
				}
				w.Header().Set("Content-Security-Policy", "img-src http:")
				_, _ = w.Write([]byte(`<!doctype html><title>x</title><link rel="icon" href="/icon">` + c.body))
			}))
			t.Cleanup(server.Close)
			p := open(t, server.URL)
			if c.want == "" {
				if p.said() != "" {
					t.Errorf("heard %q", p.said())
				}
				return
			}
			lab.Eventually(t, patience, func() error {
				if !strings.Contains(p.said(), c.want) {
					return fmt.Errorf("heard %q, want %q", p.said(), c.want)
				}
				return nil
			})
		})
	}
}
