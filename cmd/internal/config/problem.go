package config

import (
	"errors"
	"fmt"
	"io"
	"slices"
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

// Printed reports whether the secret stands in tarry's own pages, for everybody to read.
func (s Secret) Printed() bool { return s == "change-this-token" || s == "secret" }

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

const maxUnknown = 20 // unknown names that are reported one by one

// unknown refuses names that no command has. Values are never shown: a misspelt http.token is still a token.
func (l *loader) unknown(names, known []string, source string) {
	for i, name := range names {
		if i == maxUnknown {
			l.add(
				&Problem{Name: "...", Wrong: fmt.Sprintf("and %d further unknown names", len(names)-i), Source: source})
			return
		}
		wrong := "is not a setting of tarry"
		if near := nearest(name, known); near != "" {
			wrong += fmt.Sprintf(" (did you mean %s?)", near)
		}
		l.add(&Problem{Name: shownName(name), Wrong: wrong, Source: source})
	}
}

// nearest finds the known name that was probably meant: the mistyped one, else the only one that ends in the same word.
func nearest(name string, known []string) string {
	if meant := mistyped(name, known); meant != "" {
		return meant
	}
	same := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return lastWord(k) != lastWord(name) })
	if len(same) == 1 {
		return same[0]
	}
	return ""
}

// mistyped finds the known name with the fewest typing mistakes, if they are few for its length.
func mistyped(name string, known []string) string {
	folded := fold(name)
	if len(folded) > 128 {
		return ""
	}
	best, least := "", 2+len(folded)/8
	for _, k := range known {
		if d := distance(folded, fold(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

func fold(name string) string {
	name = strings.TrimPrefix(name, envPrefix)
	return strings.ToLower(strings.NewReplacer(".", "", "_", "", "-", "").Replace(name))
}

func lastWord(name string) string {
	return strings.ToLower(name[strings.LastIndexAny(name, "._-")+1:])
}

// distance counts inserted, dropped, changed and swapped letters between a and b.
func distance(a, b string) int {
	older, old := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range old {
		old[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(old[j]+1, row[j-1]+1, old[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		older, old = old, row
	}
	return old[len(b)]
}
