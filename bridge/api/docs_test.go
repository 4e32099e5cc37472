package api_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
)

var (
	// references are what HTML loads, and what it links to.
	references = regexp.MustCompile(`(?i)\b(?:src|href|action|data|srcset|poster)\s*=\s*["']?([^"'\s>]+)`)
	// styleLoads are what a style sheet loads.
	styleLoads = regexp.MustCompile(`(?i)(?:url\(\s*["']?([^"')]+)|@import\s+["']([^"']+))`)
)

// namedHosts are the hosts that Swagger UI's script mentions and loads nothing from: names of XML and JSON schemas,
// documentation in comments and messages, examples, what relative URLs are tried on, and the validator, which the page
// turns off. With an update every new one has to be looked at; the policy of the page would not let it be loaded
// anyway.
var namedHosts = []string{
	"base", "i.test", "datatracker.ietf.org", "example.com", "fb.me", "github.com", "instagram.com", "json-schema.org",
	"reactjs.org", "redux.js.org", "soundcloud.com", "spdx.org",
	"spec.openapis.org", "swagger.io", "twitter.com", "validator.swagger.io", "vladimirgorej.com", "www.facebook.com",
	"www.rfc-editor.org", "www.tiktok.com", "www.w3.org",
}

// hostsIn are the hosts of all URLs in a text, with a scheme or, right behind a quote, without. It looks for the
// slashes alone: the script is large.
func hostsIn(text string) (found []string) {
	text = strings.ReplaceAll(text, `\/`, "/")
	for {
		before, after, more := strings.Cut(text, "//")
		if !more {
			return found
		}
		host := after[:len(after)-len(
			strings.TrimLeft(after, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"))]
		scheme := strings.ToLower(before[max(0, len(before)-6):])
		bare := strings.HasSuffix(before, `"`) || strings.HasSuffix(before, "'") || strings.HasSuffix(before, "`") ||
			strings.HasSuffix(before, "(")
		if strings.Trim(host, ".-") != "" && (bare && strings.Contains(host, ".") || slices.ContainsFunc([]string{
			"http:", "https:", "ws:", "wss:", "ftp:"}, func(s string) bool { return strings.HasSuffix(scheme, s) })) {
			found = append(found, strings.ToLower(host))
		}
		text = after
	}
}

func TestDocs_LoadsEverythingFromHere(t *testing.T) {
	t.Parallel()
	d := open(t)
	page := serve(d, asked(t, "GET", "/docs", ""))
	if got := page.Header().Get("Content-Type"); page.Code != 200 || got != "text/html; charset=utf-8" {
		t.Fatalf("got %d, %s", page.Code, got)
	}
	base, err := url.Parse("/docs")
	if err != nil {
		t.Fatal(err)
	}
	loaded := map[string]string{}
	for _, m := range references.FindAllStringSubmatch(page.Body.String(), -1) {
		at, err := base.Parse(m[1])
		if err != nil || at.Host != "" || at.Scheme != "" {
			t.Errorf("the page refers to %s: %v", m[1], err)
			continue
		}
		w := serve(d, asked(t, "GET", at.Path, ""))
		if w.Code != 200 || w.Body.Len() == 0 {
			t.Errorf("%s: got %d, %d bytes", at.Path, w.Code, w.Body.Len())
		}
		loaded[at.Path] = w.Body.String()
		if media := w.Header().Get("Content-Type"); strings.HasPrefix(media, "image/") {
			continue
		}
		for _, host := range hostsIn(w.Body.String()) {
			known := at.Path == "/docs/swagger-ui-bundle.js" && slices.Contains(namedHosts, host)
			inImage := at.Path == "/docs/swagger-ui.css" && host == "www.w3.org" // a namespace within data:
			if at.Path != "/openapi.json" && !known && !inImage {
				t.Errorf("%s names the host %s", at.Path, host)
			}
		}
	}
	for _, path := range []string{"/docs/start.js", "/docs/swagger-ui.css", "/docs/swagger-ui-bundle.js",
		"/docs/favicon-32x32.png", "/openapi.json"} {
		if loaded[path] == "" {
			t.Errorf("the page does not refer to %s", path)
		}
	}
	for _, m := range styleLoads.FindAllStringSubmatch(loaded["/docs/swagger-ui.css"], -1) {
		if !strings.HasPrefix(m[1], "data:") {
			t.Errorf("the style sheet loads %q", m[0])
		}
	}
	if html := page.Body.String(); len(hostsIn(html)) > 0 || strings.Contains(html, "<style") ||
		strings.Count(html, "<script") != 2 || regexp.MustCompile(`(?i)\s(on\w+|style)=`).MatchString(html) {
		t.Errorf("the page has a script or style of its own, or names a host: %s", html)
	}
	if start := loaded["/docs/start.js"]; !strings.Contains(start, "validatorUrl: null") ||
		!strings.Contains(start, `url: "openapi.json"`) {
		t.Errorf("the page's script: %s", start)
	}
}

func TestDocs_LetsNothingElseIn(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, path := range []string{"/docs", "/docs/start.js", "/docs/swagger-ui-bundle.js"} {
		h := serve(d, asked(t, "GET", path, "")).Header()
		allowed := map[string]string{}
		for directive := range strings.SplitSeq(h.Get("Content-Security-Policy"), ";") {
			name, sources, _ := strings.Cut(strings.TrimSpace(directive), " ")
			allowed[name] = sources
		}
		for name, want := range map[string]string{"default-src": "'none'", "script-src": "'self'",
			"style-src": "'self'", "connect-src": "'self'", "img-src": "'self' data:",
			"base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'"} {
			if allowed[name] != want {
				t.Errorf("%s: %s is %q, want %q", path, name, allowed[name], want)
			}
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: headers %v", path, h)
		}
	}
	for _, path := range []string{"/docs/index.html", "/docs/swagger-ui-bundle.js.gz", "/docs/oauth2-redirect.html.gz",
		"/docs/..%2fdocs.go", "/docs/%2e%2e", "/docs/a/b", "/docs/nothing"} {
		call(t, d, "GET", path, "").want(t, http.StatusNotFound, "unknown_route")
	}
}

func TestDocs_PacksWhatIsLargeForWhoeverUnpacksIt(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, path := range []string{"/docs/swagger-ui.css", "/docs/swagger-ui-bundle.js"} {
		plain := serve(d, asked(t, "GET", path, ""))
		packed := serve(d, asked(t, "GET", path, "", "Accept-Encoding", "br, GZIP;q=0.5"))
		if plain.Header().Get("Content-Encoding") != "" || packed.Header().Get("Content-Encoding") != "gzip" ||
			packed.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: headers %v and %v", path, plain.Header(), packed.Header())
		}
		from, err := gzip.NewReader(packed.Body)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(from); err != nil || string(text) != plain.Body.String() || len(text) < 100_000 {
			t.Errorf("%s: %d bytes unpacked, %d plain: %v", path, len(text), plain.Body.Len(), err)
		}
		for _, not := range []string{"gzip;q=0", "gzip; q=0.000", "br", "*"} {
			if w := serve(d, asked(t, "GET", path, "", "Accept-Encoding", not)); w.Header().Get(
				"Content-Encoding") != "" {
				t.Errorf("%s: packed for %q", path, not)
			}
		}
	}
}

// The console asks for nothing but operations, with the words that they have.
func TestConsole_AsksForOperations(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *api.Config) { c.Console = true })
	calls := serve(d, asked(t, "GET", "/console/calls.mjs", ""))
	routes := regexp.MustCompile(`(\w+): '([A-Z]+ /[^']+)'`).FindAllStringSubmatch(calls.Body.String(), -1)
	if calls.Code != 200 || len(routes) < 3 {
		t.Fatalf("%d, routes %v", calls.Code, routes)
	}
	for _, route := range routes {
		if !slices.ContainsFunc(d.Ops().Table(), func(op *ops.Operation) bool {
			return op.Route == route[2] && strings.HasPrefix(route[1], op.Name) // me has no name
		}) {
			t.Errorf("there is no operation %s at %s", route[1], route[2])
		}
	}
}

func TestConsole_IsServedWhereTheSettingsSaySo(t *testing.T) {
	t.Parallel()
	on, off := open(t, func(c *api.Config) { c.Console = true }), open(t)
	locked := open(t, func(c *api.Config) { c.Console, c.Token = true, "a-token-of-sixteen" })
	page := serve(locked, asked(t, "GET", "/console", ""))
	if page.Code != 200 || !strings.Contains(page.Body.String(), `src="console/main.mjs"`) {
		t.Errorf("%d %s", page.Code, page.Body)
	}
	for _, c := range []struct {
		server *door
		target string
		says   string
	}{{on, "/console/", "see /v1/messages, /v1/cluster, /console for operators"},
		{on, "/console/nothing", "the page is at /console"},
		{off, "/console", "see /v1/messages, /v1/cluster, /docs for all"},
		{off, "/", "see /v1/messages, /v1/cluster, /docs for all"}} {
		if a := call(t, c.server, "GET", c.target, "").want(t, 404, "unknown_route"); !strings.Contains(a.detail(), c.says) {
			t.Errorf("%s: %s", c.target, a.detail())
		}
	}
	call(t, on, "GET", "/console?x=1", "").want(t, 400, "unknown_parameter")
}

// docs/api.md has each route of the API, or the one above it and its last part.
func TestDocs_HaveEveryRoute(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`{\w+}`) // by different words
	text := named.ReplaceAllString(string(page), "{}")
	for _, pattern := range open(t).Patterns() {
		_, route, _ := strings.Cut(named.ReplaceAllString(pattern, "{}"), " ")
		above, last := path.Split(route)
		if strings.HasPrefix(route, "/v1/") && !strings.Contains(text, route) &&
			!(strings.Contains(text, above) && strings.Contains(text, "`/"+last+"`")) {
			t.Errorf("docs/api.md has no %s", pattern)
		}
	}
}
