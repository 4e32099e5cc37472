package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// noCredentials keeps users and passwords out of addresses, which are logged.
func noCredentials(s string) string {
	if strings.Contains(s, "@") {
		return "holds a user, password or token, which have settings of their own"
	}
	return ""
}

// listenAddress is the address on which a server listens. No host means all interfaces, port 0 any free one.
func listenAddress() text {
	return text{"host:port", "host:port, port 0 to 65535", func(s string) string {
		_, phrase := splitAddress(s, 0)
		return phrase
	}}
}

// listenOrOff is the address on which a server listens, or the word off.
func listenOrOff() text {
	address := listenAddress()
	return text{"address", address.limit + ", or off", func(s string) string {
		if s == PeerOff {
			return ""
		}
		return address.check(s)
	}}
}

// dialAddress is a server to connect to.
func dialAddress() text {
	return text{"host:port", "host:port, port 1 to 65535", checkDial}
}

// hostName is a name in the form of a Host header, without a port.
func hostName() text {
	return text{"host", "a host's name without scheme and port, 1 to 253 of A-Z, a-z, 0-9, _, . and -",
		func(s string) string { return firstOf(atMost(s, 253), alien(s, inHost)) }}
}

func network() text {
	return text{"network", "an IP address, or a network as 10.0.0.0/8", func(s string) string {
		if _, err := ParseNetwork(s); err != nil {
			return "is neither an IP address nor a network"
		}
		return ""
	}}
}

// ParseNetwork reads a network or a single address.
func ParseNetwork(s string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(s); err == nil {
		return ip.Prefix(ip.BitLen())
	}
	return netip.ParsePrefix(s)
}

func checkDial(s string) string {
	host, phrase := splitAddress(s, 1)
	if ip, err := netip.ParseAddr(host); phrase == "" && (host == "" || err == nil && ip.IsUnspecified()) {
		return "names no host"
	}
	return phrase
}

func splitAddress(s string, lowest int) (host, phrase string) {
	if phrase := firstOf(noCredentials(s), printable(s)); phrase != "" {
		return "", phrase
	}
	if strings.Contains(s, "/") {
		return "", "is not host:port (no scheme, no path)"
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		if !strings.Contains(s, ":") || strings.HasSuffix(s, "]") {
			return "", "has no port"
		}
		return "", "is not host:port (IPv6 as [::1]:7070)"
	}
	return host, firstOf(checkHost(host), checkPort(port, lowest))
}

func checkPort(port string, lowest int) string {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || strings.HasPrefix(port, "+") || int(n) < lowest {
		return fmt.Sprintf("has no port from %d to 65535", lowest)
	}
	return ""
}

func checkHost(host string) string {
	if _, err := netip.ParseAddr(host); err == nil || host == "" {
		return ""
	}
	if len(host) > 253 {
		return "has a host name longer than 253"
	}
	if strange := alien(host, inHost); strange != "" {
		return strange + " of its host name"
	}
	return ""
}

// loopback reports whether an address can be reached only from this machine. A name other than localhost may resolve to
// anything, so it does not count.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// natsURL is one NATS server.
func natsURL() text {
	return text{"url", "nats://host:port or tls://host:port", func(s string) string {
		scheme, rest, found := strings.Cut(s, "://")
		switch {
		case !found:
			return "has no scheme"
		case scheme != "nats" && scheme != "tls":
			return "has another scheme"
		}
		return checkDial(rest)
	}}
}

// webURL is tarry's own HTTP address, or a proxy's before it, maybe with a path. host:port alone means http.
func webURL() text {
	return text{"url", "http://host:port or https://host:port, a path may follow", func(s string) string {
		s = withScheme(s)
		if noCredentials(s) == "" && strings.ContainsAny(s, "?#") {
			return "has a query or a fragment"
		}
		return checkURL(s)
	}}
}

// targetURL is where webhooks post.
func targetURL() text {
	return text{"url", "http:// or https://, a host, and a port, path and query if need be", checkURL}
}

func checkURL(s string) string {
	if phrase := firstOf(noCredentials(s), printable(s)); phrase != "" {
		return phrase
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "is not a URL"
	case u.Scheme != "http" && u.Scheme != "https":
		return "begins with neither http:// nor https://"
	case u.Fragment != "" || strings.HasSuffix(s, "#"):
		return "has a fragment"
	case u.Hostname() == "":
		return "names no host"
	case u.Port() != "" || strings.HasSuffix(u.Host, ":"):
		return firstOf(checkHost(u.Hostname()), checkPort(u.Port(), 1))
	}
	return checkHost(u.Hostname())
}

// withScheme makes host:port a URL, and leaves everything else as it is.
func withScheme(s string) string {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" || checkPort(port, 1) != "" {
		return s
	}
	return "http://" + s
}
