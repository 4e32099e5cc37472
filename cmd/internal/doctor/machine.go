package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// leastFiles is how many files an instance should be able to have open: connections count as files.
const leastFiles = 4096

// machine looks at the process's surroundings and at settings that no server needs to be asked about.
func (p *patient) machine(context.Context) ([]Check, []reading) {
	n := p.notes("machine", "")
	if files, ok := fileLimit(); ok {
		change := ""
		if files < leastFiles {
			change = fmt.Sprintf(
				"ulimit -n %d at least (LimitNOFILE in systemd, ulimits in compose): connections are files", leastFiles)
		}
		n.judge(Warn, "open files", fmt.Sprintf("%d may be open", files), change)
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
	case !asks && local(h.Listen):
		n.ok("http access", "%s asks for no token, and can be reached from this machine only", h.Listen)
	case !asks:
		n.warn("http access", h.Listen+
			" takes pushes and cancels from anybody who reaches it: http.insecure is on and there is no token",
			"set http.token or http.tokens, and remove http.insecure")
	case h.TLS.Cert == "" && !local(h.Listen):
		n.ok("http access", "%s asks for a token, which travels in clear: set http.tls, or put TLS before it where "+
			"the network is shared", h.Listen)
	default:
		n.ok("http access", "%s asks for a token", h.Listen)
	}
}

func (p *patient) timeouts(n *notes) {
	session, publish := p.cfg.ZooKeeper.Session, p.cfg.Publish.Timeout
	found := fmt.Sprintf("zookeeper.session %s, publish.timeout %s: a dead leader is replaced within about %s, "+
		"streams must recognize duplicates for %s",
		session, publish, session+3*time.Second, p.window())
	change := ""
	switch {
	case publish > session/2: // the settings refuse it too
		change = fmt.Sprintf("publish.timeout %s or less: a leader's trust in itself ends half a session after its "+
			"last renewal", session/2)
	case session < 4*time.Second:
		change = "zookeeper.session 4s or more: a pause of half a session costs the leadership, and most ensembles " +
			"do not grant less"
	}
	n.judge(Warn, "time-outs", found, change)
}

const (
	// clockWarn and clockFail are how far clocks may be apart.
	clockWarn = 250 * time.Millisecond
	clockFail = time.Second
)

// clocks compares all clocks that could be read with the one here: due times are held against their median.
func (p *patient) clocks(n *notes, clocks []reading) {
	if len(clocks) == 0 {
		n.unknown("clocks", "no server showed its time",
			"keep the clocks of all machines in step (chrony or another NTP client)")
		return
	}
	clocks = slices.Clone(clocks)
	slices.SortStableFunc(clocks, func(a, b reading) int { return cmp.Compare(a.source, b.source) })
	// Of several readings of a server the one with the shortest round trip is the most exact.
	best := map[string]reading{}
	for _, r := range clocks {
		if old, ok := best[r.source]; !ok || r.unsure < old.unsure {
			best[r.source] = r
		}
	}
	var parts []string
	low, high := reading{source: "this machine"}, reading{source: "this machine"}
	kinds := map[string]bool{}
	for _, r := range clocks {
		if b, ok := best[r.source]; !ok || b != r {
			continue
		}
		delete(best, r.source)
		kind, _, _ := strings.Cut(r.source, " ")
		kinds[kind] = true
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
	found := "against this machine: " + strings.Join(parts, ", ")
	if worst > clockWarn {
		found = fmt.Sprintf("%s and %s are at least %s apart; %s", low.source, high.source, round(worst), found)
	}
	const change = "set the clocks right and keep them so (chrony or another NTP client on every machine): a message " +
		"is due when the median of three clocks says so, and two wrong ones deliver early or late"
	switch {
	case worst > clockFail:
		n.fail("clocks", found, change)
	case worst > clockWarn:
		n.warn("clocks", found, change)
	case len(kinds) < 2:
		n.ok("clocks", "%s; with fewer than three clocks none outvotes one that jumps (NATS 2.10 or later, or the "+
			"journal, adds one)", found)
	default:
		n.ok("clocks", "%s", found)
	}
}

// advertised is the address that this instance will show to others, as far as it is known before it listens.
func (p *patient) advertised() string {
	if p.cfg.Peer.Advertise != "" {
		return p.cfg.Peer.Advertise
	}
	host, port, err := net.SplitHostPort(p.cfg.HTTP.Listen)
	if err != nil || port == "0" {
		return ""
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = p.cfg.Instance
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	return net.JoinHostPort(host, port)
}
