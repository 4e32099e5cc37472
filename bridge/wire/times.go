package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// WantSpan ends the error of what is no duration.
const WantSpan = "want a duration such as 20m or 1d12h"

// ParseDelay reads how long a message waits: a Go duration that may also use w and d, weeks and days of 24 hours ("2w",
// "1d12h", "1.5s"). Zero, which needs no unit, means now. Fractions of a millisecond round up. Negative delays, delays
// of more than ten years and text in any other form are refused: above all a number without a unit, because whether its
// author means seconds or milliseconds is a guess that delivers at once or next week.
func ParseDelay(s string) (time.Duration, error) { return ParseSpan(s, FieldDelay) }

// ParseSpan is ParseDelay for a field of another name.
func ParseSpan(s, field string) (time.Duration, error) {
	d, problem := Span(s)
	if problem != "" {
		return 0, Invalid(field, problem)
	}
	return d, nil
}

// ParseTTL reads how long after its due time a message is still worth delivering, in the same form as a delay. The
// minimum is a millisecond: with zero it could never be delivered.
func ParseTTL(s string) (time.Duration, error) { return positive(s, FieldTTL) }

// ParseMaxWait reads how long after the first push a debounced message is due at the latest, in the same form as a
// delay. The minimum is a millisecond: with zero it would not wait at all.
func ParseMaxWait(s string) (time.Duration, error) { return positive(s, FieldMaxWait) }

func positive(s, field string) (time.Duration, error) {
	d, err := ParseSpan(s, field)
	if err == nil && d == 0 {
		return 0, Invalid(field, "is zero; the least is 1ms")
	}
	return d, err
}

// ParseLease reads how long a consumer may hold a message.
func ParseLease(s string) (time.Duration, error) {
	d, err := ParseSpan(s, FieldLease)
	if err == nil && (d < LeastLease || d > MostLease) {
		return 0, Invalid(FieldLease, fmt.Sprintf("%s is out of bounds, which are %s and %s", Quote(s), LeastLease, "12h"))
	}
	return d, err
}

// ParseAt reads the moment at which a message is due: RFC 3339 or unix milliseconds, in UTC, rounded up to the
// millisecond. The past is allowed and means now. A number that looks like seconds is refused, since it would mean
// 1970. So is every other time before 1973-03-03T09:46:40Z, which most often is a variable that was never set. Times
// from the year 9999 on are refused as well. CheckDue checks whether the others lie within ten years from now.
func ParseAt(s string) (time.Time, error) {
	t, err := ParseTime(s, FieldAt)
	if earliest := time.UnixMilli(SecondsBelow); err == nil && t.Before(earliest) {
		return time.Time{}, Invalid(FieldAt, Quote(s)+" is too early, the earliest time is "+
			earliest.UTC().Format(time.RFC3339))
	}
	return t, err
}

// ParseTime is ParseAt for a field of another name.
func ParseTime(s, field string) (time.Time, error) {
	t, problem := moment(s)
	if problem != "" {
		return time.Time{}, Invalid(field, problem)
	}
	return t, nil
}

// FormatAt writes a time in the form that ParseAt reads and that all answers of tarry use: RFC 3339 in UTC with
// milliseconds.
func FormatAt(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// CheckDue enforces the ten-year limit against the clock of the component that accepts the message.
func CheckDue(due, now time.Time) error {
	if due.Sub(now) > MaxDelay {
		return &Error{Word: WordAt, Field: FieldAt, Detail: fmt.Sprintf("%s is too far ahead, the limit is %s from now",
			due.UTC().Format(time.RFC3339), limitText)}
	}
	return nil
}

const limitText = "3653 days (10 years)"

// Span reads a duration; on failure the second result is the end of the sentence "delay ...".
func Span(s string) (time.Duration, string) {
	switch {
	case s == "":
		return 0, "is empty; " + WantSpan
	case len(s) > maxTimeText:
		return 0, fmt.Sprintf("has %d bytes, the limit is %d; %s", len(s), maxTimeText, WantSpan)
	case s[0] == '-':
		return 0, Quote(s) + " is negative; the least is 0"
	case AllDigits(s):
		if strings.Trim(s, "0") != "" {
			return 0, Quote(s) + " has no unit; write " + s + "ms for milliseconds, " + s + "s for seconds or " + s +
				"m for minutes"
		}
		return 0, ""
	}
	var total time.Duration
	for rest := strings.TrimPrefix(s, "+"); ; {
		one, next, problem := segment(rest)
		if problem == notSpan {
			return 0, Quote(s) + " is not a duration; " + WantSpan
		}
		total += one // both at most ten years: no overflow
		if problem == overLimit || total > MaxDelay {
			return 0, tooLong(s)
		}
		if rest = next; rest == "" {
			break
		}
	}
	if fraction := total % time.Millisecond; fraction != 0 {
		total += time.Millisecond - fraction
	}
	return total, ""
}

func tooLong(s string) string { return Quote(s) + " is too long, the limit is " + limitText }

// spanProblem is the kind of error in one segment of a duration.
type spanProblem int

const (
	fine spanProblem = iota
	notSpan
	overLimit
)

// segment reads the leading number and unit of s.
func segment(s string) (time.Duration, string, spanProblem) {
	i, dots := 0, 0
	for ; i < len(s) && (IsDigit(s[i]) || s[i] == '.'); i++ {
		if s[i] == '.' {
			dots++
		}
	}
	j := i
	for j < len(s) && !IsDigit(s[j]) && s[j] != '.' {
		j++
	}
	if i == dots || dots > 1 {
		return 0, "", notSpan
	}
	text, scale := s[:j], time.Duration(1)
	switch s[i:j] {
	case "d":
		text, scale = s[:i]+"h", 24
	case "w":
		text, scale = s[:i]+"h", 7*24
	case "h", "m", "s", "ms", "us", "µs", "μs", "ns":
	default:
		return 0, "", notSpan
	}
	d, err := time.ParseDuration(text) // well formed, so the only possible error is overflow
	if err != nil || d > MaxDelay {
		return 0, "", overLimit
	}
	if d *= scale; d > MaxDelay {
		return 0, "", overLimit
	}
	return d, s[j:], fine
}

// moment reads a time; on failure the second result is the end of the sentence "at ...".
func moment(s string) (time.Time, string) {
	const want = "want RFC 3339 such as 2030-01-31T08:00:00Z, or unix milliseconds"
	switch {
	case s == "":
		return time.Time{}, "is empty; " + want
	case len(s) > maxTimeText:
		return time.Time{}, fmt.Sprintf("has %d bytes, the limit is %d; %s", len(s), maxTimeText, want)
	case s[0] == '-':
		return time.Time{}, Quote(s) + " is negative; " + want
	}
	var t time.Time
	if AllDigits(s) {
		ms, err := strconv.ParseInt(s, 10, 64) // the only possible error is overflow
		switch {
		case err == nil && ms < SecondsBelow:
			return time.Time{}, Quote(s) + fmt.Sprintf(" looks like seconds; unix milliseconds start at %d",
				int64(SecondsBelow))
		case err != nil || ms >= endOfTime:
			return time.Time{}, Quote(s) + " is too far ahead, the limit is " + limitText + " from now"
		}
		return time.UnixMilli(ms).UTC(), ""
	}
	if err := t.UnmarshalText([]byte(strings.ToUpper(s))); err != nil || !rfc3339(s) {
		return time.Time{}, Quote(s) + " is not a time; " + want
	}
	if t = t.UTC(); t.Year() < 0 {
		return time.Time{}, Quote(s) + " lies before the year 0"
	}
	if fraction := t.Nanosecond() % int(time.Millisecond); fraction != 0 {
		t = t.Add(time.Millisecond - time.Duration(fraction))
	}
	if t.UnixMilli() >= endOfTime {
		return time.Time{}, Quote(s) + " is too far ahead, the limit is " + limitText + " from now"
	}
	return t, ""
}

// rfc3339 reports whether a time that package time has read is one of RFC 3339, section 5.6: package time also takes an
// hour of one digit, a comma before the fraction, and offsets beyond 23:59.
func rfc3339(s string) bool {
	offset := s[len(s)-6:]
	return s[13] == ':' && s[19] != ',' &&
		(s[len(s)-1]|' ' == 'z' || offset[1:3] <= "23" && offset[4:] <= "59")
}

// endOfTime is the start of the year 9999, which many programs use for "never", in unix milliseconds.
const endOfTime = 253_370_764_800_000

// IsDigit reports whether c is a digit of ASCII.
func IsDigit(c byte) bool { return '0' <= c && c <= '9' }

// AllDigits reports whether s is digits of ASCII and nothing else.
func AllDigits(s string) bool {
	for i := range len(s) {
		if !IsDigit(s[i]) {
			return false
		}
	}
	return s != ""
}
