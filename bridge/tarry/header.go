package tarry

import (
	"strings"

	"github.com/nats-io/nats.go"
)

// Header names match without case here, as they do in the daemon; nats.go keeps the case a producer wrote.

// find returns the first value of a header, empty without one.
func find(h nats.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	for k, v := range h {
		if strings.EqualFold(k, name) && len(v) > 0 {
			return v[0]
		}
	}
	return ""
}

// has reports whether a header is there with a value, be it empty.
func has(h nats.Header, name string) bool {
	for k, v := range h {
		if strings.EqualFold(k, name) && len(v) > 0 {
			return true
		}
	}
	return false
}

// remove takes a header out in every spelling.
func remove(h nats.Header, name string) {
	for k := range h {
		if strings.EqualFold(k, name) {
			delete(h, k)
		}
	}
}
