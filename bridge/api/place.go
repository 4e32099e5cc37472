package api

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
)

// The cursor of a list that the scheduler pages through is where the scheduler goes on, which is text, and a mark
// before it that binds it to the list and its query, and shows damage:
//
//	base64url( form (1) | mark (8) | the scheduler's )
//
// Form and length tell it from the cursors of the journal's list, see cursor.go.

const (
	placeForm = 2
	placeText = 1 + 8 // where the scheduler's begins
)

// The lists that have such cursors.
const (
	listDead   = "dead"
	listTopics = "topics"

	listRejects = "rejects"
)

func sealCursor(list, query, next string) string {
	b := append(make([]byte, 0, placeText+len(next)), placeForm)
	b = append(b, placeMark(list, query, next)...)
	return base64.RawURLEncoding.EncodeToString(append(b, next...))
}

func openCursor(list, query, cursor string) (next string, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(b) <= placeText || b[0] != placeForm {
		return "", refusal(http.StatusBadRequest, WordCursor, "cursor %.40q is none that an answer gave", cursor)
	}
	if next = string(b[placeText:]); string(b[1:placeText]) != string(placeMark(list, query, next)) {
		return "", refusal(http.StatusBadRequest, WordCursor,
			"cursor belongs to another query; all but limit must stay as it was")
	}
	return next, nil
}

func placeMark(list, query, next string) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q %q", list, query, next))
	return sum[:8]
}
