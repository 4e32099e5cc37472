package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// The number of buckets changes between two lives of the instances, which end by kill -9 under load. The change itself
// is refused while an instance is registered, killed, frozen until another one has overtaken it, and finished.
// Meanwhile no instance starts. Nothing is lost, early or delivered twice.
func TestTheNumberOfBucketsChangesInPlace(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	s.Journal("async", lab.NewMariaDB(t))
	s.Stream(site.StreamName, site.StreamSubject+">")
	h := site.NewHistory(s.Ns)
	s.Consume(h)
	settings := filepath.Join(t.TempDir(), "tarry.yaml")
	buckets := func(n int) {
		t.Helper()
		if err := os.WriteFile(settings, fmt.Appendf(nil, "buckets: %d\n", n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	buckets(4)
	s.Settings = append(s.Settings, "TARRY_CONFIG="+settings)
	a := s.Start("a")
	_, term := s.Leader(0, a)
	const far = 10_000
	for from := 0; from < far; from += 1000 {
		var batch []map[string]any
		for i := range 1000 {
			batch = append(batch, map[string]any{"topic": "far.away", "delay": "5h", "id": fmt.Sprint("far-", from+i),
				"body": strings.Repeat("x", 1000)})
		}
		s.Batch(a, batch)
	}
	l := &site.Load{S: s, H: h, Make: site.Maker{Seed: 23, Spread: 15 * time.Second}, Least: 2500, Rate: 200,
		Doors: []*site.Instance{a}}
	l.Begin(t)
	lab.Eventually(t, site.Patience, func() error {
		if kept, came := h.Counts(); kept < 1000 || came < 100 {
			return fmt.Errorf("%d kept, %d came", kept, came)
		}
		return nil
	})
	ends := func(p *lab.Process, code int, says string) {
		t.Helper()
		if got := p.Wait(site.Patience); got != code || !strings.Contains(p.Log(), says) {
			t.Fatalf("it ends with %d, want %d and %q: %s", got, code, says, p.Log())
		}
	}
	ends(s.Command("rebucket", "16"), 1, "stop every instance first: a is registered")
	open := h.Open("the instances are gone", time.Now())
	a.Kill()
	rdb := s.Client()
	moving := func(p *lab.Process, to string) {
		t.Helper()
		lab.Eventually(t, site.Patience, func() error {
			if !p.Running() {
				t.Fatalf("it ended: %s", p.Log())
			}
			if mark := rdb.HGet(t.Context(), "{"+s.Ns+"}:meta", "buckets").Val(); !strings.HasSuffix(mark, " to "+to) {
				return fmt.Errorf("the mark is %q", mark)
			}
			if n := rdb.HLen(t.Context(), "{"+s.Ns+":5}:msg").Val(); n == 0 {
				return fmt.Errorf("nothing has moved")
			}
			return nil
		})
	}
	var killed *lab.Process
	lab.Eventually(t, site.Patience, func() error { // the session of the killed instance must end first
		killed = s.Command("rebucket", "16")
		lab.Eventually(t, site.Patience, func() error {
			if strings.Contains(killed.Log(), "is registered") || rdb.HLen(t.Context(), "{"+s.Ns+":5}:msg").Val() > 0 {
				return nil
			}
			return fmt.Errorf("it waits: %s", killed.Log())
		})
		if strings.Contains(killed.Log(), "is registered") {
			return fmt.Errorf("a is registered")
		}
		return nil
	})
	moving(killed, "16")
	killed.Kill()
	ends(s.Command("serve"), 1, "tarry rebucket 16 of namespace")
	frozen := s.Command("rebucket", "7")
	moving(frozen, "7")
	frozen.Pause()
	ends(s.Command("rebucket", "11"), 0, "set buckets to 11 and start the instances")
	frozen.Resume()
	ends(frozen, 1, "run")
	ends(s.Command("rebucket", "11"), 0, "11 → 11 buckets: 0 messages moved")
	buckets(11)
	a.Restart()
	s.Ready(a)
	s.Settled(term, open)
	ctx, stop := context.WithTimeout(t.Context(), site.PatienceForMany)
	defer stop()
	// Where Redis or the disk is slow, a call ends early; what is left is canceled by the next one.
	canceled, unknown := 0, 0
	for status := 0; status != http.StatusOK; {
		got, err := a.Call(ctx, http.MethodPost, "/v1/messages/cancel", map[string]any{"topic": "far.away"})
		counts := regexp.MustCompile(`"done":(\d+).*"failed":(\d+)`).FindStringSubmatch(got.Raw)
		if err != nil || counts == nil || got.Status != http.StatusOK && !slices.Contains(site.Slow, got.Error) {
			t.Fatalf("of those far away: %d %s %v", got.Status, got.Raw, err)
		}
		status = got.Status
		for i, n := range []*int{&canceled, &unknown} {
			more, _ := strconv.Atoi(counts[i+1])
			*n += more
		}
	}
	if canceled > far || canceled+unknown < far {
		t.Errorf("%d of those far away are canceled, of %d it is unknown, want %d", canceled, unknown, far)
	}
	l.Finish(t)
	l.Judge(t)
	s.Journaled(h)
	s.Says(a, 0, "", "verify")
}
