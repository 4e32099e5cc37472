package api

import (
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/swaggest/swgui/v5/static"

	"github.com/tarry-mq/tarry/bridge/console"
	"github.com/tarry-mq/tarry/bridge/ops"
)

// The page at /docs is Swagger UI, served entirely from this binary: it works without internet access and fetches
// nothing from other hosts. A token typed into it stays in the page's memory.

//go:embed docs/index.html docs/start.js
var ownAssets embed.FS

// description describes this API in OpenAPI 3.1. go generate writes what the table of operations and real answers say:
// parameters, fields, rights, the words of problems. The sentences and the shapes of answers are kept as they stand
// there; tests compare them with the limits and real answers, in both directions. It is JSON rather than YAML because
// it is served unchanged, except for the version.
//
//go:generate go test -vet=off -run ^TestOpenAPI_AnswersAreAsDescribed$|^TestCalls_StandOnTheirPage$ -update .
//go:embed openapi.json
var description []byte

// describe returns the description with the version of this binary.
func describe(version string) []byte {
	if version == "" {
		return description
	}
	return bytes.Replace(description, []byte(`"version": "unknown"`), fmt.Appendf(nil, `"version": %q`, version), 1)
}

// documentRoutes registers the routes of the description and of the page that shows it. Anybody may read both: they
// contain no secret. They are not part of the described API, so they are kept apart from the table of routes.
func (s *Server) documentRoutes() {
	s.mux.Handle("GET /openapi.json", s.serve(plain(func(w http.ResponseWriter, _ *http.Request) error {
		s.Respond(w, http.StatusOK, func(b []byte) []byte { return append(b, describe(s.cfg.Version)...) })
		return nil
	})))
	s.mux.Handle("GET /docs", s.serve(plain(docsPage)))
	s.mux.Handle("GET /docs/{asset}", s.serve(plain(docsAsset)))
}

// consoleRoutes registers the page for operators and what it loads. Anybody may read them: they contain no secret.
func (s *Server) consoleRoutes() error {
	if !s.cfg.Console {
		return nil
	}
	files, err := console.New()
	if err != nil {
		return fmt.Errorf("read the console: %w", err)
	}
	s.mux.Handle("GET /console", s.serve(plain(func(w http.ResponseWriter, r *http.Request) error {
		files.Serve(w, r, console.Page, acceptsGzip(r))
		return nil
	})))
	s.mux.Handle("GET /console/{asset...}", s.serve(plain(func(w http.ResponseWriter, r *http.Request) error {
		if !files.Serve(w, r, r.PathValue("asset"), acceptsGzip(r)) {
			return ops.Refuse(http.StatusNotFound, WordUnknownRoute, "there is nothing at this path; the page is at /console")
		}
		return nil
	})))
	return nil
}

// docsPolicy lets the page load only content of this server. Swagger UI draws its small icons from data: URLs in its
// style sheet.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// docsAssets are the files that the page loads. Swagger UI's are stored compressed with gzip.
var docsAssets = map[string]struct {
	media string
	open  func() (fs.File, error)
	zip   bool
}{
	"start.js":             {"text/javascript; charset=utf-8", own("docs/start.js"), false},
	"swagger-ui.css":       {"text/css; charset=utf-8", swagger("swagger-ui.css.gz"), true},
	"swagger-ui-bundle.js": {"text/javascript; charset=utf-8", swagger("swagger-ui-bundle.js.gz"), true},
	"favicon-32x32.png":    {"image/png", swagger("favicon-32x32.png"), false},
}

func own(name string) func() (fs.File, error) {
	return func() (fs.File, error) { return ownAssets.Open(name) }
}

func swagger(name string) func() (fs.File, error) {
	return func() (fs.File, error) { return static.FS.Open(name) }
}

// docsPage serves the page itself.
func docsPage(w http.ResponseWriter, _ *http.Request) error {
	text, err := ownAssets.ReadFile("docs/index.html")
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	send(w, "text/html; charset=utf-8", text)
	return nil
}

// docsAsset serves the files that the page loads.
func docsAsset(w http.ResponseWriter, r *http.Request) (err error) {
	asset, known := docsAssets[r.PathValue("asset")]
	if !known {
		return ops.Refuse(http.StatusNotFound, WordUnknownRoute, "there is nothing at this path; the page is at %s",
			path.Dir(r.URL.Path))
	}
	file, err := asset.open()
	if err != nil {
		return fmt.Errorf("open an asset: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var from io.Reader = file
	switch {
	case asset.zip && acceptsGzip(r):
		w.Header().Set("Content-Encoding", "gzip")
	case asset.zip:
		if from, err = gzip.NewReader(file); err != nil {
			return fmt.Errorf("unpack an asset: %w", err)
		}
	}
	if asset.zip {
		w.Header().Set("Vary", "Accept-Encoding")
	}
	var whole bytes.Buffer
	if _, err := io.Copy(&whole, from); err != nil {
		w.Header().Del("Content-Encoding")
		return fmt.Errorf("read an asset: %w", err)
	}
	send(w, asset.media, whole.Bytes())
	return nil
}

// send serves a file that browsers may cache for a while only: a new binary may have another file of that name.
func send(w http.ResponseWriter, media string, content []byte) {
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Length", fmt.Sprint(len(content)))
	h.Set("Content-Security-Policy", docsPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "max-age=3600")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(content) // when it fails the client has gone
}

// acceptsGzip reports whether a client accepts gzip.
func acceptsGzip(r *http.Request) bool {
	for one := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		coding, weight, _ := strings.Cut(strings.TrimSpace(one), ";")
		if weight = strings.ReplaceAll(weight, " ", ""); strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			return weight == "" || strings.Trim(strings.TrimPrefix(weight, "q="), "0.") != ""
		}
	}
	return false
}
