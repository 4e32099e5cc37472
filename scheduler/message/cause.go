package message

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	// CauseLen is the length of the name of a cause.
	CauseLen   = 8
	causeBytes = 120 // of its text
)

// varies finds what differs between reasons of one cause: quoted values, UUIDs, uids, hexadecimal numbers of 8 digits
// and more, and numbers. An apostrophe within a word, as in can't, quotes nothing.
var varies = regexp.MustCompile(`"[^"]*"|(^|[^\pL\pN'])'[^']*'|` +
	`[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|t-[0-9a-z]{16}|[0-9a-fA-F]{8,}|[0-9]+`)

// Cause returns why a message ended, without what differs from message to message, which becomes #; and a name of that
// cause, which is the same for all messages of its topic that ended so: the first 8 digits of the SHA-256 of topic,
// kind and text.
func (i *Info) Cause() (name, text string) {
	text = causeText(i.Reason)
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %s %q", i.Topic, i.Kind, text))
	return hex.EncodeToString(sum[:CauseLen/2]), text
}

func causeText(reason string) string {
	text, before := strings.ToValidUTF8(reason, ""), ""
	for text != before { // each time there are fewer digits or quotes
		text, before = varies.ReplaceAllString(text, "${1}#"), text
	}
	for len(text) > causeBytes {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}
