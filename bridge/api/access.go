package api

import (
	"context"
	"crypto/sha256"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
)

// admitted calls h only for requests with the needed right. changes marks a GET that changes something.
func (s *Server) admitted(needs ops.Right, changes bool, h Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		token, err := s.admit(r, changes)
		if err != nil {
			return err
		}
		if o, ok := w.(*observed); ok {
			o.admitted = true
		}
		if at, _ := r.Context().Value(slotKey{}).(slot); !at.take(s.holder(r, token)) {
			return ops.Refuse(http.StatusServiceUnavailable, ops.WordBusy,
				"this caller's requests take three quarters of http.connections, which is %d", s.cfg.Connections)
		}
		if token == nil && !needs.Audited() {
			return h(w, r) // there is nothing to note
		}
		by := &ops.Caller{Token: token, Address: r.RemoteAddr, Route: r.Pattern}
		ctx := context.WithValue(r.Context(), callerKey{}, by)
		if token != nil {
			ctx = scheduler.CalledBy(ctx, token.Name)
		}
		r = r.WithContext(ctx)
		if o, ok := w.(*observed); ok && needs.Audited() {
			o.by = by
		}
		if token != nil && !token.Has(needs) {
			return ops.Lacks(needs.String(), "")
		}
		return h(w, r)
	}
}

// admit returns the token of a request, or nil if no token is needed.
func (s *Server) admit(r *http.Request, changes bool) (*Token, error) {
	if s.crosses(r, changes) {
		return nil, ops.Refuse(http.StatusForbidden, WordCrossOrigin, "a browser sent this from a page of another origin")
	}
	if forSeeds(r) {
		if token := s.guard.named(s.cfg.SeedsToken); token != nil {
			return token, nil
		}
		return nil, ops.Refuse(http.StatusForbidden, ops.WordForbidden, "there is no token %s, which seeds.token names",
			s.cfg.SeedsToken)
	}
	if !s.guard.shut.Load() {
		return nil, nil
	}
	given, found := bearer(r)
	if !found {
		return nil, ops.Refuse(http.StatusUnauthorized, WordUnauthorized,
			"a token is needed: Authorization: Bearer <token>")
	}
	hash := sha256.Sum256([]byte(given))
	token := s.guard.find(&hash)
	if token == nil {
		return nil, ops.Refuse(http.StatusUnauthorized, WordUnauthorized, "unknown token")
	}
	return token, nil
}

// crosses reports whether a page of another origin may have made a browser send a request. A GET that changes something
// counts as a POST.
func (s *Server) crosses(r *http.Request, changes bool) bool {
	if changes && r.Method == http.MethodGet {
		changing := *r
		changing.Method = http.MethodPost
		return s.origin.Check(&changing) != nil || unmarked(r)
	}
	return s.origin.Check(r) != nil
}

// unmarked reports whether a browser sent a request without a mark of its origin, as it does over plain HTTP to other
// machines. No client is a browser.
func unmarked(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") == "" && strings.Contains(r.UserAgent(), "Mozilla/")
}

// bearer returns the bearer token of a request. The scheme's name matches without case (RFC 9110).
func bearer(r *http.Request) (string, bool) {
	lines := r.Header["Authorization"]
	if len(lines) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// A server without tokens answers everybody who can reach it. A web page can reach it through the browser of a user who
// can: the page's host name only needs to resolve to this server's address at the second look-up (DNS rebinding). Host
// then holds the page's host name, so ownHost checks it. An IP address in Host is harmless, since nobody can make it
// resolve to another address.

// ownHost refuses a request whose host is not one of this server's names. A server with tokens relies on them instead.
func (s *Server) ownHost(r *http.Request) error {
	if s.guard.shut.Load() && !forSeeds(r) || s.known(r.Host) {
		return nil
	}
	return ops.Refuse(http.StatusForbidden, WordForeignHost,
		"Host %.100q is neither an address nor localhost nor in http.hosts, and no token is asked for here", r.Host)
}

// known reports whether a Host header names this server: an address, localhost or one of Config.Hosts, with or without
// a port.
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
