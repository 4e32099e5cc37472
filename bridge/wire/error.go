package wire

import (
	"strconv"
	"unicode/utf8"
)

// The stable words of refusals. Programs compare them; their meaning never changes.
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
	WordLease       = "invalid_lease"
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
	WordBatch       = "invalid_batch"
	WordUnsupported = "unsupported_yet"
)

// Error is the refusal of a push. Word is for programs. Field names the header or the JSON field at fault. Detail is a
// sentence for people that continues after the field's name and states the limit.
type Error struct {
	Word   string
	Field  string
	Detail string
}

// Error returns the field's name followed by the detail.
func (e *Error) Error() string { return e.Field + " " + e.Detail }

// Invalid refuses a field whose word is derived from its name.
func Invalid(field, problem string) *Error {
	return &Error{Word: "invalid_" + field, Field: field, Detail: problem}
}

// under replaces the JSON field of an error with the name that the producer wrote, such as the header of a tagged
// message.
func under(field string, err error) error {
	if e, ok := err.(*Error); ok {
		return &Error{Word: e.Word, Field: field, Detail: e.Detail}
	}
	return err
}

// Quote returns a value for use in an error, shortened and free of binary data.
func Quote(s string) string {
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
