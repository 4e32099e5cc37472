package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestTheLagIsReadFromTheCluster(t *testing.T) {
	t.Parallel()
	if got, err := parseLag(`{"term":1,"journal":{"mode":"sync","lag":{"changes":42,"bytes":9}}}`); err != nil ||
		got != 42 {
		t.Errorf("it is %d, %v", got, err)
	}
	for _, text := range []string{`{"journal":{"mode":"sync"}}`, `{}`} {
		if got, err := parseLag(text); !errors.Is(err, errNoLag) {
			t.Errorf("%s: it is %d, %v", text, got, err)
		}
	}
	if got, err := parseLag("no"); err == nil {
		t.Errorf("it is %d", got)
	}
}

// restoring is a tarry whose restores answer with these lines, an empty one with a conflict, and then hang.
func restoring(t *testing.T, answers ...string) *Tarry {
	orders := make(chan string, len(answers))
	for _, a := range answers {
		orders <- a
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the client has gone
		select {
		case a := <-orders:
			if a == "" {
				w.WriteHeader(http.StatusConflict)
			}
			fmt.Fprint(w, a)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	return &Tarry{URL: server.URL}
}

func TestRestoresAreOrderedUntilTheTimeIsOver(t *testing.T) {
	t.Parallel()
	tarry := restoring(t, "{\"progress\":{\"read\":5}}\n{\"report\":{\"read\":7,\"same\":7}}\n", "",
		"{\"report\":{\"read\":8}}\n")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	read, took, err := tarry.Restore(ctx)
	if err != nil || read != 15 || took <= 0 || took > 20*time.Second {
		t.Fatalf("it has read %d in %s, %v", read, took, err)
	}
}

func TestARestoreThatFailsIsReported(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"{\"progress\":{\"read\":5}}\n{\"type\":\"unavailable\"}\n": "unavailable",
		"{\"progress\":{\"read\":5}}\n":                             "its report is missing",
		"what\n":                                                    "read its progress",
	} {
		if _, _, err := restoring(t, answer).Restore(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}

func TestNobodyWaitsForAnAuditThatHasNotBegun(t *testing.T) {
	t.Parallel()
	tarry := &Tarry{led: time.Now()}
	if err := tarry.Audited(t.Context(), time.Now().Add(5*time.Second)); err != nil {
		t.Fatal(err)
	}
}
