package wire

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// Receipt is what a consumer gets with a message that it pulled, and what settles its lease: the uid without its "t-",
// the nonce of the pull in 16 hex digits, and the topic in base64url. The nonce cannot be guessed.
type Receipt struct {
	UID   string
	Nonce uint64
	Topic string
}

const (
	uidMark   = "t-"
	uidDigits = 16
	hexDigits = 16
)

// String returns the receipt's text.
func (r Receipt) String() string { return string(appendReceipt(nil, &r)) }

func appendReceipt(b []byte, r *Receipt) []byte {
	b = append(b, strings.TrimPrefix(r.UID, uidMark)...)
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[r.Nonce>>shift&15])
	}
	return base64.RawURLEncoding.AppendEncode(b, []byte(r.Topic))
}

// ParseReceipt reads a receipt. It accepts only the text that String returns.
func ParseReceipt(s string) (Receipt, error) {
	if r, ok := parseReceipt(s); ok {
		return r, nil
	}
	return Receipt{}, &Error{Word: WordReceipt, Field: FieldReceipt, Detail: quote(s) + " is not a receipt of a pull"}
}

func parseReceipt(s string) (r Receipt, ok bool) {
	if len(s) <= uidDigits+hexDigits {
		return r, false
	}
	uid, nonce, rest := uidMark+s[:uidDigits], s[uidDigits:uidDigits+hexDigits], s[uidDigits+hexDigits:]
	number, err := strconv.ParseUint(nonce, 16, 64)
	if err != nil || number == 0 || checkUID(uid) != nil {
		return r, false
	}
	topic, err := base64.RawURLEncoding.DecodeString(rest)
	r = Receipt{UID: uid, Nonce: number, Topic: string(topic)}
	return r, err == nil && CheckSubject(r.Topic) == nil && r.String() == s
}
