package report

import (
	"fmt"
	"strings"
	"time"
)

// Look is what a soak saw at one moment. Sizes are in bytes.
type Look struct {
	After    time.Duration
	Live     float64 // messages that wait or are in flight
	RSS      float64 // of tarry
	RedisRSS float64
	Files    float64 // that tarry has open
	Redis    float64 // used memory
	SQL      float64 // of the journal's tables
	Rows     float64 // messages in the journal, about
}

// Soak is a load of many hours.
type Soak struct {
	For        time.Duration
	Rate       int
	Looks      []Look
	Goroutines [2]int // of tarry, a minute after its start and at the end
	Values     Values // lateness, processor time
	Faults     []string
}

// settled are the looks after the first third: of four hours those after one hour, for which the journal keeps what has
// ended, and twenty minutes.
func (s Soak) settled() []Look {
	for i, l := range s.Looks {
		if l.After >= s.For/3 {
			return s.Looks[i:]
		}
	}
	return nil
}

// Slope is by how much a figure grows in an hour, once all has settled: the line with the least squares.
func (s Soak) Slope(of func(Look) float64) float64 {
	looks := s.settled()
	n := float64(len(looks))
	var x, y, xx, xy float64
	for _, l := range looks {
		hours, value := l.After.Hours(), of(l)
		x, y, xx, xy = x+hours, y+value, xx+hours*hours, xy+hours*value
	}
	if below := n*xx - x*x; below > 0 {
		return (n*xy - x*y) / below
	}
	return 0
}

// half is the mean of a figure over the first or the second half of the settled looks.
func (s Soak) half(second bool, of func(Look) float64) float64 {
	looks := s.settled()
	if looks = looks[:len(looks)/2]; second {
		looks = s.settled()[len(looks):]
	}
	sum := 0.0
	for _, l := range looks {
		sum += of(l)
	}
	return sum / float64(max(len(looks), 1))
}

// Markdown is the soak's table.
func (s Soak) Markdown() string {
	var w strings.Builder
	fmt.Fprintf(&w, "%s at %s/s: %s messages, %.0f live at a time.\n\n", s.For, Thousands(s.Rate),
		Thousands(int(s.Values[Messages])), s.half(true, func(l Look) float64 { return l.Live }))
	w.WriteString("| of tarry and its servers | in the first half | in the second half | an hour |\n|---|---|---|---|\n")
	const mib = 1 << 20
	for _, row := range []struct {
		what string
		of   func(Look) float64
	}{
		{"memory of tarry, MiB", func(l Look) float64 { return l.RSS / mib }},
		{"memory of Redis, MiB", func(l Look) float64 { return l.RedisRSS / mib }},
		{"Redis, bytes a live message", func(l Look) float64 { return l.Redis / max(l.Live, 1) }},
		{"journal, bytes a message in it", func(l Look) float64 { return l.SQL / max(l.Rows, 1) }},
		{"journal, thousands of messages", func(l Look) float64 { return l.Rows / 1000 }},
		{"files that tarry has open", func(l Look) float64 { return l.Files }},
	} {
		fmt.Fprintf(&w, "| %s | %s | %s | %+.2f |\n", row.what, figure(s.half(false, row.of)), figure(s.half(true, row.of)),
			s.Slope(row.of))
	}
	fmt.Fprintf(&w, "| goroutines | %d after a minute | %d at the end | |\n\n", s.Goroutines[0], s.Goroutines[1])
	w.WriteString("| lateness, ms | p50 | p99 | p99.9 | greatest |\n|---|---|---|---|---|\n|")
	for _, name := range []string{"", Median, P99, P999, Greatest} {
		if name != "" {
			fmt.Fprintf(&w, " %s", figure(s.Values[name]))
		}
		w.WriteString(" |")
	}
	w.WriteString("\n")
	for _, fault := range s.Faults {
		fmt.Fprintf(&w, "\n- %s\n", fault)
	}
	return w.String()
}
