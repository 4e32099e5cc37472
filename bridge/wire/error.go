package wire

import (
	"strconv"
	"unicode/utf8"
)

// The stable words of refusals. Programs compare them; they never change their meaning.
const (
	WordTopic       = "invalid_topic"
	WordDelay       = "invalid_delay"
	WordAt          = "invalid_at"
	WordNoDelay     = "missing_delay"
	WordDelayAndAt  = "delay_and_at"
	WordID          = "invalid_id"
	WordKey         = "invalid_key"
	WordOnDuplicate = "invalid_on_duplicate"
	WordDeliver     = "invalid_deliver"
	WordPriority    = "invalid_priority"
	WordTTL         = "invalid_ttl"
	WordAttempt     = "invalid_attempt"
	WordRetry       = "invalid_retry"
	WordMaxWait     = "invalid_max_wait"
	WordReason      = "invalid_reason"
	WordHeader      = "invalid_header"
	WordUnknown     = "unknown_header"
	WordRepeated    = "repeated_header"
	WordTooLarge    = "too_large"
	WordUnsupported = "unsupported_yet"
)

// Error refuses a push. Word is for programs, Field names the header or the JSON field at fault, Detail is a sentence
// for people that starts after the field's name and gives the limit.
type Error struct {
	Word   string
	Field  string
	Detail string
}

// Error names the field and the limit.
func (e *Error) Error() string { return e.Field + " " + e.Detail }

// under names the field as the producer wrote it: the header of a tagged message instead of the JSON field.
func under(field string, err error) error {
	if e, ok := err.(*Error); ok {
		return &Error{Word: e.Word, Field: field, Detail: e.Detail}
	}
	return err
}

// quote shows a value in an error without letting a huge or binary one through.
func quote(s string) string {
	const limit = 40
	if len(s) <= limit {
		return strconv.QuoteToASCII(s)
	}
	cut := limit
	for cut > limit-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.QuoteToASCII(s[:cut]) + "..."
}
