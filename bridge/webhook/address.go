package webhook

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// guard judges the addresses that are dialled, whatever names they came from.
type guard struct {
	public *ssrf.Guardian // what is on the public Internet, or allowed
	own    []netip.AddrPort
}

func newGuard(allow []netip.Prefix, own []net.Addr) *guard {
	var v4, v6 []netip.Prefix
	for _, p := range allow {
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	g := &guard{public: ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...),
		ssrf.WithAllowedV6Prefixes(v6...))}
	for _, at := range own {
		if tcp, ok := at.(*net.TCPAddr); ok {
			at := tcp.AddrPort()
			g.own = append(g.own, netip.AddrPortFrom(at.Addr().Unmap(), at.Port()))
		}
	}
	return g
}

// control is the Control of a net.Dialer: it sees each address before it is dialled.
func (g *guard) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("read the address %q: %w", address, err)
	}
	ip := at.Addr().Unmap().WithZone("")
	if g.isOwn(netip.AddrPortFrom(ip, at.Port())) {
		return &refusal{text: fmt.Sprintf("%s is this instance's own", at)}
	}
	if g.public.SafeAddr(ip) != nil {
		return &refusal{fmt.Sprintf("%s is not public, and webhook.allow does not name it", ip), true}
	}
	return nil
}

// refusal is why an address is not dialled.
type refusal struct {
	text    string
	setting bool // webhook.allow decides it
}

func (r *refusal) Error() string { return r.text }

// isOwn reports whether something of this process listens there.
func (g *guard) isOwn(at netip.AddrPort) bool {
	return slices.ContainsFunc(g.own, func(own netip.AddrPort) bool {
		if own.Port() != at.Port() {
			return false
		}
		return own.Addr() == at.Addr() || at.Addr().IsUnspecified() || own.Addr().IsUnspecified() && local(at.Addr())
	})
}

// local reports whether an address is one of this machine.
func local(ip netip.Addr) bool {
	all, _ := net.InterfaceAddrs() // without them loopback is known all the same
	return ip.IsLoopback() || slices.ContainsFunc(all, func(a net.Addr) bool {
		network, ok := a.(*net.IPNet)
		return ok && network.IP.Equal(ip.AsSlice())
	})
}

// newClient returns a client that uses no proxy, follows no redirect and dials no address that guard refuses.
func (s *Service) newClient(allow []netip.Prefix) *http.Client {
	c := &http.Client{Transport: s.cfg.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if c.Transport == nil {
		dialer := &net.Dialer{Timeout: 10 * time.Second, Control: newGuard(allow, s.cfg.Own).control}
		c.Transport = &http.Transport{DialContext: dialer.DialContext, ForceAttemptHTTP2: true, DisableCompression: true,
			TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			// A connection that fell silent would else fail every request until the kernel gives it up.
			HTTP2: &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 5 * time.Second}}
	}
	return c
}
