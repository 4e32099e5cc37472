package seeds_test

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// The answer to a push has the headers of one to /v1/messages.
func TestSdmq_SaysWhereAMessageIs(t *testing.T) {
	t.Parallel()
	d, w := open(t, &service{}), httptest.NewRecorder()
	d.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "/push",
		strings.NewReader(`{"topic":"a","delay":1000,"body":"x"}`)))
	if at := w.Header().Get("Location"); w.Code != 200 || !strings.HasPrefix(at, "/v1/messages/") {
		t.Errorf("%d, Location %q: %s", w.Code, at, w.Body)
	}
}
