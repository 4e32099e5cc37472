package lab

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// NATS is a running nats-server.
type NATS struct {
	*Process
	Addr string // host:port
}

// URL returns the URL for nats.Connect.
func (n *NATS) URL() string { return "nats://" + n.Addr }

// Version returns the version that the server itself reports, as in 2.9.10.
func (n *NATS) Version() string {
	n.t.Helper()
	info, err := natsAnswers(n.Addr)
	if err != nil {
		n.t.Fatal(err)
	}
	return info.Version
}

// NATSOption changes how NewNATS starts the server.
type NATSOption func(*natsSetup)

type natsSetup struct {
	debian      bool
	noJetStream bool
	extra       []string
}

// NATS29 starts Debian's nats-server (2.9) instead of the current one: the oldest version that tarry supports.
func NATS29() NATSOption { return func(s *natsSetup) { s.debian = true } }

// NoJetStream starts a server with core NATS only.
func NoJetStream() NATSOption { return func(s *natsSetup) { s.noJetStream = true } }

// NATSConfig adds text to the configuration file, as in NATSConfig("max_payload: 2MB").
func NATSConfig(text string) NATSOption {
	return func(s *natsSetup) { s.extra = append(s.extra, text) }
}

// NewNATS starts a nats-server for this test alone: the version in go.mod, built once per machine, with JetStream.
func NewNATS(t testing.TB, options ...NATSOption) *NATS {
	t.Helper()
	Needs(t, "nats-server")
	var s natsSetup
	for _, o := range options {
		o(&s)
	}
	c, err := startNATS(t.TempDir(), s)
	if err != nil {
		t.Fatal(err)
	}
	return &NATS{own(t, c), c.addr}
}

// SharedNATS returns the one nats-server of this test binary, with JetStream. Use your own subject prefix and stream
// names, and never pause or stop it.
func SharedNATS(t testing.TB) *NATS {
	t.Helper()
	Needs(t, "nats-server")
	c, err := machine.nats.get(func() (*child, error) {
		dir, err := machine.scratch.sub("nats")
		if err != nil {
			return nil, err
		}
		return startNATS(dir, natsSetup{})
	})
	p := use(t, c, err)
	return &NATS{p, p.c.addr}
}

func startNATS(dir string, s natsSetup) (*child, error) {
	find := natsBinary
	if s.debian {
		find = func() (string, error) { return program("/usr/sbin/nats-server") }
	}
	bin, err := find()
	if err != nil {
		return nil, err
	}
	return onPorts(1, func(ports []port, release func()) (*child, error) {
		config := filepath.Join(dir, "nats.conf")
		c := &child{name: "nats-server", addr: ports[0].addr(), dir: dir, bin: bin, args: []string{"-c", config},
			release: release}
		lines := []string{fmt.Sprintf("listen: %q", c.addr)}
		if !s.noJetStream {
			lines = append(lines, fmt.Sprintf("jetstream { store_dir: %q }", filepath.Join(dir, "store")))
		}
		lines = append(append(lines, s.extra...), "")
		if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			return nil, fmt.Errorf("write the nats-server configuration: %w", err)
		}
		c.ready = func() error {
			info, err := natsAnswers(c.addr)
			if err == nil && !s.noJetStream && !info.JetStream {
				err = fmt.Errorf("JetStream is not up yet")
			}
			return err
		}
		return c, startOn(c)
	})
}

type natsInfo struct {
	Version   string `json:"version"`
	JetStream bool   `json:"jetstream"`
	Auth      bool   `json:"auth_required"`
	TLS       bool   `json:"tls_required"`
}

// natsAnswers reads the greeting and sends one PING, unless the server requires credentials or TLS first.
func natsAnswers(addr string) (natsInfo, error) {
	conn, err := dial(addr)
	if err != nil {
		return natsInfo{}, err
	}
	defer conn.Close()
	return natsGreeting(conn)
}

func natsGreeting(conn net.Conn) (info natsInfo, err error) {
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if err != nil {
		return info, fmt.Errorf("read the greeting of nats: %w", err)
	}
	text, ok := strings.CutPrefix(line, "INFO ")
	if !ok {
		return info, fmt.Errorf("read the greeting of nats: it says %q", line)
	}
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		return info, fmt.Errorf("read the greeting of nats: %w", err)
	}
	if info.Auth || info.TLS {
		return info, nil
	}
	if _, err := fmt.Fprint(conn, "CONNECT {\"verbose\":false}\r\nPING\r\n"); err != nil {
		return info, fmt.Errorf("ping nats: %w", err)
	}
	if line, err = r.ReadString('\n'); err != nil {
		return info, fmt.Errorf("ping nats: %w", err)
	}
	if strings.TrimSpace(line) != "PONG" {
		return info, fmt.Errorf("ping nats: it says %q", line)
	}
	return info, nil
}
