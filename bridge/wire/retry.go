package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The limits of a schedule of retries.
const (
	MaxRetries   = 100  // delays of a schedule
	MaxJitter    = 50   // percent
	MaxReason    = 255  // bytes of a consumer's reason
	maxRetryText = 2048 // bytes of a schedule as text; every schedule fits in its own form
	// RetryRoom is the size that a delivered message reserves for a schedule set by its topic; the settings enforce it.
	RetryRoom = 512
)

// Retry is a schedule of retries: the n-th retry waits the n-th delay, and after the last delay there is no further
// retry. Its text is
//
//	0,0,2m,10m*5,1h,6h     delays, each with an optional number of repetitions
//	exp(1s,1h,10)          the first delay, doubled each time up to the longest, and the number of delays
//	1m,10m,1h~20%          either form with jitter: each delay varies by up to this percentage, up or down
//	none                   no retry
//
// with at most 100 delays, each 0 or with a unit, to ten years, in whole milliseconds; finer values are rounded up.
// Blanks around a delay are ignored.
type Retry struct {
	Delays []time.Duration
	Jitter uint8 // percent; 0 for none
	None   bool  // no retry, which is a schedule too
}

// ParseRetry reads a schedule.
func ParseRetry(s string) (Retry, error) {
	r, problem := retry(s)
	if problem != "" {
		return Retry{}, badRetry(problem)
	}
	return r, nil
}

func badRetry(problem string) *Error {
	return &Error{Word: WordRetry, Field: FieldRetry, Detail: problem}
}

const wantRetry = "want delays such as 0,2m,10m*5,1h, or exp(1s,1h,10), and ~20% behind them for jitter, or none"

// noRetry is the schedule without a retry.
const noRetry = "none"

// retry reads a schedule; on failure the second result is the end of the sentence "retry ...".
func retry(s string) (r Retry, problem string) {
	switch {
	case strings.Trim(s, " \t") == "":
		return r, "is empty; " + wantRetry
	case len(s) > maxRetryText:
		return r, fmt.Sprintf("has %d bytes, the limit is %d", len(s), maxRetryText)
	}
	if strings.Trim(s, " \t") == noRetry {
		return Retry{None: true}, ""
	}
	list := s
	if before, after, found := strings.Cut(s, "~"); found {
		digits, percent := strings.CutSuffix(strings.Trim(after, " \t"), "%")
		n, ok := number(digits, MaxJitter)
		if !percent || !ok || n == 0 {
			return r, fmt.Sprintf("ends in the jitter %s; want ~1%% to ~%d%%", Quote("~"+after), MaxJitter)
		}
		list, r.Jitter = before, uint8(n)
	}
	list = strings.Trim(list, " \t")
	if inside, is := strings.CutPrefix(list, "exp("); is {
		r.Delays, problem = doubled(inside)
	} else {
		r.Delays, problem = listed(list)
	}
	if problem != "" {
		return Retry{}, problem
	}
	return r, ""
}

// listed reads delays separated by commas.
func listed(s string) (delays []time.Duration, problem string) {
	for item := range strings.SplitSeq(s, ",") {
		text, times, repeated := strings.Cut(strings.Trim(item, " \t"), "*")
		n := 1
		if repeated {
			var ok bool
			if n, ok = number(times, 1e9-1); !ok || n == 0 {
				return nil, fmt.Sprintf("repeats a delay %s times; want a number from 1 to %d",
					Quote(times), MaxRetries)
			}
		}
		d, problem := pause(text)
		if problem != "" {
			return nil, "has a bad delay: " + problem
		}
		if n += len(delays); n > MaxRetries {
			return nil, tooMany
		}
		for len(delays) < n {
			delays = append(delays, d)
		}
	}
	return delays, ""
}

// pause reads a delay of a schedule. A number without a unit is refused there: it is meant as a count.
func pause(s string) (time.Duration, string) {
	if AllDigits(s) && strings.Trim(s, "0") != "" {
		return 0, Quote(s) + " has no unit; want 20s, 5m …, and for three retries 0*3 or 1m*3"
	}
	return Span(s)
}

var tooMany = fmt.Sprintf("has more delays than the limit of %d", MaxRetries)

// doubled reads the arguments that follow "exp(".
func doubled(s string) (delays []time.Duration, problem string) {
	inside, closed := strings.CutSuffix(s, ")")
	parts := strings.Split(inside, ",")
	if !closed || len(parts) != 3 {
		return nil, "has an exp(...) that is not exp(first,max,count) such as exp(1s,1h,10)"
	}
	var bounds [2]time.Duration
	for i := range bounds {
		var bad string
		if bounds[i], bad = pause(strings.Trim(parts[i], " \t")); bad != "" {
			return nil, "has a bad delay in exp: " + bad
		}
	}
	first, most := bounds[0], bounds[1]
	n, ok := number(strings.Trim(parts[2], " \t"), 1e9-1)
	switch {
	case !ok || n == 0:
		return nil, fmt.Sprintf("has the count %s in exp; want a number from 1 to %d", Quote(parts[2]), MaxRetries)
	case n > MaxRetries:
		return nil, tooMany
	case first == 0:
		return nil, "starts at 0 in exp, which doubled stays 0; the least is 1ms"
	case first > most:
		return nil, "starts above its maximum in exp"
	}
	for d := first; len(delays) < n; d = min(2*d, most) { // twice ten years does not overflow
		delays = append(delays, d)
	}
	return delays, ""
}

// RetryOf makes a schedule of single delays, as JSON lists them.
func RetryOf(delays []time.Duration) (Retry, error) {
	switch {
	case len(delays) == 0:
		return Retry{}, badRetry("is empty; " + wantRetry)
	case len(delays) > MaxRetries:
		return Retry{}, badRetry(tooMany)
	}
	return Retry{Delays: delays}, nil
}

// Empty reports whether there is no schedule.
func (r *Retry) Empty() bool { return len(r.Delays) == 0 && !r.None }

// String returns the canonical text of a schedule, empty without one; three or more equal delays in a row are written
// once.
func (r Retry) String() string {
	switch {
	case r.None:
		return noRetry
	case len(r.Delays) == 0:
		return ""
	}
	b := make([]byte, 0, 64)
	for i := 0; i < len(r.Delays); {
		n := 1
		for i+n < len(r.Delays) && r.Delays[i+n] == r.Delays[i] {
			n++
		}
		if n == 2 {
			n = 1
		}
		if i > 0 {
			b = append(b, ',')
		}
		if b = appendSpan(b, r.Delays[i]); n > 1 {
			b = strconv.AppendInt(append(b, '*'), int64(n), 10)
		}
		i += n
	}
	if r.Jitter > 0 {
		b = append(strconv.AppendUint(append(b, '~'), uint64(r.Jitter), 10), '%')
	}
	return string(b)
}

// appendSpan appends whole milliseconds in the form that ParseDelay reads, in everyday units: 1d12h, 2m, 0.
func appendSpan(b []byte, d time.Duration) []byte {
	if d == 0 {
		return append(b, '0')
	}
	for _, u := range [...]struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if n := d / u.size; n > 0 {
			b = append(strconv.AppendInt(b, int64(n), 10), u.name...)
			d -= n * u.size
		}
	}
	return b
}

// CleanReason returns a consumer's reason in the form that a header holds: on one line, in UTF-8, truncated to
// MaxReason bytes. It refuses nothing, since a retry must not be lost because of an error's text.
func CleanReason(s string) string {
	if len(s) > 2*MaxReason {
		s = s[:2*MaxReason]
	}
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?")))
	if len(s) > MaxReason {
		s = strings.TrimSpace(strings.ToValidUTF8(s[:MaxReason], ""))
	}
	return s
}
