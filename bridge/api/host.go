package api

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// A server without tokens answers whoever reaches it, and a web page reaches it through the browser of somebody who
// does: its own name need only resolve to this address a second time (DNS rebinding). Then the page's host stands in
// Host, and that is what is refused. An address in its place is nobody's name.

// ownHost refuses a request that was made to a name that is not this server's. Where there are tokens they decide.
func (s *Server) ownHost(r *http.Request) error {
	if s.guard.shut.Load() || s.known(r.Host) {
		return nil
	}
	return refusal(http.StatusForbidden, WordForeignHost,
		"Host %.100q is neither an address nor localhost nor in http.hosts, and no token is asked for here", r.Host)
}

// known reports whether a Host header names this server: an address, localhost or one of Config.Hosts, and maybe a
// port.
func (s *Server) known(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if inner, found := strings.CutPrefix(host, "["); found {
		host = strings.TrimSuffix(inner, "]")
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	same := func(name string) bool { return strings.EqualFold(name, strings.TrimSuffix(host, ".")) }
	return same("localhost") || slices.ContainsFunc(s.cfg.Hosts, same)
}
