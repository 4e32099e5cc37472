package ops

import (
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
