package answer

import "regexp"

// A caller's answer names no hosts: a driver's error goes to the log, which has it whole.
var (
	// call is where the words of the net package begin; they say to whom.
	call = regexp.MustCompile(`\b(?:dial|read|write) (?:tcp|udp|unix)[46]?\b.*|\blookup \S+.*`)
	// address is a host and its port.
	address = regexp.MustCompile(`\[?[0-9A-Za-z_.:-]*[0-9A-Za-z_-]\]?:[0-9]{3,5}\b`)
)

// nameless is an error's text without the hosts that it names.
func nameless(text string) string {
	return address.ReplaceAllString(call.ReplaceAllString(text, "no connection"), "a server")
}
