package short_test

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// TestServe_HasAListenerForProbersAlone runs one beside the listener that asks for a token.
func TestServe_HasAListenerForProbersAlone(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	at := "127.0.0.1:" + strconv.Itoa(lab.FreePort(t))
	s.Start("a", "TARRY_HTTP_PROBE_LISTEN="+at)
	for path, want := range map[string]int{"/readyz": 200, "/livez": 200, "/v1/cluster": 404, "/metrics": 404} {
		answer, err := http.Get("http://" + at + path)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Body.Close(); answer.StatusCode != want {
			t.Errorf("%s: got %d, want %d", path, answer.StatusCode, want)
		}
	}
}
