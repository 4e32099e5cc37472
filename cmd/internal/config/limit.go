package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// limit is the kind of one setting together with its bounds. It reads and checks text, and says in words what it
// takes, so that messages and documents are never written by hand.
type limit interface {
	// noun stands for the value in help: --zookeeper.session duration.
	noun() string
	// words completes "limit: ...".
	words() string
	// read turns text into the Go value; its error completes "http.listen: "x" ...".
	read(text string) (any, error)
	// show is the inverse of read.
	show(value any) string
}

// integer is a whole number from min to max.
type integer struct{ min, max int }

func (l integer) noun() string      { return "number" }
func (l integer) words() string     { return fmt.Sprintf("%d to %d", l.min, l.max) }
func (l integer) show(v any) string { return strconv.Itoa(v.(int)) }
func (l integer) read(text string) (any, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return nil, wrong(text, "is not a whole number")
	}
	// On ErrRange n is the nearest int64, which is past one of the bounds too.
	return int(n), between(n, int64(l.min), int64(l.max), decimal)
}

// size is a number of bytes from min to max, written plainly or with KiB, MiB, GiB or TiB.
type size struct{ min, max int64 }

func (l size) noun() string      { return "size" }
func (l size) words() string     { return showSize(l.min) + " to " + showSize(l.max) }
func (l size) show(v any) string { return showSize(v.(int64)) }
func (l size) read(text string) (any, error) {
	digits, factor := text, int64(1)
	for i, unit := range units() {
		if rest, ok := strings.CutSuffix(text, unit); ok {
			digits, factor = strings.TrimSpace(rest), 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return nil, wrong(text, "is not a size (bytes, or a number with KiB, MiB, GiB or TiB)")
	}
	switch {
	case n > math.MaxInt64/factor:
		n = math.MaxInt64
	case n < math.MinInt64/factor:
		n = math.MinInt64
	default:
		n *= factor
	}
	return n, between(n, l.min, l.max, showSize)
}

func units() []string { return []string{"KiB", "MiB", "GiB", "TiB"} }

func showSize(n int64) string {
	shown := decimal(n)
	for i, unit := range units() {
		if whole := int64(1) << (10 * (i + 1)); n != 0 && n%whole == 0 {
			shown = decimal(n/whole) + unit
		}
	}
	return shown
}

// span is a duration from min to max, in Go's notation.
type span struct{ min, max time.Duration }

func (l span) noun() string      { return "duration" }
func (l span) words() string     { return showSpan(l.min) + " to " + showSpan(l.max) }
func (l span) show(v any) string { return showSpan(v.(time.Duration)) }
func (l span) read(text string) (any, error) {
	d, err := time.ParseDuration(text)
	if err != nil && strings.ContainsAny(text, "dw") { // weeks and days, as everywhere else
		d, err = wire.ParseSpan(text, "")
	}
	if err != nil || text == "0" {
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			return nil, wrong(text, "has no unit (as in 500ms, 6s, 10m)")
		}
		return nil, wrong(text, "is not a duration (as in 500ms, 6s, 10m)")
	}
	return d, between(d, l.min, l.max, showSpan)
}

// showSpan writes 10m where Go writes 10m0s.
func showSpan(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// lasting is a span, or 0, which stands for ever or for none.
type lasting struct {
	span
	zero string
}

func (l lasting) words() string { return "0 for " + l.zero + ", or " + l.span.words() }
func (l lasting) show(v any) string {
	if v.(time.Duration) == 0 {
		return "0"
	}
	return l.span.show(v)
}

func (l lasting) read(text string) (any, error) {
	if text == "0" {
		return time.Duration(0), nil
	}
	return l.span.read(text)
}

// amount is a number from min to max that may have a fraction.
type amount struct{ min, max float64 }

func (l amount) noun() string      { return "number" }
func (l amount) words() string     { return showAmount(l.min) + " to " + showAmount(l.max) }
func (l amount) show(v any) string { return showAmount(v.(float64)) }
func (l amount) read(text string) (any, error) {
	n, err := strconv.ParseFloat(text, 64)
	switch {
	case math.IsNaN(n) || err != nil && !errors.Is(err, strconv.ErrRange):
		return nil, wrong(text, "is not a number")
	case n < l.min:
		return nil, errors.New("is below " + showAmount(l.min))
	case n > l.max:
		return nil, errors.New("is above " + showAmount(l.max))
	}
	return n, nil
}

func showAmount(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func between[N int64 | time.Duration](n, low, high N, show func(N) string) error {
	if n < low {
		return errors.New("is below " + show(low))
	}
	if n > high {
		return errors.New("is above " + show(high))
	}
	return nil
}

// toggle is true or false.
type toggle struct{}

func (toggle) noun() string      { return "bool" } // pflag knows this word and shows none
func (toggle) words() string     { return "true or false" }
func (toggle) show(v any) string { return strconv.FormatBool(v.(bool)) }
func (toggle) read(text string) (any, error) {
	switch text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return nil, wrong(text, "is neither true nor false")
}

// choice is one word of a few.
type choice []string

func (l choice) noun() string      { return "word" }
func (l choice) show(v any) string { return v.(string) }
func (l choice) words() string     { return list(l, "or") }

func (l choice) read(text string) (any, error) {
	if slices.Contains(l, text) {
		return text, nil
	}
	return nil, wrong(text, "is not one of the choices")
}

// list joins words for people: "a, b or c".
func list(words []string, last string) string {
	n := len(words) - 1
	if n < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}

// text is a string that check lets through. check gives what is wrong, or nothing.
type text struct {
	word  string
	limit string
	check func(string) string
}

func (l text) noun() string      { return l.word }
func (l text) words() string     { return l.limit }
func (l text) show(v any) string { return v.(string) }
func (l text) read(given string) (any, error) {
	if given == "" {
		return nil, errors.New("is empty")
	}
	if phrase := l.check(given); phrase != "" {
		return nil, errors.New(phrase)
	}
	return given, nil
}

// several is a list of 1 to max items, all of one kind and none twice. Outside YAML commas stand between them.
type several struct {
	of  text
	max int
}

func (l several) noun() string      { return l.of.noun() + ",..." }
func (l several) words() string     { return fmt.Sprintf("1 to %d of %s", l.max, l.of.words()) }
func (l several) show(v any) string { return strings.Join(v.([]string), ",") }
func (l several) read(given string) (any, error) {
	if strings.TrimSpace(given) == "" {
		return nil, errors.New("is empty")
	}
	// Before the split: a password may hold a comma, and a message must not repeat half of it.
	if phrase := noCredentials(given); phrase != "" {
		return nil, errors.New(phrase)
	}
	return l.items(strings.Split(given, ","))
}

// items reads a list that was given as such.
func (l several) items(items []string) (any, error) {
	if len(items) > l.max {
		return nil, fmt.Errorf("has %d items", len(items))
	}
	for i, item := range items {
		items[i] = strings.TrimSpace(item)
		if items[i] == "" {
			return nil, fmt.Errorf("has nothing as item %d", i+1)
		}
		if slices.Contains(items[:i], items[i]) {
			return nil, fmt.Errorf("has %s twice", shown(items[i]))
		}
		if phrase := l.of.check(items[i]); phrase != "" {
			if len(items) == 1 {
				return nil, errors.New(phrase)
			}
			return nil, fmt.Errorf("has item %s, which %s", shown(items[i]), phrase)
		}
	}
	return items, nil
}

// wrong is the phrase, except for nothing at all, which is always called that.
func wrong(text, phrase string) error {
	if text == "" {
		phrase = "is empty"
	}
	return errors.New(phrase)
}
