package ops

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// When is a moment as a caller names it: a time, or a duration before or after now.
type When struct {
	At       time.Time
	Span     time.Duration
	Relative bool // Span is set, not At
}

// ParseWhen reads a time as ParseAt does, or a duration as ParseDelay does. The duration needs a unit here: a bare
// number is unix milliseconds. A refusal names the field, and its word is "invalid_" followed by the field.
func ParseWhen(s, field string) (When, error) {
	if wire.AllDigits(s) || strings.Contains(s, ":") || strings.LastIndexByte(s, '-') > 0 { // a time, or intended as one
		at, err := wire.ParseTime(s, field)
		return When{At: at}, err
	}
	d, problem := wire.Span(s)
	switch {
	case s == "":
		problem = "is empty; " + wantWhen
	case strings.HasSuffix(problem, "is not a duration; "+wire.WantSpan):
		problem = wire.Quote(s) + " is neither a time nor a duration; " + wantWhen
	}
	if problem != "" {
		return When{}, wire.Invalid(field, problem)
	}
	return When{Span: d, Relative: true}, nil
}

const wantWhen = "want RFC 3339 such as 2030-01-31T08:00:00Z, unix milliseconds, or a duration with its " +
	"unit such as 20m"

// Ahead returns the moment, counting a duration forward from now.
func (w When) Ahead(now time.Time) time.Time {
	if w.Relative {
		return now.Add(w.Span)
	}
	return w.At
}

// Ago returns the moment, counting a duration back from now.
func (w When) Ago(now time.Time) time.Time {
	if w.Relative {
		return now.Add(-w.Span)
	}
	return w.At
}

// text returns the moment as it was named, or "" for none.
func (w *When) text() string {
	switch {
	case w == nil:
		return ""
	case w.Relative:
		return w.Span.String()
	}
	return w.At.UTC().String()
}

// ParseShift reads the duration by which a message moves: a delay with a sign. Fractions of a millisecond round toward
// the later time.
func ParseShift(s string) (time.Duration, error) {
	text, back := strings.CutPrefix(s, "-")
	if back && strings.HasPrefix(text, "+") {
		text = "" // span would accept the second sign
	}
	d, err := wire.ParseSpan(text, FieldShift)
	if back {
		d = -d
	}
	if e := (*wire.Error)(nil); back && errors.As(err, &e) {
		e.Detail = strings.Replace(e.Detail, wire.Quote(text), wire.Quote(s), 1) // as it was written
	}
	return d, err
}

// ParseIfMatch reads the version of an If-Match header: 3, "3" with its quotes, or * for any version, which is 0. An
// empty one is refused: its sender meant to name a version.
func ParseIfMatch(s string) (uint64, error) {
	text := strings.Trim(s, " \t")
	if text == "*" {
		return 0, nil
	}
	if len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"' {
		text = text[1 : len(text)-1]
	}
	v, ok := version(text)
	if !ok {
		return 0, &wire.Error{Word: WordIfMatch, Field: "If-Match",
			Detail: wire.Quote(s) + ` is not a version; want one from 1 up such as "3", or *`}
	}
	return v, nil
}

func version(text string) (uint64, bool) {
	v, err := strconv.ParseUint(text, 10, 64)
	return v, err == nil && v > 0 && wire.AllDigits(text)
}
