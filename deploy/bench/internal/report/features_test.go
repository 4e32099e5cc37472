package report

import (
	"strings"
	"testing"
)

func TestThePlainPathIsHeldAgainstTheProgramBefore(t *testing.T) {
	t.Parallel()
	b := bookOf()
	for i, slow := range []float64{1, 2, 4} {
		b.Samples = append(b.Samples,
			sampleOf(PlainPush, Before, i+1, Values{Rate: 1, Kept: 100_000 / slow, CPUMicros("tarry"): 5}),
			sampleOf(PlainPush, Tarry, i+1, Values{Rate: 1, Kept: 98_000 / slow, CPUMicros("tarry"): 5.1}),
			sampleOf(PlainDrain, Before, i+1, Values{Rate: 50_000 / slow}),
			sampleOf(PlainDrain, Tarry, i+1, Values{Rate: 48_000 / slow, CPUMicros("redis"): 7}))
	}
	mustHave(t, b.Markdown(),
		"| plain path: push over HTTP, batches of 1,000 | 49,000/s (24,500..98,000) | before 50,000/s "+
			"(25,000..100,000) | 0.98 | ≥ 0.97× | yes |",
		"| plain path: drain, all due at one instant | 24,000/s (12,000..48,000) | before 25,000/s (12,500..50,000) "+
			"| 0.96 | ≥ 0.97× | no |",
		"| push over HTTP, batches of 1,000, before | 50,000 (25,000..100,000) | 5.00 |  |  |",
		"| drain, all due at one instant, tarry | 24,000 (12,000..48,000) |  | 7.00 |  |")
}

func TestASkippedTestIsNamed(t *testing.T) {
	t.Parallel()
	b := bookOf()
	if text := b.Markdown(); strings.Contains(text, "plain") {
		t.Errorf("it reports what nobody asked for:\n%s", text)
	}
	b.Skipped = map[string]string{PlainTag: "no -before given"}
	mustHave(t, b.Markdown(), "| plain path: push by tag, 256 in flight, acknowledged and accepted | skipped: no "+
		"-before given |  |  | ≥ 0.97× |  |")
}

func TestAFeatureStandsBesideTheSameWithoutIt(t *testing.T) {
	t.Parallel()
	b := bookOf()
	if text := b.Markdown(); strings.Contains(text, "feature") {
		t.Error(text)
	}
	for i, slow := range []float64{1, 2, 4} {
		b.Samples = append(b.Samples,
			sampleOf(FeaturesPush, Tarry, i+1, Values{Rate: 100_000 / slow, CPUMicros("tarry"): 4}),
			sampleOf(FeaturesPush, Keep, i+1,
				Values{Rate: 60_000 / slow, CPUMicros("tarry"): 5, CPUMicros("redis"): 8}),
			sampleOf(FeaturesDrain, Partitions, i+1, Values{Rate: 40_000}),
			sampleOf(FeaturesCalls, Tarry, i+1, Values{Of(OnePush, Rate): 10_000 / slow, Of(OneRun, Rate): 5_000 / slow,
				Of(OneRun, CPUMicros("redis")): 44}),
			sampleOf(FeaturesMany, Tarry, i+1, Values{Of(Requeue, Rate): 9_000 / slow}))
	}
	mustHave(t, b.Markdown(),
		"| plain push over HTTP, batches of 1,000 | 50,000/s (25,000..100,000) |  |  | 4.00 |  |",
		"| keep, all names different | 30,000/s (15,000..60,000) | plain push 50,000/s (25,000..100,000) | 0.60 | "+
			"5.00 | 8.00 |",
		"| 8 partitions | 40,000/s |  |  |  |  |", // the plain drain was not measured
		"| run by id | 2,500/s (1,250..5,000) | single push 5,000/s (2,500..10,000) | 0.50 |  | 44.0 |",
		"| requeue of many dead by filter | 4,500/s (2,250..9,000) | plain push 50,000/s (25,000..100,000) | "+
			"0.09 |  |  |")
}

func mustHave(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, line) {
			t.Errorf("this is missing:\n%s", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}
