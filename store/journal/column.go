package journal

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tarry-mq/tarry/scheduler"
)

// What columns hold. No row may be refused for its data: it would stand in the
// way of all that come after it. So texts are made valid and cut to their
// columns, numbers have columns that hold all their values, and ttl rounds up.
const (
	nameBytes   = 255  // topic, id, key, stream, instance, address: VARCHAR(255)
	reasonBytes = 1024 // VARCHAR(1024)
)

// text makes s valid UTF-8 of at most limit bytes. The doors have checked what
// users send: topics, ids and keys pass unchanged.
func text(s string, limit int) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

func name(s string) string { return text(s, nameBytes) }

// number is an unsigned number in a signed column. What the scheduler counts
// stays far below 2^63; beyond that it would still come back as it was.
func number(n uint64) int64 { return int64(n) }

// bit is a truth value in a column.
func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// unlessZero is a number, or NULL for 0, which takes no room in a row.
func unlessZero(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

// unlessEmpty is a text, or NULL for an empty one.
func unlessEmpty(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// blob is never nil, which would be NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// millis is a duration in whole milliseconds, rounded up: 0 would be for ever.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// endedAt is when a change ended its message, nil when it did not.
func endedAt(c *scheduler.Change) any {
	if !c.State.Ended() {
		return nil
	}
	return int64(c.At)
}
