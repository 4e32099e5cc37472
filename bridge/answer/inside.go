package answer

import "regexp"

// A caller's answer names no hosts, and has no words of a store's scripts: the log has the error whole.
var (
	// call is where the words of the net package begin; they say to whom.
	call = regexp.MustCompile(`\b(?:dial|read|write) (?:tcp|udp|unix)[46]?\b.*|\blookup \S+.*`)
	// address is a host and its port.
	address = regexp.MustCompile(`\[?[0-9A-Za-z_.:-]*[0-9A-Za-z_-]\]?:[0-9]{3,5}\b`)
	// script is what a script of the store answered with.
	script = regexp.MustCompile(` \([A-Z]{4,} [^()]*\)`)
)

// nameless is an error's text without the hosts that it names, and without what a script said.
func nameless(text string) string {
	text = script.ReplaceAllString(text, "")
	return address.ReplaceAllString(call.ReplaceAllString(text, "no connection"), "a server")
}
