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

// machineRules hold the settings that concern no server. loopback is yes where http.listen is of this machine alone.
var machineRules = []rule{
	{"http access", "printed=yes", Warn, "http.token is the one that tarry's pages print",
		"make one: openssl rand -hex 24"},
	{"http access", "asks= loopback=yes", OK, "{http.listen} asks for no token; only this machine can reach it", ""},
	{"http access", "asks=", Warn,
		"{http.listen} accepts pushes and cancels from anybody who can reach it: http.insecure is on and there is no token",
		"set http.token or http.tokens, and remove http.insecure"},
	{"http access", "tls= loopback=", OK,
		"{http.listen} asks for a token, which is sent in clear: if others share the network, set http.tls or put TLS in " +
			"front", ""},
	{"http access", "", OK, "{http.listen} asks for a token", ""},
}

// machine checks the settings that concern no server.
func (p *patient) machine(context.Context) ([]Check, []reading) {
	n, h := p.notes("machine", ""), p.cfg.HTTP
	n.apply(machineRules, facts{"http.listen": h.Listen, "printed": yes(h.Token.Printed()),
		"asks": yes(h.Token != "" || len(h.Tokens) > 0 || h.TokensFile != ""), "tls": h.TLS.Cert,
		"loopback": yes(config.Loopback(h.Listen))})
	p.certificates(n)
	return n.checks, nil
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
