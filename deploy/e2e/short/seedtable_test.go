package short_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// exchange is a line of a table in deploy/e2e/testdata: a request, what the other system answers to it, seen there or
// read in its source, and what tarry answers if that is something else. An answer may have more than the table says.
type exchange struct {
	Note    string // what it is about
	Request string // method and target
	Body    string // JSON, or a form
	Status  int    // of tarry's answer; 200 if absent
	Real    fields
	Ours    fields
	Soon    bool // the answer comes once the journal has what was before
}

// What the two other servers with clients of their own answer, request by request.
func TestSeedsAnswerAsTheirServers(t *testing.T) {
	t.Parallel()
	d := site.StartDev(t, "table", "--data", t.TempDir())
	d.Ready(t)
	for _, table := range []string{"camellia", "sdmq"} {
		text, err := os.ReadFile(filepath.Join("..", "testdata", table+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		for in := bufio.NewScanner(bytes.NewReader(text)); in.Scan(); lines++ {
			var e exchange
			decoder := json.NewDecoder(bytes.NewReader(in.Bytes()))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(&e); err != nil || e.Note == "" || e.Real == nil {
				t.Fatalf("%s, line %d: %v", table, lines+1, err)
			}
			if e.Soon {
				lab.Eventually(t, site.Patience, func() error { return e.differs(t, d.Addr) })
			} else if err := e.differs(t, d.Addr); err != nil {
				t.Errorf("%s, line %d, %s: %v", table, lines+1, e.Note, err)
			}
		}
		if lines < 20 {
			t.Errorf("%s has %d lines", table, lines)
		}
	}
}

// differs sends the request, and returns how the answer differs from what the table says.
func (e *exchange) differs(t *testing.T, addr string) error {
	t.Helper()
	method, target, _ := strings.Cut(e.Request, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+target, strings.NewReader(e.Body))
	if err != nil {
		t.Fatal(err)
	}
	if e.Body != "" && e.Body[0] != '{' {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Body.Close() }()
	var got fields
	if err := json.NewDecoder(a.Body).Decode(&got); err != nil {
		return fmt.Errorf("the answer: %w", err)
	}
	want, status := e.Real, max(e.Status, http.StatusOK)
	if e.Ours != nil {
		want = e.Ours
	}
	if a.StatusCode != status || !within(want, got) {
		return fmt.Errorf("%d %v, want %d %v", a.StatusCode, got, status, want)
	}
	return nil
}

// within reports whether all that is wanted is there, in whatever depth.
func within(want, got any) bool {
	switch want := want.(type) {
	case fields:
		has, ok := got.(fields)
		for name, value := range want {
			one, there := has[name]
			ok = ok && there && within(value, one)
		}
		return ok
	case []any:
		has, ok := got.([]any)
		ok = ok && len(has) == len(want)
		for i := 0; ok && i < len(want); i++ {
			ok = within(want[i], has[i])
		}
		return ok
	}
	return reflect.DeepEqual(want, got)
}
