package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"

	"github.com/tarry-mq/tarry/scheduler"
)

// A cursor is the place of a page's last record, bound to the query that it belongs to: with another query it would
// skip records without a word. It is text for the caller to send back and nothing else:
//
//	base64url( form (1) | query (8) | due (8) | uid )
//
// The limit is no part of the query. A forged cursor only shows another page of what the caller may see anyway.

const (
	cursorForm  = 1
	cursorPlace = 1 + 8 + 8 // where the uid begins
)

// cursorAfter asks for what comes after this record.
func cursorAfter(q *listing, last *scheduler.Record) string {
	b := append(make([]byte, 0, cursorPlace+scheduler.UIDLen), cursorForm)
	b = append(b, queryMark(q)...)
	b = binary.BigEndian.AppendUint64(b, uint64(last.Due))
	b = append(b, last.UID...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// goOn has q begin after the cursor's place.
func goOn(q *listing, cursor string) error {
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(b) != cursorPlace+scheduler.UIDLen || b[0] != cursorForm ||
		!scheduler.IsUID(string(b[cursorPlace:])) {
		return refusal(http.StatusBadRequest, WordCursor, "cursor %.40q is none that an answer gave", cursor)
	}
	if string(b[1:9]) != string(queryMark(q)) {
		return refusal(http.StatusBadRequest, WordCursor,
			"cursor belongs to another query; all but limit must stay as it was")
	}
	q.AfterDue, q.AfterUID = scheduler.Milli(binary.BigEndian.Uint64(b[9:])), scheduler.UID(b[cursorPlace:])
	return nil
}

// queryMark stands for what a query selects.
func queryMark(q *listing) []byte {
	sum := sha256.Sum256(
		fmt.Appendf(nil, "%q %q %q %q %v %q %q", q.Topic, q.pattern, q.ID, q.Key, q.States, q.from, q.to))
	return sum[:8]
}
