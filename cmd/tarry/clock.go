package main

import (
	"fmt"
	"strings"
	"time"
)

// clock shows the times of answers, which are UTC, in the user's time zone and relative to now.
type clock struct {
	now  func() time.Time
	zone *time.Location
}

// at formats a time of an answer for people, as in 2030-01-31T09:00:00.000+01:00 (in 59m). The time stays in RFC 3339,
// which every time flag accepts. Text that is no time is returned unchanged.
func (c clock) at(text string) string {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return text
	}
	return t.In(c.zone).Format("2006-01-02T15:04:05.000Z07:00") + " (" + away(t.Sub(c.now())) + ")"
}

// width returns the maximum width of a column of times.
func (c clock) width() int {
	widest := "2030-01-31T09:00:00.003+01:00 (23h59m ago)"
	if _, offset := c.now().In(c.zone).Zone(); offset == 0 {
		widest = strings.Replace(widest, "+01:00", "Z", 1)
	}
	return len(widest)
}

// away formats a duration relative to now, rounded for people.
func away(d time.Duration) string {
	text := "in %s"
	if d < 0 {
		text, d = "%s ago", -d
	}
	const day = 24 * time.Hour
	d = d.Round(time.Second)
	for _, step := range []struct{ from, to time.Duration }{{time.Minute, time.Minute}, {day, time.Hour},
		{10 * day, day}} {
		if d >= step.from {
			d = d.Round(step.to)
		}
	}
	if d == 0 {
		return "now"
	}
	var b strings.Builder
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := d / unit.of; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, unit.name)
			d -= n * unit.of
		}
	}
	return fmt.Sprintf(text, b.String())
}
