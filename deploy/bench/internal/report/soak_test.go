package report

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestSoak_KnowsWhatGrowsOnceAllHasSettled(t *testing.T) {
	t.Parallel()
	s := Soak{For: 4 * time.Hour, Rate: 1000, Values: Values{Messages: 14_400_000, P99: 2.5}}
	for minute := range 240 {
		after := time.Duration(minute) * time.Minute
		l := Look{After: after, Live: 5000, RSS: (100 + 3*after.Hours()) * (1 << 20), Redis: 5000 * 400, Files: 30}
		if after < 80*time.Minute {
			l.RSS *= 2 // as it starts
		}
		s.Looks = append(s.Looks, l)
	}
	if got := s.Slope(func(l Look) float64 { return l.RSS / (1 << 20) }); math.Abs(got-3) > 0.001 {
		t.Errorf("memory grows by %f MiB an hour, want 3", got)
	}
	if got := s.Slope(func(l Look) float64 { return l.Files }); math.Abs(got) > 0.001 {
		t.Errorf("files grow by %f an hour, want 0", got)
	}
	text := s.Markdown()
	for _, want := range []string{"14,400,000 messages", "| memory of tarry, MiB | 106 | 110 | +3.00 |",
		"| Redis, bytes a live message | 400 | 400 | +0.00 |", " 2.50 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("it says %s, which lacks %q", text, want)
		}
	}
}
