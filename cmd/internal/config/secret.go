package config

import (
	"fmt"
	"io"
)

const mask = "***"

// Secret is a password or token. However it is printed, logged or encoded it shows as ***; only Reveal gives it away,
// so a leak can be searched for.
type Secret string

// Reveal gives the secret itself, for the one call that needs it.
func (s Secret) Reveal() string { return string(s) }

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// Format masks under every verb that fmt hands over, which is all but %p; String alone would let %d through.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText masks in JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
