// Package console is the page on which an operator sees how tarry does. It is files alone: the page asks the API, with
// the rights of the token that its user types in, and knows nothing that the API does not tell.
//
// Its modules are served as they stand here, without a build. charts, parts and calls know of no screen; a screen (s-)
// says what it asks for and draws the answers; main has the address, the polling and the dialog for a token. vendor
// holds Preact 11.2.0 (https://preactjs.com, MIT) as npm has it in dist/preact.mjs, without its source map.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
)

//go:embed index.html mark.svg app.css *.mjs vendor
var files embed.FS

// Policy lets the page load only what this server has, and lets no text become markup.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// file is a file as it is sent.
type file struct {
	media, sum   string
	plain, gzips []byte
}

// Files serves the page and what it loads.
type Files map[string]file

// New returns the files of the page, ready to be sent.
func New() (Files, error) {
	all := Files{}
	return all, fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		var zipped bytes.Buffer
		w, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression) // the level is one that there is
		_, _ = w.Write(text)                                       // a Buffer takes everything
		_ = w.Close()
		sum := sha256.Sum256(text)
		media := mime.TypeByExtension(path.Ext(name))
		if path.Ext(name) == ".mjs" {
			media = "text/javascript; charset=utf-8"
		}
		all[name] = file{media, `"` + hex.EncodeToString(sum[:8]) + `"`, text, zipped.Bytes()}
		return nil
	})
}

// Page is the name of the page itself.
const Page = "index.html"

// Serve sends a file and reports whether there is one of that name. A browser asks
// each time whether it has changed: after an update it must not mix modules of two versions.
func (all Files) Serve(w http.ResponseWriter, r *http.Request, name string, zip bool) bool {
	f, known := all[name]
	if !known {
		return false
	}
	h, body := w.Header(), f.plain
	h.Set("Content-Security-Policy", Policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept-Encoding")
	h.Set("Content-Type", f.media)
	h.Set("ETag", f.sum)
	if zip {
		h.Set("Content-Encoding", "gzip")
		h.Set("ETag", f.sum[:len(f.sum)-1]+`-gzip"`)
		body = f.gzips
	}
	if r.Header.Get("If-None-Match") == h.Get("ETag") {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return true
	}
	_, _ = w.Write(body) // when it fails the client has gone
	return true
}
