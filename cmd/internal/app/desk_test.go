package app_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// TestDesk_NamesThePartThatIsAway: what compares NATS, Redis and the journal says which of them it missed.
func TestDesk_NamesThePartThatIsAway(t *testing.T) {
	t.Parallel()
	natsSrv, redisSrv, zkSrv := lab.NewNATS(t), lab.NewRedis(t), lab.SharedZooKeeper(t)
	nc, err := nats.Connect(natsSrv.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.AddStream(&nats.StreamConfig{Name: "AWAY", Subjects: []string{"away.x"}}); err != nil {
		t.Fatal(err)
	}
	sql := "sqlite:" + filepath.Join(t.TempDir(), "journal.db")
	a := start(t, journaled(settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "partaway", "a"), "sync", sql))
	a.ready()
	a.cluster()
	a.push(`{"topic":"away.x","delay":0,"body":"1"}`)
	lab.Eventually(t, 20*time.Second, func() error {
		status, text := a.says(http.MethodPost, "/v1/redeliver", `{"since":"1h","dry_run":true}`)
		if status != http.StatusOK || !strings.Contains(text, `"present":1`) {
			return fmt.Errorf("%d %s", status, text)
		}
		return nil
	})
	says := func(path, body, part string) {
		t.Helper()
		status, text := a.says(http.MethodPost, path, body)
		if status != http.StatusServiceUnavailable || !strings.Contains(text, `"error":"unavailable"`) ||
			!strings.Contains(text, part+" does not answer") {
			t.Errorf("%s: %d %s, want %s named", path, status, text, part)
		}
	}
	natsSrv.Kill()
	says("/v1/redeliver", `{"since":"1h"}`, "nats")
	redisSrv.Kill()
	says("/v1/restore", `{"topic":"away.x"}`, "the store")
	says("/v1/verify", ``, "the store")
}
