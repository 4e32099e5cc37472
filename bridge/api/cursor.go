package api

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
)

// A cursor is the position at which a list continues, in a form that each list defines. A mark in front of the position
// binds it to the list and its query, because with another query the cursor would silently skip messages. The mark also
// detects damage. Callers send the text back unchanged:
//
//	base64url( form (1 byte) | mark (8) | where the list continues )
//
// The limit is not part of the query. A forged cursor only shows another page of messages that the caller may see
// anyway.

const (
	cursorForm = 2
	cursorText = 1 + 8 // where the list's part begins
)

// The lists that have cursors.
const (
	listMessages = "messages"
	listDead     = "dead"
	listTopics   = "topics"
	listRejects  = "rejects"
)

func sealCursor(list, query, next string) string {
	b := append(make([]byte, 0, cursorText+len(next)), cursorForm)
	b = append(b, cursorMark(list, query, next)...)
	return base64.RawURLEncoding.EncodeToString(append(b, next...))
}

func openCursor(list, query, cursor string) (next string, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(b) <= cursorText || b[0] != cursorForm {
		return "", badCursor(cursor)
	}
	if next = string(b[cursorText:]); string(b[1:cursorText]) != string(cursorMark(list, query, next)) {
		return "", refusal(http.StatusBadRequest, WordCursor,
			"cursor belongs to another query; all but limit must stay as it was")
	}
	return next, nil
}

func badCursor(cursor string) error {
	return refusal(http.StatusBadRequest, WordCursor, "cursor %.40q is not one from an answer", cursor)
}

func cursorMark(list, query, next string) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q %q", list, query, next))
	return sum[:8]
}
