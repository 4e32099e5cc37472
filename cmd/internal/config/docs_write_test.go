package config

import (
	"fmt"
	"strings"
)

// The marks around Markdown's tables in docs/settings.md.
const (
	MarkdownStart = "<!-- settings:start -->"
	MarkdownEnd   = "<!-- settings:end -->"
)

// Markdown returns the tables of docs/settings.md: all settings, by command.
func Markdown() string {
	var b strings.Builder
	for _, part := range []struct {
		command
		title string
	}{{serve, "`tarry serve`"}, {dev, "`tarry dev`"}, {migrate, "`tarry migrate`"}, {client, "Client commands"}} {
		fmt.Fprintf(&b,
			"%s:\n\n| setting | environment | default | limit | what it does |\n|---|---|---|---|---|\n", part.title)
		for _, s := range settings() {
			if s.of&part.command != 0 {
				fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n", s.name, s.env(), s.standard(),
					cell(s.limit.words()), cell(s.summary()))
			}
		}
		b.WriteString("\n")
	}
	for _, q := range sequences() {
		fmt.Fprintf(&b, "`%s`, %s in the file only, for %s: %s.\n\n| field | secret | default | limit | what it does "+
			"|\n|---|---|---|---|---|\n", q.name, q.words(), q.of, q.help)
		for _, s := range q.rows {
			secret := "no"
			if s.secret {
				secret = "yes"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.name, secret, s.standard(), cell(s.limit.words()),
				cell(s.summary()))
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// standard returns the default as a table cell.
func (s setting) standard() string {
	switch {
	case s.fallback != "":
		return "`" + s.fallback + "`"
	case s.computed != "":
		return cell(s.computed)
	}
	return "none"
}

// summary returns the help as a sentence.
func (s setting) summary() string {
	text := strings.ToUpper(s.help[:1]) + s.help[1:] + "."
	if s.secret {
		text += " Secret: never shown."
	}
	return text
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// Sample returns a YAML file for tarry serve with every setting commented out at its default; a setting without one
// shows "..." for a value. To set one, remove its "# ".
func Sample() string {
	var b strings.Builder
	b.WriteString(
		"# Settings of tarry serve. A setting that is commented out has the value shown; ... means no value.\n" +
			"# These override this file: the environment (http.listen is TARRY_HTTP_LISTEN), then flags " +
			"(--http.listen).\n")
	var open []string
	for _, s := range settings() {
		if s.of&serve == 0 {
			continue
		}
		parts := strings.Split(s.name, ".")
		sections, key := parts[:len(parts)-1], parts[len(parts)-1]
		if len(sections) == 0 || len(open) == 0 || sections[0] != open[0] {
			b.WriteString("\n")
		}
		for depth, section := range sections {
			if depth >= len(open) || open[depth] != section {
				fmt.Fprintf(&b, "%s%s:\n", strings.Repeat("  ", depth), section)
				open = nil
			}
		}
		open = sections
		indent := strings.Repeat("  ", len(sections))
		for _, q := range sequences() {
			if q.before == s.name {
				fmt.Fprintf(&b, "%s## %s\n%s", indent, setting{help: q.help}.summary(), commented(q.example, indent))
			}
		}
		fmt.Fprintf(&b, "%s## %s\n%s## Limit: %s.\n", indent, s.summary(), indent, s.limit.words())
		fmt.Fprintf(&b, "%s# %s: %s\n", indent, key, s.sample())
	}
	return b.String()
}

// sample returns the default as YAML.
func (s setting) sample() string {
	switch s.limit.(type) {
	case several:
		return "[" + strings.ReplaceAll(s.fallback, ",", ", ") + "]"
	}
	if s.fallback == "" {
		return "..."
	}
	return s.fallback
}

// commented is an example for the sample file.
func commented(text, indent string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(indent + "## " + line)
	}
	return b.String()
}
