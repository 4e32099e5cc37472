package console_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/bridge/console"
	"github.com/tarry-mq/tarry/scheduler"
)

// serve asks for a file, with headers as pairs of name and value.
func serve(t *testing.T, name string, zip bool, headers ...string) (*httptest.ResponseRecorder, bool) {
	t.Helper()
	files, err := console.New()
	if err != nil {
		t.Fatal(err)
	}
	r, w := httptest.NewRequest("GET", "/console", nil), httptest.NewRecorder()
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return w, files.Serve(w, r, name, zip)
}

// The page names each file that it loads, and each is there, of the media type that a browser demands of it.
func TestServe_HasAllThatThePageLoads(t *testing.T) {
	t.Parallel()
	w, ok := serve(t, console.Page, false)
	if h := w.Header(); !ok || w.Code != 200 || h.Get("Content-Type") != "text/html; charset=utf-8" ||
		h.Get("Content-Security-Policy") != console.Policy || h.Get("X-Content-Type-Options") != "nosniff" ||
		h.Get("Cache-Control") != "no-cache" || h.Get("Content-Encoding") != "" {
		t.Fatalf("%d %v", w.Code, h)
	}
	loads := regexp.MustCompile(`(?:href|src)="console/([^"]+)"`).FindAllStringSubmatch(w.Body.String(), -1)
	seen := map[string]bool{}
	for _, load := range loads {
		seen[load[1]] = true
	}
	for _, load := range loads {
		w, ok := serve(t, load[1], false)
		media := map[string]string{".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}[path.Ext(load[1])]
		if !ok || w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), media) {
			t.Errorf("%s: %t %d %v", load[1], ok, w.Code, w.Header())
		}
		// What a module imports is preloaded: no module waits for another to be read.
		for _, from := range regexp.MustCompile(`from '\./([^']+)'`).FindAllStringSubmatch(w.Body.String(), -1) {
			if !seen[from[1]] {
				t.Errorf("%s imports %s, which the page does not name", load[1], from[1])
			}
		}
	}
	if len(loads) < 8 {
		t.Errorf("the page loads %v", loads)
	}
	for _, name := range []string{"", "nothing.mjs", "../console.go", "console.go", "vendor", "vendor/"} {
		if _, ok := serve(t, name, false); ok {
			t.Errorf("there is %q", name)
		}
	}
}

func TestServe_SaysWhetherAFileHasChanged(t *testing.T) {
	t.Parallel()
	plain, _ := serve(t, "app.css", false)
	zipped, _ := serve(t, "app.css", true)
	r, err := gzip.NewReader(bytes.NewReader(zipped.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || !bytes.Equal(text, plain.Body.Bytes()) ||
		zipped.Header().Get("Content-Encoding") != "gzip" {
		t.Fatalf("unpacked %d bytes, %v", len(text), err)
	}
	tag, other := plain.Header().Get("ETag"), zipped.Header().Get("ETag")
	if tag == other || len(tag) < 10 {
		t.Fatalf("tags %s and %s", tag, other)
	}
	for _, c := range []struct {
		tag  string
		zip  bool
		code int
	}{{tag, false, 304}, {other, true, 304}, {other, false, 200}, {`"x"`, false, 200}} {
		w, _ := serve(t, "app.css", c.zip, "If-None-Match", c.tag)
		if w.Code != c.code || c.code == 304 && w.Body.Len() > 0 {
			t.Errorf("%s: %d with %d bytes", c.tag, w.Code, w.Body.Len())
		}
	}
}

// docs/console.md has a row for each screen of the navigation.
func TestConsole_IsExplained(t *testing.T) {
	t.Parallel()
	main, ok := serve(t, "main.mjs", false)
	page, err := os.ReadFile("../../docs/console.md")
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	row := regexp.MustCompile(`path: '\w+', title: '([^']+)',[^}]+key: '`)
	screens := row.FindAllStringSubmatch(main.Body.String(), -1)
	for _, s := range screens {
		if !bytes.Contains(page, []byte("\n| "+s[1]+" |")) {
			t.Errorf("docs/console.md has no row for %s", s[1])
		}
	}
	if len(screens) != 10 {
		t.Errorf("%d screens", len(screens))
	}
}

// What the API may say by a closed list of words, the page has words of its own for.
func TestConsole_KnowsEachWord(t *testing.T) {
	t.Parallel()
	events, _ := serve(t, "s-actions.mjs", false)
	_, kinds, _ := strings.Cut(events.Body.String(), "const kinds = {")
	kinds, _, _ = strings.Cut(kinds, "};")
	for _, kind := range scheduler.EventKinds() {
		if !strings.Contains(kinds, " "+string(kind)+": [") {
			t.Errorf("s-actions.mjs does not know the event %s", kind)
		}
	}
}
