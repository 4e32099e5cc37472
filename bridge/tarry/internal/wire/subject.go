// Code generated from bridge/wire by go generate; DO NOT EDIT.

package wire

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CheckSubject accepts a subject to which a message can be published on any server and in any stream: 1 to 255 bytes of
// valid UTF-8, tokens joined by single dots, no wildcard, blank or control character, not a subject of the server's
// own. It is stricter than nats.go, which accepts "a..b" and "s.*", the latter of which JetStream stores.
func CheckSubject(s string) error {
	if p := subjectProblem(s); p != "" {
		return &Error{Word: WordTopic, Field: FieldTopic, Detail: p}
	}
	return nil
}

// CheckTarget is CheckSubject for the topic of a push. It also refuses topics under the intake prefix, whose messages
// would return to the intake, and under "tarry", the subjects of requests to tarry itself.
func CheckTarget(s, prefix string) error {
	if err := CheckSubject(s); err != nil {
		return err
	}
	return CheckNotOwn(s, prefix)
}

// CheckNotOwn refuses a subject, or a pattern of subjects, that lies under the intake prefix or under "tarry".
func CheckNotOwn(s, prefix string) error {
	for _, root := range [...]string{prefix, "tarry"} {
		if isUnder(s, root) {
			return Invalid(FieldTopic, fmt.Sprintf("%s lies under %q, which tarry reads itself", Quote(s), root+"."))
		}
	}
	return nil
}

// CheckPrefix accepts an intake prefix: a subject of at most 64 bytes that is not tarry's own.
func CheckPrefix(prefix string) error {
	if err := CheckSubject(prefix); err != nil {
		return under("prefix", err)
	}
	if len(prefix) > MaxPrefix {
		return &Error{Word: WordTopic, Field: "prefix",
			Detail: fmt.Sprintf("has %d bytes, the limit is %d", len(prefix), MaxPrefix)}
	}
	if isUnder(prefix, "tarry") {
		return &Error{Word: WordTopic, Field: "prefix", Detail: `lies under "tarry.", where requests to tarry go`}
	}
	return nil
}

// IntakeSubject returns the subject to which a push for the topic is published.
func IntakeSubject(prefix, topic string) string { return prefix + "." + topic }

// isUnder reports whether s is root or one of its descendants.
func isUnder(s, root string) bool {
	return strings.HasPrefix(s, root) && (len(s) == len(root) || s[len(root)] == '.')
}

// subjectProblem returns the end of the sentence "topic ...", or "".
func subjectProblem(s string) string {
	switch {
	case s == "":
		return fmt.Sprintf("is empty; it needs 1 to %d bytes", MaxSubject)
	case len(s) > MaxSubject:
		return fmt.Sprintf("has %d bytes, the limit is %d", len(s), MaxSubject)
	case s[0] == '$':
		return Quote(s) + ` starts with "$", which belongs to the server`
	case strings.HasPrefix(s, "_INBOX"):
		return Quote(s) + ` starts with "_INBOX", where replies go`
	case s == "/":
		return Quote(s) + " cannot stand in the path of a URL"
	}
	token := 0 // where the current token starts
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError {
				return Quote(s) + " is not valid UTF-8"
			}
			if unicode.IsSpace(r) || unicode.IsControl(r) {
				return Quote(s) + " contains a blank or a control character"
			}
			i += n
			continue
		}
		switch {
		case c == '.':
			if i == token {
				return Quote(s) + " has an empty token"
			}
			token = i + 1
		case c == '*' || c == '>':
			return Quote(s) + " contains a wildcard; a message is due on one literal subject"
		case c <= ' ' || c == 0x7f:
			return Quote(s) + " contains a blank or a control character"
		}
		i++
	}
	if token == len(s) {
		return Quote(s) + " has an empty token"
	}
	return ""
}
