package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The values of on_duplicate and of deliver.
const (
	Reject   = "reject"
	Keep     = "keep"
	Replace  = "replace"
	Debounce = "debounce"
	MQ       = "mq"
	PullWord = "pull"
)

// Push is a producer's request as it was sent. Decode returns only checked pushes; a push built field by field with Set
// is checked by Check. Either a delay or a time is given, or neither for a consumer's retry that waits according to its
// schedule.
type Push struct {
	Topic     string
	Delay     time.Duration // whole milliseconds
	DelayText string        // as sent; empty if no delay was given
	At        time.Time     // UTC, whole milliseconds; set if HasAt
	HasAt     bool

	ID          string
	Key         string
	OnDuplicate string        // empty if not sent, which means "reject"
	MaxWait     time.Duration // of a debounce; 0: no bound
	Deliver     string        // "mq" or "pull" if sent; empty: the topic's setting
	Lease       time.Duration // how long a consumer may hold it; 0: the topic's setting
	Priority    uint8
	TTL         time.Duration // 0: no limit
	UID         string        // of an earlier try of this push whose outcome is unknown; else empty
	Attempt     int           // 0: not a consumer's retry
	Retry       Retry         // empty: the topic's schedule
	Reason      string        // the consumer's reason; only with an attempt of 2 or more

	// Headers are the user's, without tags, sorted by name without case; repeated names keep the order of their values.
	Headers []Header
}

// Set sets one option, by its JSON name, from text, following the rules of the header of the same meaning.
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
	case FieldLease:
		p.Lease, err = ParseLease(value)
	case FieldPriority:
		p.Priority, err = ParsePriority(value)
	case FieldTTL:
		p.TTL, err = ParseTTL(value)
	case FieldAttempt:
		p.Attempt, err = ParseAttempt(value)
	case FieldRetry:
		p.Retry, err = ParseRetry(value)
	case FieldMaxWait:
		p.MaxWait, err = ParseMaxWait(value)
	case FieldUID:
		err = CheckUID(value)
		p.UID = value
	case FieldReason:
		p.Reason = CleanReason(value)
	default:
		err = &Error{Word: WordUnknown, Field: Quote(field), Detail: "is not a field of a push"}
	}
	return err
}

// ByRetry reports whether the push waits according to its schedule of retries, because it has neither a delay nor a
// time.
func (p *Push) ByRetry() bool { return p.DelayText == "" && !p.HasAt }

// Merges reports whether the push may be merged into a waiting message.
func (p *Push) Merges() bool { return p.OnDuplicate != "" && p.OnDuplicate != Reject }

// Check checks the rules that span options: the topic may be delivered to, exactly one of delay and at is set (or
// neither, with an attempt of 2 or more), and the options are compatible.
func (p *Push) Check(prefix string) error {
	if err := CheckTarget(p.Topic, prefix); err != nil {
		return err
	}
	switch {
	case p.ByRetry() && p.Attempt < 2:
		return &Error{Word: WordNoDelay, Field: FieldDelay, Detail: "and at are both missing; a push needs one of them"}
	case p.DelayText != "" && p.HasAt:
		return &Error{Word: WordDelayAndAt, Field: FieldDelay,
			Detail: "and at are both given; a push takes one of them"}
	case p.Attempt > 0 && p.ID == "":
		return &Error{Word: WordAttempt, Field: FieldAttempt, Detail: "needs the id of the message that is tried again"}
	case p.Attempt > 0 && p.Merges():
		return Invalid(FieldOnDuplicate, Quote(p.OnDuplicate)+
			` cannot be combined with attempt: a consumer's retry is known by its id and attempt; use "reject"`)
	case p.UID != "" && p.ID != p.UID && CheckUID(p.ID) == nil:
		return &Error{Word: WordID, Field: FieldUID, Detail: "differs from the id, which is a uid too"}
	case p.MaxWait > 0 && p.OnDuplicate != Debounce:
		return &Error{Word: WordMaxWait, Field: FieldMaxWait, Detail: `requires on_duplicate "debounce"`}
	case p.Lease > 0 && p.Deliver == MQ:
		return &Error{Word: WordLease, Field: FieldLease, Detail: `requires deliver "pull"`}
	case p.Reason != "" && p.Attempt < 2:
		return &Error{Word: WordReason, Field: FieldReason, Detail: "requires an attempt of 2 or more"}
	}
	return nil
}

// CheckID accepts a producer's id of a message: 1 to 128 bytes of UTF-8 without control characters, and without blanks
// at either end, which headers do not keep. It refuses the ids that no URL's path keeps.
func CheckID(s string) error {
	if s == "." || s == ".." || s == "/" {
		return &Error{Word: WordID, Field: FieldID, Detail: Quote(s) + " cannot stand in the path of a URL"}
	}
	return checkName(s, MaxID, WordID, FieldID)
}

// CheckUID accepts what has the form of a uid.
func CheckUID(s string) error {
	text, ok := strings.CutPrefix(s, "t-")
	outside := func(c rune) bool { return !strings.ContainsRune("0123456789abcdefghjkmnpqrstvwxyz", c) }
	if !ok || len(text) != 16 || strings.ContainsFunc(text, outside) {
		return &Error{Word: WordID, Field: FieldUID,
			Detail: Quote(s) + ` is not a uid, which is "t-" and 16 digits or small letters`}
	}
	return nil
}

// CheckKey accepts a key, by the rules for an id.
func CheckKey(s string) error { return checkName(s, MaxKey, WordKey, FieldKey) }

func checkName(s string, limit int, word, field string) error {
	problem := ""
	switch {
	case s == "":
		problem = fmt.Sprintf("is empty; it needs 1 to %d bytes", limit)
	case len(s) > limit:
		problem = fmt.Sprintf("has %d bytes, the limit is %d", len(s), limit)
	case !utf8.ValidString(s):
		problem = Quote(s) + " is not valid UTF-8"
	case strings.IndexFunc(s, unicode.IsControl) >= 0:
		problem = Quote(s) + " contains a control character"
	case strings.TrimSpace(s) != s:
		problem = Quote(s) + " starts or ends with a blank"
	default:
		return nil
	}
	return &Error{Word: word, Field: field, Detail: problem}
}

// CheckOnDuplicate accepts the actions that a push can request for the case that its name is taken.
func CheckOnDuplicate(s string) error {
	switch s {
	case Reject, Keep, Replace, Debounce:
		return nil
	}
	return Invalid(FieldOnDuplicate, Quote(s)+` is unknown; want "reject", "keep", "replace" or "debounce"`)
}

// CheckDeliver accepts the ways to deliver.
func CheckDeliver(s string) error {
	if s == MQ || s == PullWord {
		return nil
	}
	return &Error{Word: WordDeliver, Field: FieldDeliver, Detail: Quote(s) + ` is unknown; want "mq" or "pull"`}
}

// ParsePriority reads 0 to 255; of the messages due in the same millisecond the one with the higher priority leaves
// first.
func ParsePriority(s string) (uint8, error) {
	n, ok := number(s, MaxPriority)
	if !ok {
		return 0, Invalid(FieldPriority, fmt.Sprintf("%s is not a whole number from 0 to %d", Quote(s), MaxPriority))
	}
	return uint8(n), nil
}

// ParseAttempt reads the number of a consumer's retry, from 1 up.
func ParseAttempt(s string) (int, error) {
	n, ok := number(s, MaxAttempt)
	if !ok || n == 0 {
		return 0, Invalid(FieldAttempt, fmt.Sprintf("%s is not a whole number from 1 to %d", Quote(s), MaxAttempt))
	}
	return n, nil
}

func number(s string, limit int) (int, bool) {
	if !AllDigits(s) || len(s) > 9 {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n <= limit
}

// Options returns the part of a push's content that is neither topic, headers nor body, in one fixed form. Two pushes
// with one name are the same push only if their options are equal. A delay is compared as text, because its due time
// moves each time the push is repeated; a time is compared as a moment. The id, the key and the attempt make up the
// name itself, and the reason of a consumer's failure is not part of the request.
func (p *Push) Options() string {
	b := make([]byte, 0, 64)
	switch {
	case p.HasAt:
		b = strconv.AppendInt(append(b, "at="...), p.At.UnixMilli(), 10)
	case p.DelayText == "":
		b = append(b, "by_retry"...)
	default:
		b = append(append(b, "delay="...), p.DelayText...)
	}
	if p.Priority > 0 {
		b = strconv.AppendUint(append(b, " priority="...), uint64(p.Priority), 10)
	}
	if p.TTL > 0 {
		b = strconv.AppendInt(append(b, " ttl="...), int64(p.TTL/time.Millisecond), 10)
	}
	if p.OnDuplicate != "" && p.OnDuplicate != Reject {
		b = append(append(b, " on_duplicate="...), p.OnDuplicate...)
	}
	if p.Deliver != "" {
		b = append(append(b, " deliver="...), p.Deliver...)
	}
	if p.Lease > 0 {
		b = strconv.AppendInt(append(b, " lease="...), int64(p.Lease/time.Millisecond), 10)
	}
	if p.MaxWait > 0 {
		b = strconv.AppendInt(append(b, " max_wait="...), int64(p.MaxWait/time.Millisecond), 10)
	}
	if !p.Retry.Empty() {
		b = append(append(b, " retry="...), p.Retry.String()...)
	}
	return string(b)
}
