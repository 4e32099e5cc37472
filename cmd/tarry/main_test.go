package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/lead"
	"github.com/tarry-mq/tarry/scheduler/steer"
	"github.com/tarry-mq/tarry/store/memory"
)

var update = flag.Bool("update", false, "write the golden files anew")

// someNow is now for the commands, 59 minutes before someDue.
var someNow = someDue.Time().Add(-59 * time.Minute).UTC()

// ran is what a run of the binary left behind.
type ran struct {
	code     int
	out, err string
}

// tarry runs the binary in this process.
func tarry(t testing.TB, in string, environ []string, args ...string) ran {
	t.Helper()
	var out, errOut printed
	code := run(t.Context(), args, outside{
		in: strings.NewReader(in), out: &out, err: &errOut, environ: environ, piped: in != "",
		now: func() time.Time { return someNow }, zone: time.UTC,
	})
	return ran{code, out.String(), errOut.String()}
}

// printed is what went to a stream. Logs come from any goroutine, as they may to a file.
type printed struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

func (r ran) want(t testing.TB, code int, out string) ran {
	t.Helper()
	if r.code != code || !strings.Contains(r.out+r.err, out) {
		t.Errorf("got %d, out %q, err %q; want %d and %q", r.code, r.out, r.err, code, out)
	}
	return r
}

// serve starts the real API and gives the environment that names it.
func serve(t testing.TB, cfg api.Config) []string {
	t.Helper()
	cfg.Namespace, cfg.Gatherer = "shop", prometheus.NewRegistry()
	if cfg.Cluster == nil {
		cfg.Cluster = fixedCluster{}
	}
	if cfg.Overview == nil {
		cfg.Overview = func(context.Context) ops.Overview { return ops.Overview{} }
	}
	server, err := api.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	return []string{"TARRY_SERVER=" + listening.URL}
}

// parts are what the HTTP server asks: the scheduler, and why messages are held back.
type parts struct {
	*steer.Scheduler
	*lead.Leader
}

// real returns them over a timeline in memory.
func real(t testing.TB) (parts, *memory.Timeline) {
	t.Helper()
	timeline, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	leader, err := lead.New(lead.Config{
		Timeline: timeline, Publisher: nowhere{}, Clock: scheduler.NewClock(scheduler.System()),
		EndedKeep: 10 * time.Minute, ClaimBatch: 100, ClaimBytes: 1 << 20, Pending: 100, Attempts: 3,
		CallTimeout: time.Second, StopTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := steer.New(scheduler.Config{
		Timeline: timeline, Clock: scheduler.NewClock(scheduler.System()),
		IDs:      scheduler.NewIDs(machine(7), time.Now),
		MaxDelay: 3653 * 24 * time.Hour, EndedKeep: 10 * time.Minute,
		CallTimeout: time.Second, StopTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return parts{s, leader}, timeline
}

type machine int

func (m machine) ID() (int, bool) { return int(m), true }

// nowhere is a publisher that is never ready.
type nowhere struct{ scheduler.Publisher }

func (nowhere) Ready() bool { return false }

// fixedCluster is two instances, of which the first leads.
type fixedCluster struct{ refusal error }

func (fixedCluster) Cluster(context.Context) (ops.Cluster, error) {
	return ops.Cluster{
		Term: 42, Leader: &ops.Leader{Instance: "tarry-1", Address: "10.0.0.1:7070",
			Since: ops.FormatTime(1_896_076_800_000)},
		Instances: []ops.Instance{
			{Instance: "tarry-1", Address: "10.0.0.1:7070", Role: ops.RoleLeader, Ready: true, CanLead: true,
				Version: "v1.2.3"},
			{Instance: "tarry-2", Address: "10.0.0.2:7070", Role: ops.RoleStandby, Version: "v1.2.3",
				Lacks: []string{"journal", "nats"}, Differs: []string{"retry", "topics"}},
			{Instance: "tarry-3", Address: "10.0.0.3:7070", Role: ops.RoleStandby, Ready: true, CanLead: true,
				Linked: true, Lacks: []string{"settings"}, Version: "v1.2.3",
				Restored: "350, the last at 2030-01-31T07:47:11.000Z"},
			{Instance: "tarry-4", Address: "10.0.0.4:7070", Role: ops.RoleGone, Version: "v1.2.2",
				Seen: ops.FormatTime(1_896_076_800_000)},
		},
	}, nil
}

func (c fixedCluster) Forget(context.Context, string) error { return c.refusal }
func (c fixedCluster) Resign(context.Context, string) error { return c.refusal }

// golden compares with the file, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got\n%s", file, got)
	}
}

// transcript shows a run as on a terminal.
func transcript(r ran, environ []string, args []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "$ tarry %s\n", strings.Join(args, " "))
	server := strings.TrimPrefix(environ[0], "TARRY_SERVER=")
	b.WriteString(strings.ReplaceAll(r.out, server, "http://SERVER"))
	for line := range strings.Lines(strings.ReplaceAll(r.err, server, "http://SERVER")) {
		b.WriteString("2> " + line)
	}
	fmt.Fprintf(&b, "=> %d\n\n", r.code)
	return b.String()
}
