package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The values of on_duplicate and deliver that this version acts on; the others are refused by name.
const (
	Reject = "reject"
	MQ     = "mq"
)

// Push is what a producer asked for, as it was sent. It has been checked if it came from Decode; one built field by field
// with Set is checked by Check. Either a delay or a time is given.
type Push struct {
	Topic     string
	Delay     time.Duration // whole milliseconds
	DelayText string        // as sent; not empty where a delay was given
	At        time.Time     // UTC, whole milliseconds; meaningful where HasAt
	HasAt     bool

	ID          string
	Key         string
	OnDuplicate string // "reject" where sent, else empty, which means the same
	Deliver     string // "mq" where sent, else empty: the topic's setting
	Priority    uint8
	TTL         time.Duration // 0: no limit
	Attempt     int           // 0: not a consumer's retry

	// Headers are the user's, tags removed, sorted by name without case; repeated names keep the order of their values.
	Headers []Header
}

// Set reads one option by its JSON name from text, with the rules of the header of the same meaning.
func (p *Push) Set(field, value string) (err error) {
	switch field {
	case FieldDelay:
		p.Delay, err = ParseDelay(value)
		p.DelayText = value
	case FieldAt:
		p.At, err = ParseAt(value)
		p.HasAt = true
	case FieldID:
		err = CheckID(value)
		p.ID = value
	case FieldKey:
		err = CheckKey(value)
		p.Key = value
	case FieldOnDuplicate:
		err = CheckOnDuplicate(value)
		p.OnDuplicate = value
	case FieldDeliver:
		err = CheckDeliver(value)
		p.Deliver = value
	case FieldPriority:
		p.Priority, err = ParsePriority(value)
	case FieldTTL:
		p.TTL, err = ParseTTL(value)
	case FieldAttempt:
		p.Attempt, err = ParseAttempt(value)
	case FieldRetry, FieldMaxWait:
		err = &Error{Word: WordUnsupported, Field: field, Detail: "is not supported yet"}
	default:
		err = &Error{Word: WordUnknown, Field: quote(field), Detail: "is not a field of a push"}
	}
	return err
}

// Check holds what single options cannot: a topic that may be delivered to, and exactly one of delay and at.
func (p *Push) Check(prefix string) error {
	if err := CheckTarget(p.Topic, prefix); err != nil {
		return err
	}
	switch {
	case p.DelayText == "" && !p.HasAt:
		return &Error{Word: WordNoDelay, Field: FieldDelay, Detail: "and at are both missing; a push needs one of them"}
	case p.DelayText != "" && p.HasAt:
		return &Error{Word: WordDelayAndAt, Field: FieldDelay, Detail: "and at are both given; a push takes one of them"}
	case p.Attempt > 0 && p.ID == "":
		return &Error{Word: WordAttempt, Field: FieldAttempt, Detail: "needs the id of the message that is tried again"}
	}
	return nil
}

// CheckID accepts what a producer calls its message: 1 to 128 bytes of UTF-8 without control characters, and without
// blanks at either end, which headers do not keep.
func CheckID(s string) error { return checkName(s, MaxID, WordID, FieldID) }

// CheckKey accepts a business key, by the rules of an id.
func CheckKey(s string) error { return checkName(s, MaxKey, WordKey, FieldKey) }

func checkName(s string, limit int, word, field string) error {
	problem := ""
	switch {
	case s == "":
		problem = fmt.Sprintf("is empty; it needs 1 to %d bytes", limit)
	case len(s) > limit:
		problem = fmt.Sprintf("has %d bytes, the limit is %d", len(s), limit)
	case !utf8.ValidString(s):
		problem = quote(s) + " is not valid UTF-8"
	case strings.IndexFunc(s, unicode.IsControl) >= 0:
		problem = quote(s) + " contains a control character"
	case strings.TrimSpace(s) != s:
		problem = quote(s) + " starts or ends with a blank"
	default:
		return nil
	}
	return &Error{Word: word, Field: field, Detail: problem}
}

// CheckOnDuplicate accepts "reject". The ways to merge are known by name and refused until they are built.
func CheckOnDuplicate(s string) error {
	switch s {
	case Reject:
		return nil
	case "keep", "replace", "debounce":
		return &Error{Word: WordUnsupported, Field: FieldOnDuplicate, Detail: quote(s) + ` is not supported yet; only "reject" is`}
	}
	return &Error{Word: WordOnDuplicate, Field: FieldOnDuplicate, Detail: quote(s) + ` is unknown; want "reject"`}
}

// CheckDeliver accepts "mq". Pull is known by name and refused until it is built.
func CheckDeliver(s string) error {
	switch s {
	case MQ:
		return nil
	case "pull":
		return &Error{Word: WordUnsupported, Field: FieldDeliver, Detail: `"pull" is not supported yet; only "mq" is`}
	}
	return &Error{Word: WordDeliver, Field: FieldDeliver, Detail: quote(s) + ` is unknown; want "mq"`}
}

// ParsePriority reads 0 to 255; the higher leaves first among messages due in the same millisecond.
func ParsePriority(s string) (uint8, error) {
	n, ok := number(s, MaxPriority)
	if !ok {
		return 0, &Error{Word: WordPriority, Field: FieldPriority, Detail: fmt.Sprintf("%s is not a whole number from 0 to %d", quote(s), MaxPriority)}
	}
	return uint8(n), nil
}

// ParseAttempt reads the number of a consumer's retry, from 1 up.
func ParseAttempt(s string) (int, error) {
	n, ok := number(s, MaxAttempt)
	if !ok || n == 0 {
		return 0, &Error{Word: WordAttempt, Field: FieldAttempt, Detail: fmt.Sprintf("%s is not a whole number from 1 to %d", quote(s), MaxAttempt)}
	}
	return n, nil
}

func number(s string, limit int) (int, bool) {
	if !allDigits(s) || len(s) > 9 {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n <= limit
}
