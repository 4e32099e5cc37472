package config

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// subject is one literal NATS subject, as a message may be due on.
func subject() text {
	limit := fmt.Sprintf("1 to %d bytes, tokens joined by dots, no wildcard; not tarry's, NATS's or the intake's own",
		wire.MaxSubject)
	return text{"subject", limit, func(s string) string { return checkSubject(s, false) }}
}

// pattern is a NATS subject that may have wildcards: * for one token, > at the end for one or more.
func pattern() text {
	limit := fmt.Sprintf("1 to %d bytes, tokens joined by dots, * for one token, > at the end for all that follow",
		wire.MaxSubject)
	return text{"pattern", limit, func(s string) string { return checkSubject(s, true) }}
}

// checkSubject is wire.CheckSubject in the words of a setting, and with wildcards where they are allowed.
func checkSubject(s string, wild bool) string {
	switch {
	case len(s) > wire.MaxSubject:
		return fmt.Sprintf("is longer than %d bytes", wire.MaxSubject)
	case !utf8.ValidString(s) || strings.ContainsRune(s, utf8.RuneError):
		return "is not UTF-8"
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return "has a blank or a control character"
	case strings.HasPrefix(s, "$"):
		return "lies under the server's own subjects"
	case strings.HasPrefix(s, "_INBOX"):
		return "lies under the reply inboxes"
	}
	tokens := strings.Split(s, ".")
	for i, token := range tokens {
		switch {
		case token == "":
			return "has an empty token"
		case !wild && strings.ContainsAny(token, "*>"):
			return "has a wildcard"
		case token == ">" && i < len(tokens)-1:
			return "has > before its end"
		case token != "*" && token != ">" && strings.ContainsAny(token, "*>"):
			return fmt.Sprintf("has the wildcard in %s, where it is no token of its own", shown(token))
		}
	}
	return ""
}

// own reports whether all that a pattern matches lies under a subject that tarry reads itself, so that no message can
// be due there.
func own(pattern, prefix string) string {
	for _, root := range []string{prefix, "tarry"} {
		if pattern == root || strings.HasPrefix(pattern, root+".") {
			return fmt.Sprintf("lies under %q, which tarry reads itself", root+".")
		}
	}
	return ""
}
