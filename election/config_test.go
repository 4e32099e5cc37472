package election

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/prometheus/client_golang/prometheus"
)

func good() NodeConfig {
	return NodeConfig{Servers: []string{"zk1:2181", "10.0.0.1:1"}, Namespace: "orders",
		Instance: "node-1"}
}

func TestConfig_FillsInWhatIsMissing(t *testing.T) {
	t.Parallel()
	cfg, err := good().complete()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Session != 6*time.Second || cfg.Healthy() != nil {
		t.Errorf("session %v", cfg.Session)
	}
	n, err := NewNode(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := n.Race(RaceConfig{Lead: idle})
	if err != nil {
		t.Fatal(err)
	}
	if floor, err := r.cfg.Floor(context.Background(), 0); floor != 0 || err != nil {
		t.Errorf("floor %d, %v", floor, err)
	}
}

func TestConfig_RefusesByField(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*NodeConfig){
		"servers: at least one":      func(c *NodeConfig) { c.Servers = nil },
		"namespace":                  func(c *NodeConfig) { c.Namespace = "" },
		`namespace: "a/b"`:           func(c *NodeConfig) { c.Namespace = "a/b" },
		`namespace: ".."`:            func(c *NodeConfig) { c.Namespace = ".." },
		"instance":                   func(c *NodeConfig) { c.Instance = strings.Repeat("i", 129) },
		`instance: "a\x00"`:          func(c *NodeConfig) { c.Instance = "a\x00" },
		"address: 257":               func(c *NodeConfig) { c.Address = strings.Repeat("a", 257) },
		"version: 129":               func(c *NodeConfig) { c.Version = strings.Repeat("v", 129) },
		"session: 499ms":             func(c *NodeConfig) { c.Session = 499 * time.Millisecond },
		"session: 5m0.001s":          func(c *NodeConfig) { c.Session = 5*time.Minute + time.Millisecond },
		"username and password":      func(c *NodeConfig) { c.Username = "u" },
		"username: must not contain": func(c *NodeConfig) { c.Username, c.Password = "u:v", "p" },
	} {
		cfg := good()
		change(&cfg)
		if _, err := NewNode(cfg); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want an error with %q", err, field)
		}
	}
}

func TestMetrics_BelongToOneElector(t *testing.T) {
	t.Parallel()
	cfg := good()
	cfg.Registerer = prometheus.NewRegistry()
	if _, err := NewNode(cfg); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("two electors share one registry")
			}
		}()
		_, _ = NewNode(cfg)
	}()
	cfg.Registerer = prometheus.NewRegistry()
	if _, err := NewNode(cfg); err != nil {
		t.Errorf("a second elector with its own registry: %v", err)
	}
}

func TestMetrics_ShowTheLeadership(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		e, c := newFakeEnsemble(), &court{}
		a := start(t, e, c, "a", func(cfg *setup) { cfg.Registerer = reg })
		after(time.Second)
		want := map[string]float64{"tarry_leader": 1, "tarry_term": 1, "tarry_election_races_total": 1}
		check := func() {
			t.Helper()
			families, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]float64{}
			for _, f := range families {
				for _, m := range f.Metric {
					got[f.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
				}
			}
			for name, v := range want {
				if got[name] != v {
					t.Errorf("%s is %v, want %v", name, got[name], v)
				}
			}
		}
		check()
		e.kill(a.client())
		synctest.Wait()
		want = map[string]float64{"tarry_leader": 0, "tarry_election_session_losses_total": 1,
			"tarry_leadership_ends_total": 1}
		check()
	})
}

func TestRefused_OnlyAnswersOfAServer(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNoNode, zk.ErrNoAuth, zk.ErrSessionMoved,
		fmt.Errorf("race: %w", zk.ErrBadVersion),
	} {
		if !refused(err) {
			t.Errorf("%v is taken for an unknown outcome", err)
		}
	}
	for _, err := range []error{
		zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrClosing, zk.ErrSessionExpired, zk.ErrAPIError, zk.ErrUnknown,
		io.EOF, net.ErrClosed, syscall.EPIPE, context.DeadlineExceeded, errTimeout, errBusy, errExpired,
		errors.New("unknown error: -7"),
	} {
		if refused(err) {
			t.Errorf("%v is taken for an answer", err)
		}
	}
}

func TestLease_LateExtensionDoesNotReviveBeforeTheTimerFires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLease(time.Now().Add(time.Second), func() {}) // not started: its timer is late for ever
		if !l.extend(time.Now().Add(2 * time.Second)) {
			t.Fatal("an extension in time was refused")
		}
		if l.extend(time.Now()); l.remaining() != 2*time.Second {
			t.Errorf("the deadline moved back: %v left", l.remaining())
		}
		after(2 * time.Second)
		if l.extend(time.Now().Add(time.Hour)) || l.remaining() != 0 {
			t.Errorf("a passed lease came back with %v", l.remaining())
		}
	})
}

func TestLease_PassesOnceAndNotAfterItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		passed := make(chan struct{}, 10)
		l := newLease(time.Now().Add(-time.Second), func() { passed <- struct{}{} })
		l.start()
		synctest.Wait()
		if len(passed) != 1 || l.extend(time.Now().Add(time.Hour)) {
			t.Errorf("a lease that began too late passed %d times", len(passed))
		}
		l = newLease(time.Now().Add(time.Second), func() { passed <- struct{}{} })
		l.start()
		l.extend(time.Now().Add(3 * time.Second))
		after(2 * time.Second)
		l.end()
		after(time.Minute)
		if len(passed) != 1 || l.remaining() != 0 {
			t.Errorf("an ended lease passed, or has %v left", l.remaining())
		}
	})
}

func FuzzZnodes(f *testing.F) {
	f.Add([]byte(
		`{"instance":"a","address":"a:1","incarnation":"X","term":3,"since":"2026-01-02T03:04:05Z","healthy":true}`))
	f.Add([]byte(`{"instance":"../a"}`))
	f.Add([]byte(`9007199254740991`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, err := decodeLeader(b); err == nil {
			if checkName("instance", n.Instance) != nil || n.Term > maxTerm {
				t.Errorf("accepted leader %+v", n)
			}
			again(t, n, decodeLeader)
		} else if !errors.Is(err, errBadZnode) {
			t.Errorf("leader: %v", err)
		}
		if n, err := decodeMember(b); err == nil {
			again(t, n, decodeMember)
		} else if !errors.Is(err, errBadZnode) {
			t.Errorf("member: %v", err)
		}
		if n, err := decodeTerm(b); err == nil {
			if back, err := decodeTerm(encodeTerm(n)); back != n || err != nil {
				t.Errorf("term %d came back as %d, %v", n, back, err)
			}
			if next, err := nextTerm(n, n); err == nil && (next <= n || next > maxTerm) {
				t.Errorf("term %d follows %d", next, n)
			}
		} else if !errors.Is(err, errBadZnode) {
			t.Errorf("term: %v", err)
		}
	})
}

// again encodes and decodes: what was accepted once is accepted and the same.
func again[T fmt.Stringer](t *testing.T, n T, decode func([]byte) (T, error)) {
	t.Helper()
	b, err := encode(n)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := decode(b); err != nil || back.String() != n.String() {
		t.Errorf("%v came back as %v, %v", n, back, err)
	}
}

func (n leaderNode) String() string {
	return fmt.Sprintf("%s %s %s %d %v", n.Instance, n.Address, n.Incarnation, n.Term, n.Since.UTC())
}
func (n memberNode) String() string {
	return fmt.Sprintf("%s %s %s %v %v", n.Instance, n.Address, n.Incarnation, n.Healthy, n.Since.UTC())
}
