package report

import (
	"strings"
	"testing"
)

func TestTheJournalIsHeldAgainstNone(t *testing.T) {
	t.Parallel()
	b := bookOf()
	for i, slow := range []float64{1, 2, 4} {
		b.Samples = append(b.Samples,
			sampleOf(JournalPush, JournalOff, i+1, Values{Rate: 40_000 / slow}),
			sampleOf(JournalPush, JournalAsync, i+1,
				Values{Rate: 36_000 / slow, Rows: 15_000, Behind: 0.4, JournalBytes: 930}),
			sampleOf(JournalPush, JournalSync, i+1,
				Values{Rate: 26_000 / slow, Rows: 26_000 / slow, Behind: 0.01, JournalBytes: 910}),
			sampleOf(JournalDrain, JournalOff, i+1, Values{Rate: 80_000 / slow, CPUMicros("tarry"): 4}),
			sampleOf(JournalDrain, JournalSync, i+1,
				Values{Rate: 60_000 / slow, JournalBytes: 1500, CPUMicros("mariadb"): 50}),
			sampleOf(JournalRestore, JournalAsync, i+1,
				Values{Messages: 1e6, Seconds: 61, FillBefore: 500, FillDuring: 450, Missing: 0}),
			sampleOf(JournalRestore, JournalSync, i+1,
				Values{Messages: 1e6, Seconds: 20 * slow, RestoreRate: 25_000, Outage: 40,
					FeedBefore: 500, FeedDuring: 490, FlatBefore: 1500, FlatDuring: 900, FeedOrder: 20_000,
					FeedP99Before: 3}))
	}
	text := b.Markdown()
	for _, line := range []string{
		"| push over HTTP, batches of 1,000, journal sync | 13,000/s (6,500..26,000) | journal off 20,000/s " +
			"(10,000..40,000) | 0.65 | ≥ 0.6× | yes |",
		"| push over HTTP, batches of 1,000, journal async | 18,000/s (9,000..36,000) | journal off 20,000/s " +
			"(10,000..40,000) | 0.90 |  |  |",
		"| drain, all due at one instant, journal sync | 30,000/s (15,000..60,000) | journal off 40,000/s " +
			"(20,000..80,000) | 0.75 | ≥ 0.8× | no |",
		"| journal per waiting message, body and indexes included | 910 B |  |  |  |  |",
		"| Redis lost: until all messages are back, journal sync | 40.0 s (20.0..80.0) |  |  | ≤ 60 s | yes |",
		"| Redis lost: until all messages are back, journal async | 61.0 s |  |  | ≤ 60 s | no |",
		"| feed while all messages come back, journal async | 450/s | before Redis was lost 500/s | 0.90 | ≥ " +
			"0.8× | yes |",
		"| feed beside an ordered restore of all, journal sync | 490/s | without a restore 500/s | 0.98 | ≥ " +
			"0.8× | yes |",
		"| the same, 32 producers as fast as they are answered | 900/s | without a restore 1,500/s | 0.60 |  |  |",
		"| push, journal async | 18,000 (9,000..36,000) | 15,000 | 0.40 | 930 |  |  |  |  |",
		"| drain, journal sync | 30,000 (15,000..60,000) |  |  | 1500 |  |  |  | 50.0 |",
		"| journal sync | 1,000,000 | 40.0 (20.0..80.0) | 25,000 | 40.0 |  |  |  |  |  |",
		"| a feed at a rate | 500 | 490 | 3.00 |  | 20,000 |",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("this is missing:\n%s", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestARunWithoutTheJournalSaysNothingOfIt(t *testing.T) {
	t.Parallel()
	if text := bookOf().Markdown(); strings.Contains(text, "ournal") || strings.Contains(text, "FLUSHALL") {
		t.Error(text)
	}
}
