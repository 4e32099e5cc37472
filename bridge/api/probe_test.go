package api_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/tarry-mq/tarry/bridge/api"
)

func TestProbes_AnswerBesideAListenerThatAsksForTokens(t *testing.T) {
	t.Parallel()
	ready := []api.Check{{Name: "redis", Needed: true}}
	d := open(t, letting(token("all", []string{">"}, true, true)), func(c *api.Config) {
		c.Ready = func(context.Context) []api.Check { return ready }
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.RunProbes(ctx, listener) }()
	get := func(path string) (int, string) {
		t.Helper()
		answer, err := http.Get("http://" + listener.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/v1/cluster": 404, "/metrics": 404, "/": 404,
		"/docs": 404} {
		if status, text := get(path); status != want {
			t.Errorf("%s: got %d %s", path, status, text)
		}
	}
	ready[0].Err = errElse
	if status, text := get("/readyz"); status != 503 {
		t.Errorf("not ready: got %d %s", status, text)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", listener.Addr().String()); err == nil {
		t.Error(fmt.Sprint("it still listens at ", conn.RemoteAddr()))
	}
}
