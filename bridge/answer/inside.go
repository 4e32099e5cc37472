package answer

import "regexp"

// An answer for callers contains neither host names nor replies of the store's scripts. The log has the complete error.
var (
	// call matches the start of an error of the net package, which names the remote host.
	call = regexp.MustCompile(`\b(?:dial|read|write) (?:tcp|udp|unix)[46]?\b.*|\blookup \S+.*`)
	// address is a host and its port.
	address = regexp.MustCompile(`\[?[0-9A-Za-z_.:-]*[0-9A-Za-z_-]\]?:[0-9]{3,5}\b`)
	// script matches the reply of a script of the store.
	script = regexp.MustCompile(` \([A-Z]{4,} [^()]*\)`)
)

// nameless returns an error's text without host names and without script replies.
func nameless(text string) string {
	text = script.ReplaceAllString(text, "")
	return address.ReplaceAllString(call.ReplaceAllString(text, "no connection"), "a server")
}
