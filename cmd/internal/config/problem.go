package config

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrRefused matches every error about settings, for callers that map it to exit code 2.
var ErrRefused = errors.New("setting refused")

const mask = "***"

// Secret is a password or token. However it is printed, logged or encoded, it shows as ***; only Reveal returns it, so
// a leak can be searched for.
type Secret string

// Reveal returns the secret itself, for the one call that needs it.
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

// Problem is one thing wrong with the settings. Its text never holds a secret.
type Problem struct {
	Name   string // the setting; an unknown one as it was spelt
	Value  string // quoted and masked; empty where showing it says nothing
	Wrong  string // "is below 2s"
	Limit  string // "2s to 40s"; may be empty
	Source string // "TARRY_ZOOKEEPER_SESSION", "tarry.yaml", "--zookeeper.session"; empty for a default
}

func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Name + ": ")
	if p.Value != "" {
		b.WriteString(p.Value + " ")
	}
	b.WriteString(p.Wrong)
	if p.Limit != "" {
		fmt.Fprintf(&b, " (limit: %s)", p.Limit)
	}
	if p.Source != "" && p.Source != p.Name {
		b.WriteString(", from " + p.Source)
	}
	return b.String()
}

func (p *Problem) Unwrap() error { return ErrRefused }

const maxShown = 64 // characters of a bad value or name that a message repeats

// shown quotes a value for a message. What stands before an "@" is taken for user and password and masked: people put
// them into addresses. The rest is cut to a readable length.
func shown(text string) string {
	if at := strings.LastIndex(text, "@"); at >= 0 {
		from := 0
		if i := strings.Index(text[:at], "://"); i >= 0 {
			from = i + len("://")
		}
		text = text[:from] + mask + text[at:]
	}
	return fmt.Sprintf("%q", shorten(text))
}

// shownName repeats a name that tarry does not know: as it is when plain, quoted when not.
func shownName(name string) string {
	name = shorten(name)
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c == '"' || c >= 0x7f {
			return fmt.Sprintf("%q", name)
		}
	}
	if name == "" {
		return `""`
	}
	return name
}

func shorten(text string) string {
	n := 0
	for i := range text {
		if n == maxShown {
			return text[:i] + "..."
		}
		n++
	}
	return text
}
