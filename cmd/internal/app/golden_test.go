package app_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/cmd/internal/app"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/deploy/lab"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden holds what a test saw against a file of testdata.
func golden(t *testing.T, name string, got []string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	text := strings.Join(got, "\n") + "\n"
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, text, want)
	}
}

// lines is a log that a test reads when the instance has stopped.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// bytes is what was written so far.
func (l *lines) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.buf.Bytes())
}

// allowedFields is the list of testdata/logfields.txt. Which of them a run
// shows depends on what goes wrong in it, so the list may hold more; -update
// adds what this run showed.
func allowedFields(t *testing.T, seen map[string]bool) map[string]bool {
	t.Helper()
	path := filepath.Join("testdata", "logfields.txt")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]bool{}
	for _, name := range strings.Fields(string(text)) {
		allowed[name] = true
	}
	if *update {
		maps.Copy(allowed, seen)
		golden(t, "logfields.txt", slices.Sorted(maps.Keys(allowed)))
	}
	return allowed
}

// TestServe_NamesAreFixed runs one instance through a delivery, a refusal and
// a park, and holds the names of its log fields and of its metrics against the
// golden files: they are an interface, dashboards and alerts are built on them.
func TestServe_NamesAreFixed(t *testing.T) {
	t.Parallel()
	natsSrv, redisSrv, zkSrv := lab.NewNATS(t), lab.SharedRedis(t), lab.SharedZooKeeper(t)
	const secret = "a-secret-body-nobody-may-log"
	cfg := settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "golden", "only")
	cfg.Journal.Mode, cfg.Journal.DSN, cfg.Journal.Migrate = "sync",
		config.Secret("sqlite:"+filepath.Join(t.TempDir(), "journal.db")), true
	cfg.Journal.Outbox, cfg.Journal.Keep, cfg.Journal.Window, cfg.Journal.Audit = 1<<20, time.Hour,
		time.Minute, time.Hour
	log := &lines{}
	a, err := app.New(t.Context(), cfg,
		app.Options{Version: "test", Log: zerolog.New(log).Level(zerolog.TraceLevel)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	i := &instance{App: a, t: t}
	i.ready()
	i.cluster()

	nc, err := nats.Connect(natsSrv.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	got := make(chan *nats.Msg, 1)
	if _, err := nc.ChanSubscribe("app.orders", got); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	i.push(`{"topic":"app.orders","body":"` + secret + `","delay":0,"id":"order-1"}`)
	select {
	case <-got:
	case <-time.After(10 * time.Second):
		t.Fatal("the message did not arrive")
	}
	i.push(`{"topic":"app.nobody","body":"` + secret + `","delay":0}`) // is parked
	if _, err := nc.Request("delayed.app.orders", []byte(secret), 5*time.Second); err != nil {
		t.Fatal(err) // stored, and rejected: it has no tag
	}
	lab.Eventually(t, 10*time.Second, func() error {
		text, err := metricsText(i)
		if err != nil {
			return err
		}
		for _, sample := range []string{"tarry_parked_lanes 1", "tarry_delivered_total 1", "tarry_intake_rejected_total{"} {
			if !strings.Contains(text, sample) {
				return fmt.Errorf("no %s yet", sample)
			}
		}
		return nil
	})
	text, err := metricsText(i)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "metrics.txt", metricNames(text))

	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	fields := map[string]bool{}
	for s := bufio.NewScanner(bytes.NewReader(log.bytes())); s.Scan(); {
		line := map[string]any{}
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			t.Fatalf("line %q: %v", s.Text(), err)
		}
		if strings.Contains(s.Text(), secret) {
			t.Errorf("a body was logged: %s", s.Text())
		}
		for name := range line {
			fields[name] = true
		}
		for name := range line {
			if strings.Count(s.Text(), `"`+name+`":`) > 1 {
				t.Errorf("the field %s stands twice: %s", name, s.Text())
			}
		}
	}
	allowed := allowedFields(t, fields)
	for name := range fields {
		if !allowed[name] {
			t.Errorf("a log field that is not in testdata/logfields.txt: %s", name)
		}
	}
	for _, needed := range []string{"ns", "instance", "term", "bucket"} {
		if !fields[needed] {
			t.Errorf("no line has the field %q", needed)
		}
	}
}

func metricsText(i *instance) (string, error) {
	resp, err := http.Get("http://" + i.Addr().String() + "/metrics")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// metricNames are the names of tarry's own metrics, from their TYPE lines.
func metricNames(text string) []string {
	var names []string
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 4 && f[1] == "TYPE" && strings.HasPrefix(f[2], "tarry_") {
			names = append(names, f[2]+" "+f[3])
		}
	}
	slices.Sort(names)
	return names
}
