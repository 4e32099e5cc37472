package load

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// calls is an API that keeps what it was asked, and refuses one path.
func calls(t *testing.T, refused string) (c Calls, asked func() map[string]string) {
	t.Helper()
	var (
		mu  sync.Mutex
		all = make(map[string]string)
	)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		all[r.Method+" "+r.URL.Path] = string(text) + r.Header.Get("Content-Type")
		if r.URL.Path == refused {
			http.Error(w, "already_delivered", http.StatusConflict)
		}
	}))
	t.Cleanup(server.Close)
	return Calls{URL: server.URL, InFlight: 4, Call: func(to []byte, n int) (string, string, []byte) {
			if n%2 == 0 {
				return http.MethodDelete, fmt.Sprint("/", n), to
			}
			return http.MethodPatch, fmt.Sprint("/", n), fmt.Append(to, "{", n, "}")
		}}, func() map[string]string {
			mu.Lock()
			defer mu.Unlock()
			return all
		}
}

func TestCallsAreMadeOnceEach(t *testing.T) {
	t.Parallel()
	c, asked := calls(t, "")
	sent, err := c.Send(t.Context(), 100, time.Minute)
	if got := asked(); err != nil || sent.Count != 100 || len(got) != 100 || got["DELETE /42"] != "" ||
		got["PATCH /43"] != "{43}application/json" {
		t.Fatalf("sent %d, %v: %v", sent.Count, err, got)
	}
}

func TestACallThatIsRefusedFailsAll(t *testing.T) {
	t.Parallel()
	c, _ := calls(t, "/50")
	if _, err := c.Send(t.Context(), 100, time.Minute); err == nil ||
		!strings.Contains(err.Error(), "call 50: 409 Conflict: already_delivered") {
		t.Fatalf("the error is %v", err)
	}
}
