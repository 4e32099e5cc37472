package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-sql-driver/mysql"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// A check returns the phrase that follows the value in a message ("has no port"), or "" for a valid value.

func identifier(max int) text {
	limit := fmt.Sprintf("1 to %d of a-z, 0-9, _ and -, beginning with a letter or digit", max)
	return text{"name", limit, func(s string) string {
		inside := func(r rune) bool { return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '_' || r == '-' }
		return cmp.Or(atMost(s, max), alien(s, inside),
			alien(s[:min(len(s), 1)], func(r rune) bool { return r != '_' && r != '-' }))
	}}
}

func label(max int) text {
	return text{"name", fmt.Sprintf("1 to %d of A-Z, a-z, 0-9, _, . and -", max),
		func(s string) string { return cmp.Or(atMost(s, max), alien(s, inHost)) }}
}

func atMost(s string, max int) string {
	if len(s) > max {
		return fmt.Sprintf("is longer than %d", max)
	}
	return ""
}

// alien names the first character that is not allowed.
func alien(s string, allowed func(rune) bool) string {
	for i, r := range s {
		if !allowed(r) {
			return fmt.Sprintf("has %q at position %d", r, i+1)
		}
	}
	return ""
}

func inHost(r rune) bool { return inWord(r) || r == '.' }

func inWord(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-'
}

const maxPrefix = 64

// prefix is the first part of the intake's subjects.
func prefix() text {
	limit := fmt.Sprintf(
		"1 to %d of A-Z, a-z, 0-9, _ and -, in parts separated by dots; must not begin with tarry, _INBOX or "+
			"$", maxPrefix)
	return text{"subject", limit, func(s string) string {
		return cmp.Or(atMost(s, maxPrefix), alien(s, inHost), phrase(wire.CheckPrefix(s)))
	}}
}

// token is what a client sends as "Authorization: Bearer ...", so it must fit a header.
func token(min, max int) text {
	limit := fmt.Sprintf("%d to %d printable ASCII characters, no space", min, max)
	return text{"secret", limit, func(s string) string {
		for i := range len(s) {
			if s[i] <= ' ' || s[i] >= 0x7f {
				return "has a character that a header cannot carry"
			}
		}
		return length(s, min, max)
	}}
}

// freeText is text without control characters: user names and passwords.
func freeText(noun string, max int) text {
	limit := fmt.Sprintf("1 to %d bytes of UTF-8 without control characters", max)
	return text{noun, limit, func(s string) string {
		if phrase := printable(s); phrase != "" {
			return phrase
		}
		return length(s, 1, max)
	}}
}

// digestUser is a ZooKeeper user: "user:password" is one string there.
func digestUser(max int) text {
	free := freeText("name", max)
	return text{free.word, free.limit + " or colons", func(s string) string {
		if strings.Contains(s, ":") {
			return "has a colon"
		}
		return free.check(s)
	}}
}

func length(s string, min, max int) string {
	switch {
	case len(s) < min:
		return fmt.Sprintf("is shorter than %d bytes", min)
	case len(s) > max:
		return fmt.Sprintf("is longer than %d bytes", max)
	}
	return ""
}

func printable(s string) string {
	if !utf8.ValidString(s) {
		return "is not UTF-8"
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return "has a control character"
	}
	return ""
}

// subject is one literal NATS subject, as a message may be due on.
func subject() text {
	limit := fmt.Sprintf("1 to %d bytes, tokens separated by dots, no wildcard; not a subject of tarry, NATS or the "+
		"intake",
		wire.MaxSubject)
	return text{"subject", limit, func(s string) string { return phrase(wire.CheckSubject(s)) }}
}

// pattern is a NATS subject that may have wildcards: * for one token, > at the end for one or more.
func pattern() text {
	limit := fmt.Sprintf("1 to %d bytes, tokens separated by dots, * for one token, > at the end for all that follow",
		wire.MaxSubject)
	return text{"pattern", limit, func(s string) string { return phrase(wire.CheckPattern(s)) }}
}

// phrase returns wire's refusal without the value, which the message about a setting adds itself, truncated and masked.
func phrase(err error) string {
	refused, ok := errors.AsType[*wire.Error](err)
	if !ok {
		return ""
	}
	quoted, _ := strconv.QuotedPrefix(refused.Detail)
	return strings.TrimLeft(strings.TrimPrefix(refused.Detail, quoted), ". ")
}

// schedule is a schedule of retries. wire reads it, like the schedule of a message.
func schedule() text {
	limit := fmt.Sprintf(
		"up to %d delays such as 0,2m,10m*5,1h, or exp(1s,1h,10), and ~20%% behind them for jitter; or none; %d bytes",
		wire.MaxRetries, wire.RetryRoom)
	return text{"delays", limit, func(s string) string {
		if strings.Contains(s, "@") {
			return "is no list of delays" // wire would repeat what may be a password
		}
		retry, err := wire.ParseRetry(s)
		if err != nil {
			return phrase(err)
		}
		return length(retry.String(), 1, wire.RetryRoom)
	}}
}

const maxDSN = 2048

// dsn is a database's address. Its driver parses it; the driver's error is omitted, since no part of the address may be
// shown.
func dsn() text {
	limit := fmt.Sprintf("user:password@tcp(host:port)/database, or sqlite: and a file; up to %d bytes", maxDSN)
	return text{"secret", limit, func(s string) string {
		if phrase := cmp.Or(printable(s), length(s, 1, maxDSN)); phrase != "" {
			return phrase
		}
		if file, lite := strings.CutPrefix(s, "sqlite:"); lite {
			if file == "" {
				return "names no file"
			}
			return ""
		}
		// The last slash counts, as in the driver: a password or a socket's path may hold others.
		name, _, _ := strings.Cut(s[strings.LastIndex(s, "/")+1:], "?")
		if !strings.Contains(s, "/") || name == "" {
			return "names no database"
		}
		if _, err := mysql.ParseDSN(s); err != nil {
			return "is not of this form"
		}
		return ""
	}}
}

const maxPath = 4096

// readableFile is a file that must exist when tarry starts. Only regular files: opening a pipe would block.
func readableFile() text {
	return text{"file", "a file that tarry can read", func(s string) string {
		if phrase := checkPath(s); phrase != "" {
			return phrase
		}
		info, err := os.Stat(s)
		if err != nil {
			return "cannot be read: " + reason(err)
		}
		if !info.Mode().IsRegular() {
			return "is not a file"
		}
		file, err := os.Open(s)
		if err != nil {
			return "cannot be read: " + reason(err)
		}
		if err := file.Close(); err != nil {
			return "cannot be read: " + reason(err)
		}
		return ""
	}}
}

// directory may be missing: the command creates it.
func directory() text {
	return text{"directory", "a directory, made if missing", func(s string) string {
		if phrase := checkPath(s); phrase != "" {
			return phrase
		}
		if info, err := os.Stat(s); err == nil && !info.IsDir() {
			return "is not a directory"
		}
		return ""
	}}
}

func checkPath(s string) string { return cmp.Or(atMost(s, maxPath), printable(s)) }

// reason removes operation and path from a file error: the message has the path already.
func reason(err error) string {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return failed.Err.Error()
	}
	return err.Error()
}

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
		func(s string) string { return cmp.Or(atMost(s, 253), alien(s, inHost)) }}
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
	if phrase := cmp.Or(noCredentials(s), printable(s)); phrase != "" {
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
	return host, cmp.Or(checkHost(host), checkPort(port, lowest))
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

// Loopback reports whether an address can be reached only from this machine. A name other than localhost may resolve to
// anything, so it does not count.
func Loopback(address string) bool {
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
	if phrase := cmp.Or(noCredentials(s), printable(s)); phrase != "" {
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
		return cmp.Or(checkHost(u.Hostname()), checkPort(u.Port(), 1))
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
