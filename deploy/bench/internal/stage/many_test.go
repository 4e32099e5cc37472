package stage

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

func TestAnOrderOnManyTellsWhatItDid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status       int
		answer, want string // in the error
	}{
		{http.StatusOK, `{"looked":9,"matched":7,"done":6,"failed":1}`, ""},
		{http.StatusOK, `what`, "invalid character"},
		{http.StatusConflict, `{"error":"already_running"}`, "already_running"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if text, _ := io.ReadAll(r.Body); string(text) != "order" || r.Method != http.MethodPost ||
				r.URL.Path != "/v1/messages/cancel" {
				t.Errorf("it was asked %s %s %q", r.Method, r.URL.Path, text)
			}
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.answer)
		}))
		did, took, err := (&Tarry{URL: server.URL}).Many(t.Context(), "/v1/messages/cancel", "order")
		server.Close()
		switch {
		case c.want == "" && (err != nil || did != (Many{Matched: 7, Done: 6}) || took <= 0):
			t.Errorf("%s: it is %+v after %s, %v", c.answer, did, took, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: the error is %v, want %q", c.answer, err, c.want)
		}
	}
}

func TestSettingsAreAFileThatTheSettingNames(t *testing.T) {
	t.Parallel()
	failure := Run(t.Context(), func(s *Scope) {
		if got := s.Settings(""); got != nil {
			t.Errorf("no settings are %q", got)
		}
		list := s.Settings("topics:\n")
		path, found := strings.CutPrefix(strings.Join(list, " "), "TARRY_CONFIG=")
		if text, err := os.ReadFile(path); !found || err != nil || string(text) != "topics:\n" {
			t.Errorf("%q: %q, %v", list, text, err)
		}
	})
	if failure != nil {
		t.Fatal(failure)
	}
}
