package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/cmd/internal/config"
)

// leastFiles is how many files an instance should be able to have open: connections count as files.
const leastFiles = 4096

// machine checks the process's environment, and the settings that concern no server.
func (p *patient) machine(context.Context) ([]Check, []reading) {
	n := p.notes("machine", "")
	if files, ok := fileLimit(); ok {
		change := ""
		if files < leastFiles {
			change = fmt.Sprintf(
				"ulimit -n %d at least (LimitNOFILE in systemd, ulimits in compose): each connection is a "+
					"file", leastFiles)
		}
		n.judge(Warn, "open files", fmt.Sprintf("at most %d may be open", files), change)
	}
	p.exposure(n)
	p.certificates(n)
	if !p.cfg.InMemory() { // nobody takes over
		p.timeouts(n)
	}
	return n.checks, nil
}

func (p *patient) exposure(n *notes) {
	h := p.cfg.HTTP
	switch asks := h.Token != "" || len(h.Tokens) > 0 || h.TokensFile != ""; {
	case h.Token.Printed():
		n.warn("http access", "http.token is the one that tarry's pages print", "make one: openssl rand -hex 24")
	case !asks && config.Loopback(h.Listen):
		n.ok("http access", "%s asks for no token; only this machine can reach it", h.Listen)
	case !asks:
		n.warn("http access", h.Listen+
			" accepts pushes and cancels from anybody who can reach it: http.insecure is on and there is no token",
			"set http.token or http.tokens, and remove http.insecure")
	case h.TLS.Cert == "" && !config.Loopback(h.Listen):
		n.ok("http access", "%s asks for a token, which is sent in clear: if others share the network, set "+
			"http.tls or put TLS in front", h.Listen)
	default:
		n.ok("http access", "%s asks for a token", h.Listen)
	}
}

func (p *patient) timeouts(n *notes) {
	session, publish := p.cfg.ZooKeeper.Session, p.cfg.Publish.Timeout
	found := fmt.Sprintf("zookeeper.session %s, publish.timeout %s: a dead leader is replaced within about %s, and "+
		"streams must recognize duplicates for %s",
		session, publish, session+3*time.Second, p.window())
	change := ""
	switch {
	case publish > session/2: // the settings refuse it too
		change = fmt.Sprintf("publish.timeout %s or less: a leader stops half a session after its last renewal",
			session/2)
	case session < 4*time.Second:
		change = "zookeeper.session 4s or more: a leader that pauses for half a session loses the leadership, and " +
			"most ensembles do not grant less"
	}
	n.judge(Warn, "time-outs", found, change)
}

const (
	// clockWarn and clockFail are how far clocks may differ.
	clockWarn = 250 * time.Millisecond
	clockFail = time.Second
)

// clocks compares all clocks that could be read with the local one. tarry compares due times with their median.
func (p *patient) clocks(n *notes, clocks []reading) {
	if len(clocks) == 0 {
		n.unknown("clocks", "no server reported its time",
			"keep the clocks of all machines in step (chrony or another NTP client)")
		return
	}
	clocks = slices.Clone(clocks)
	slices.SortStableFunc(clocks, func(a, b reading) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.unsure, b.unsure))
	})
	// The most exact reading of a server is the one with the shortest round trip.
	clocks = slices.CompactFunc(clocks, func(a, b reading) bool { return a.source == b.source })
	var parts []string
	low, high := reading{source: "this machine"}, reading{source: "this machine"}
	kinds := map[string]bool{}
	for _, r := range clocks {
		kind, _, _ := strings.Cut(r.source, " ")
		if kind != "journal" { // it has no vote
			kinds[kind] = true
		}
		parts = append(parts, fmt.Sprintf("%s %+d ms (± %d)", r.source, r.ahead.Milliseconds(),
			(r.unsure+time.Millisecond-1)/time.Millisecond))
		if r.ahead < low.ahead {
			low = r
		}
		if r.ahead > high.ahead {
			high = r
		}
	}
	worst := max(high.ahead-low.ahead-high.unsure-low.unsure, 0)
	found := "relative to this machine: " + strings.Join(parts, ", ")
	if worst > clockWarn {
		found = fmt.Sprintf("%s and %s differ by at least %s; %s", low.source, high.source, round(worst), found)
	}
	const change = "set the clocks and keep them in step (chrony or another NTP client on every machine): a message " +
		"is due by the median of three clocks, so two wrong clocks make deliveries early or late"
	switch {
	case worst > clockFail:
		n.fail("clocks", found, change)
	case worst > clockWarn:
		n.warn("clocks", found, change)
	case len(kinds) < 2:
		n.ok("clocks", "%s; with fewer than three clocks, no median corrects a clock that jumps (NATS 2.10 or "+
			"later has one, once the intake is there)", found)
	default:
		n.ok("clocks", "%s", found)
	}
}

// advertised returns the address that this instance will advertise, or "" if it is not known before it listens.
func (p *patient) advertised() string {
	if p.cfg.Peer.Advertise == "" && strings.HasSuffix(p.cfg.HTTP.Listen, ":0") {
		return ""
	}
	return p.cfg.Advertised(p.cfg.HTTP.Listen)
}
