package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// limit is the kind of one setting together with its bounds. It reads and checks text, and describes the values that it
// accepts, so that messages and documents are never written by hand.
type limit interface {
	// noun stands for the value in help: --zookeeper.session duration.
	noun() string
	// words completes "limit: ...".
	words() string
	// read turns text into the Go value; its error completes "http.listen: "x" ...".
	read(text string) (any, error)
}

// limitOf returns the limit of a field, by its type and its tags. limit has the bounds of a number, "1..5", the words
// of a choice, "off|async|sync", or the kind of a text and its greatest length, "label 64". zero has what 0 means
// beside bounds, and max how many items a list may have.
func limitOf(field reflect.StructField) limit {
	words := field.Tag.Get("limit")
	if field.Type.Kind() == reflect.Slice {
		most, _ := strconv.Atoi(field.Tag.Get("max"))
		return several{of: textOf(words), max: most, secret: isSecret(field.Type)}
	}
	switch reflect.Zero(field.Type).Interface().(type) {
	case bool:
		return toggle{}
	case int:
		return within(integer(0, 0), field.Tag)
	case int64:
		return within(size(0, 0), field.Tag)
	case float64:
		return within(amount(0, 0), field.Tag)
	case time.Duration:
		l := within(span(0, 0), field.Tag)
		if strings.HasPrefix(words, "leastEnded") {
			l.min = leastEnded
		}
		return l
	}
	if strings.Contains(words, "|") {
		return choice(strings.Split(words, "|"))
	}
	return textOf(words)
}

// within gives a limit the bounds of a tag.
func within[N cmp.Ordered](l ranged[N], tag reflect.StructTag) ranged[N] {
	least, most, _ := strings.Cut(tag.Get("limit"), "..")
	l.min, _ = l.parse(least)
	l.max, _ = l.parse(most)
	l.zero = tag.Get("zero")
	return l
}

// textOf returns the kind of a text, in the words of a tag.
func textOf(words string) text {
	most := 0
	if at := strings.LastIndexByte(words, ' '); at > 0 {
		if n, err := strconv.Atoi(words[at+1:]); err == nil {
			words, most = words[:at], n
		}
	}
	switch words {
	case "identifier":
		return identifier(most)
	case "label":
		return label(most)
	case "name", "secret":
		return freeText(words, most)
	case "digest user":
		return digestUser(most)
	case "token name":
		return tokenName(most)
	case "token":
		return token(most, 512) // here a length is the least
	case "token hash":
		return tokenHash()
	case "hook secret":
		return hookSecret()
	case "file":
		return readableFile()
	case "directory":
		return directory()
	case "listen":
		return listenAddress()
	case "listen or off":
		return listenOrOff()
	case "dial":
		return dialAddress()
	case "host":
		return hostName()
	case "network":
		return network()
	case "nats url":
		return natsURL()
	case "web url":
		return webURL()
	case "target url":
		return targetURL()
	case "prefix":
		return prefix()
	case "pattern":
		return pattern()
	case "subject":
		return subject()
	case "schedule":
		return schedule()
	case "dsn":
		return dsn()
	}
	return text{} // a test holds that no tag is here
}

// ranged is a number from min to max: an integer, a size, a span or an amount.
type ranged[N cmp.Ordered] struct {
	min, max N
	word     string
	zero     string // what 0 means, if 0 is allowed although it is out of range
	// parse turns text into a number, or returns the fault; a number too large for N becomes N's maximum.
	parse func(text string) (n N, wrong string)
	print func(N) string
}

func (l ranged[N]) noun() string { return l.word }
func (l ranged[N]) words() string {
	words := l.print(l.min) + " to " + l.print(l.max)
	if l.zero != "" {
		words = "0 for " + l.zero + ", or " + words
	}
	return words
}

func (l ranged[N]) read(text string) (any, error) {
	n, phrase := l.parse(text)
	switch {
	case l.zero != "" && text == "0":
		return *new(N), nil
	case phrase != "":
		return nil, wrong(text, phrase)
	case n < l.min:
		return nil, errors.New("is below " + l.print(l.min))
	case n > l.max:
		return nil, errors.New("is above " + l.print(l.max))
	}
	return n, nil
}

// integer is a whole number.
func integer(min, max int) ranged[int] {
	return ranged[int]{min: min, max: max, word: "number", print: strconv.Itoa,
		parse: func(text string) (int, string) {
			n, err := strconv.Atoi(text)
			if err != nil && !errors.Is(err, strconv.ErrRange) {
				return 0, "is not a whole number"
			}
			return n, ""
		}}
}

// size is a number of bytes, written plainly or with KiB, MiB, GiB or TiB.
func size(min, max int64) ranged[int64] {
	return ranged[int64]{min: min, max: max, word: "size", print: showSize, parse: readSize}
}

func readSize(text string) (int64, string) {
	digits, factor := text, int64(1)
	for i, unit := range units() {
		if rest, ok := strings.CutSuffix(text, unit); ok {
			digits, factor = strings.TrimSpace(rest), 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange):
		return 0, "is not a size (bytes, or a number with KiB, MiB, GiB or TiB)"
	case n > math.MaxInt64/factor:
		return math.MaxInt64, ""
	case n < math.MinInt64/factor:
		return math.MinInt64, ""
	}
	return n * factor, ""
}

func units() []string { return []string{"KiB", "MiB", "GiB", "TiB"} }

func showSize(n int64) string {
	shown := strconv.FormatInt(n, 10)
	for i, unit := range units() {
		if whole := int64(1) << (10 * (i + 1)); n != 0 && n%whole == 0 {
			shown = strconv.FormatInt(n/whole, 10) + unit
		}
	}
	return shown
}

// span is a duration in Go's notation, or with days and weeks.
func span(min, max time.Duration) ranged[time.Duration] {
	return ranged[time.Duration]{min: min, max: max, word: "duration", print: showSpan, parse: readSpan}
}

func readSpan(text string) (time.Duration, string) {
	d, err := time.ParseDuration(text)
	if err != nil && strings.ContainsAny(text, "dw") { // weeks and days, as everywhere else
		d, err = wire.ParseSpan(text, "")
	}
	if err == nil && text != "0" {
		return d, ""
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, "has no unit (as in 500ms, 6s, 10m)"
	}
	return 0, "is not a duration (as in 500ms, 6s, 10m)"
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

// amount is a number that may have a fraction.
func amount(min, max float64) ranged[float64] {
	return ranged[float64]{min: min, max: max, word: "number", print: showAmount,
		parse: func(text string) (float64, string) {
			n, err := strconv.ParseFloat(text, 64)
			if math.IsNaN(n) || err != nil && !errors.Is(err, strconv.ErrRange) {
				return 0, "is not a number"
			}
			return n, ""
		}}
}

func showAmount(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// counted reports whether a limit is of numbers.
func counted(l limit) bool {
	switch l.(type) {
	case ranged[int], ranged[int64], ranged[time.Duration], ranged[float64]:
		return true
	}
	return false
}

// toggle is true or false.
type toggle struct{}

func (toggle) noun() string  { return "bool" } // pflag knows this word and shows none
func (toggle) words() string { return "true or false" }
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

func (l choice) noun() string  { return "word" }
func (l choice) words() string { return list(l, "or") }

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

// text is a string that check accepts. check returns the fault, or "".
type text struct {
	word  string
	limit string
	check func(string) string
}

func (l text) noun() string  { return l.word }
func (l text) words() string { return l.limit }
func (l text) read(given string) (any, error) {
	if given == "" {
		return nil, errors.New("is empty")
	}
	if phrase := l.check(given); phrase != "" {
		return nil, errors.New(phrase)
	}
	return given, nil
}

// several is a list of 1 to max different items of one kind. Outside YAML, commas separate them.
type several struct {
	of     text
	max    int
	secret bool // errors number the items and do not show them
}

func (l several) noun() string  { return l.of.noun() + ",..." }
func (l several) words() string { return fmt.Sprintf("1 to %d of %s", l.max, l.of.words()) }
func (l several) read(given string) (any, error) {
	if strings.TrimSpace(given) == "" {
		return nil, errors.New("is empty")
	}
	// This precedes the split: a password may contain a comma, and a message must not repeat half of it.
	if phrase := noCredentials(given); phrase != "" {
		return nil, errors.New(phrase)
	}
	return l.items(strings.Split(given, ","))
}

// items reads the items of a list.
func (l several) items(items []string) (any, error) {
	if len(items) > l.max {
		return nil, fmt.Errorf("has %d items", len(items))
	}
	for i, item := range items {
		items[i] = strings.TrimSpace(item)
		if items[i] == "" {
			return nil, fmt.Errorf("has an empty item %d", i+1)
		}
		name := shown(items[i])
		if l.secret {
			name = fmt.Sprintf("number %d", i+1)
		}
		if slices.Contains(items[:i], items[i]) {
			return nil, fmt.Errorf("has %s twice", name)
		}
		if phrase := l.of.check(items[i]); phrase != "" {
			if len(items) == 1 {
				return nil, errors.New(phrase)
			}
			return nil, fmt.Errorf("has item %s, which %s", name, phrase)
		}
	}
	return items, nil
}

// wrong returns the phrase, except for an empty text, which is always called empty.
func wrong(text, phrase string) error {
	if text == "" {
		phrase = "is empty"
	}
	return errors.New(phrase)
}
