package browser_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// operations returns the operations that the description of a server has, as "METHOD /path".
func operations(t *testing.T, server string) map[string]bool {
	t.Helper()
	resp, err := http.Get(server + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var described struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&described); err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for path, methods := range described.Paths {
		for method := range methods {
			switch method {
			case "get", "post", "put", "patch", "delete":
				all[strings.ToUpper(method)+" "+path] = true
			}
		}
	}
	return all
}

// shown returns what the page of the API shows: the operations, and the text of its box of errors.
const shown = `({
	operations: [...document.querySelectorAll(".opblock")].map(block =>
		block.querySelector(".opblock-summary-method").textContent + " " +
		block.querySelector(".opblock-summary-path").dataset.path),
	errors: [...document.querySelectorAll(".errors-wrapper, .loading-container .failed-config")]
		.map(box => box.textContent).join(" ")})`

// documented returns an error unless the page shows each operation of the description and nothing went wrong.
func documented(t *testing.T, server string, p *page) error {
	t.Helper()
	page := evaluate[struct {
		Operations []string `json:"operations"`
		Errors     string   `json:"errors"`
	}](t, p, shown)
	want := operations(t, server)
	for _, operation := range page.Operations {
		delete(want, operation)
	}
	if len(want) > 0 || page.Errors != "" || p.said() != "" {
		return fmt.Errorf("not shown: %v; errors: %q; went wrong: %q", want, page.Errors, p.said())
	}
	return nil
}

func TestDocs_ShowEveryOperation(t *testing.T) {
	d := site.StartDev(t, "dev")
	d.Ready(t)
	server := "http://" + d.Addr
	if n := len(operations(t, server)); n < 30 {
		t.Fatalf("the description has %d operations", n)
	}
	p := open(t, server+"/docs")
	lab.Eventually(t, patience, func() error { return documented(t, server, p) })

	// The page lets people try a call.
	p.do(t, chromedp.Click(chromedp.CSS(`[data-path="/v1/messages"]`)),
		chromedp.WaitVisible(chromedp.CSS(".try-out__btn")))
	if err := documented(t, server, p); err != nil {
		t.Error(err)
	}
}

// A page that is broken as it once was does not pass for one that works.
func TestDocs_OfAKeyGivenTwiceAreSeen(t *testing.T) {
	d := site.StartDev(t, "dev")
	d.Ready(t)
	to, err := url.Parse("http://" + d.Addr)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Request.URL.Path != "/openapi.json" {
			return nil
		}
		text, err := io.ReadAll(r.Body)
		text = bytes.Replace(text, []byte(`"paths": {`), []byte(`"paths": {}, "paths": {`), 1)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		r.Header.Set("Content-Length", strconv.Itoa(len(text)))
		return errors.Join(err, r.Request.Context().Err())
	}
	broken := httptest.NewServer(proxy)
	t.Cleanup(broken.Close)
	p := open(t, broken.URL+"/docs")
	lab.Eventually(t, patience, func() error {
		err := documented(t, broken.URL, p)
		if err == nil {
			t.Fatal("nothing is seen of a key given twice")
		}
		if !strings.Contains(err.Error(), "duplicated mapping key") {
			return err
		}
		return nil
	})
}
