package report

import (
	"fmt"
	"math"
	"strconv"
)

// unit writes figures.
type unit int

const (
	perSecond unit = iota
	milliseconds
	microseconds
	octets
	percent
	seconds
	number
)

func (u unit) one(value float64) string {
	switch u {
	case perSecond:
		return Thousands(int(math.Round(value)))
	case octets:
		return strconv.Itoa(int(math.Round(value)))
	}
	return figure(value)
}

func (u unit) name() string {
	return map[unit]string{perSecond: "/s", milliseconds: " ms", microseconds: " µs", octets: " B", percent: " %",
		seconds: " s"}[u]
}

// show writes a median with its unit, and the least and the greatest where they differ from it.
func (u unit) show(s spread) string { return spreadText(u.one, s, u.name()) }

func spreadText(one func(float64) string, s spread, name string) string {
	text, least, greatest := one(s.median), one(s.least), one(s.greatest)
	if least == greatest {
		return text + name
	}
	return fmt.Sprintf("%s%s (%s..%s)", text, name, least, greatest)
}

// figure writes a number with about three digits.
func figure(value float64) string {
	switch size := math.Abs(value); {
	case size >= 100:
		return strconv.Itoa(int(math.Round(value)))
	case size >= 10:
		return strconv.FormatFloat(value, 'f', 1, 64)
	case size == 0:
		return "0"
	}
	return strconv.FormatFloat(value, 'f', 2, 64)
}

// fraction writes a ratio below one as 1/n.
func fraction(value float64) string {
	if value <= 0 {
		return "0"
	}
	return "1/" + figure(1/value)
}

// Thousands writes a whole number with commas.
func Thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
