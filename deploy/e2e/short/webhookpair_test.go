package short_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// Every instance of a pair posts. Without faults nothing is posted twice, and a stop is none; a target that hangs holds
// up nothing else, and once it has failed for five days it is paused.
func TestWebhooksOfAPairPostEverythingOnce(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	h := newHook(t, nil)
	slow := newHook(t, func(posted, http.ResponseWriter) { <-hang })
	t.Cleanup(func() { close(hang) }) // its server waits for that
	s := site.New(t, site.Options{})
	file := filepath.Join(t.TempDir(), "tarry.yaml")
	hookFile(t, file, h.topic("good.*", "/in", "concurrency: 4"),
		slow.topic("slow", "/in", "timeout: 1s", "concurrency: 2"))
	a := s.Start("a", "TARRY_CONFIG="+file, "TARRY_BUCKETS=2")
	b := s.Start("b", "TARRY_CONFIG="+file, "TARRY_BUCKETS=2")
	s.Leader(0, a, b)

	const n = 300
	due := map[string]time.Time{}
	for i := range 12 {
		s.Push(a, map[string]any{"topic": "slow", "delay": "0", "body": fmt.Sprintf("slow %d", i)})
	}
	for i := range n {
		body := fmt.Sprintf("good %d.", i)
		due[body] = s.Push(s.Instances[i%2], map[string]any{"topic": fmt.Sprintf("good.%d", i%5), "body": body,
			"delay": fmt.Sprintf("%dms", 100+10*i)}).Due
		if i == n/2 {
			a.Signal(syscall.SIGTERM)
			if code := a.Wait(site.Patience); code != 0 {
				t.Errorf("a ended with %d", code)
			}
			a.Restart()
			s.Ready(a)
		}
	}
	h.await("good", n)
	seen := map[string]string{}
	for _, p := range h.about("good") {
		if seen[p.body] != "" {
			t.Errorf("%s came twice, as %s and %s", p.body, seen[p.body], p.id)
		}
		if seen[p.body] = p.id; p.at.Before(due[p.body]) {
			t.Errorf("%s came %s early", p.body, due[p.body].Sub(p.at))
		}
	}
	by := map[string]int{}
	for _, i := range []*site.Instance{a, b} {
		by[i.Name] = int(s.Metric(i, `tarry_webhook_posts_total{outcome="delivered",pattern="good.*"}`))
	}
	if by["a"] == 0 || by["b"] == 0 {
		t.Errorf("posted by instance: %v", by)
	}

	rdb := s.Client()
	key := "{" + s.Ns + ":0}:failing"
	lab.Eventually(t, site.Patience, func() error {
		fields, err := rdb.HGetAll(t.Context(), key).Result()
		if len(fields) != 1 {
			return fmt.Errorf("failing are %v, %v", fields, err)
		}
		for target := range fields {
			err = rdb.HSet(t.Context(), key, target, fmt.Sprint(time.Now().Add(-5*24*time.Hour).UnixMilli(), " ",
				time.Now().UnixMilli())).Err()
		}
		return err
	})
	a.Kill() // else it would tell only once a minute
	a.Restart()
	s.Ready(a)
	lab.Eventually(t, site.Patience, func() error {
		// Also b may post one, and does not tell then: it has told within the minute.
		s.Push(a, map[string]any{"topic": "slow", "delay": "0", "body": "slow again"})
		if t := s.Must(b, http.MethodGet, "/v1/topics", nil); !strings.Contains(t.Raw, "whose target fails since") {
			return fmt.Errorf("nothing is paused: %s", t.Raw)
		}
		return nil
	})
	s.Push(a, map[string]any{"topic": "slow", "delay": "0", "body": "slow at last"})
	before := len(slow.about("slow"))
	s.Must(b, http.MethodPost, "/v1/topics/slow/resume", nil)
	slow.await("slow", before+1)
}
