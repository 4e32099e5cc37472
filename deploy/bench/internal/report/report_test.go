package report

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
)

func sampleOf(test, system string, repetition int, values Values, faults ...string) Sample {
	return Sample{Test: test, System: system, Repetition: repetition, Values: values, Faults: faults}
}

// bookOf has three repetitions in which the machine gets slower, while the ratios stay.
func bookOf() *Book {
	b := &Book{Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Whole: true, Plan: "A plan",
		Rates: []int{1000, 5000},
		Machine: stage.Machine{CPU: "a CPU", Cores: 2, MemoryGB: 23, Kernel: "6", System: "Debian", Load: 0.1,
			Versions: map[string]string{"redis": "7", "go": "1"}}}
	for i, slow := range []float64{1, 2, 4} {
		b.Samples = append(b.Samples,
			sampleOf(Drain, Tarry, i+1,
				Values{Rate: 80_000 / slow, First: 8, CPUMicros("tarry"): 4.5, CPUMicros("redis"): 3}),
			sampleOf(Drain, Schedules, i+1, Values{Rate: 40_000 / slow, First: 900}),
			sampleOf(Drain, JetStream, i+1, Values{Rate: 110_000 / slow}),
			sampleOf(Late(5000), Tarry, i+1, Values{Least: 0.1, Median: 1, P99: 2.5 * slow, P999: 9, Greatest: 20}),
			sampleOf(Late(5000), Schedules, i+1, Values{P99: 300 * slow}))
	}
	return b
}

func TestTheTableHoldsFiguresAgainstGoals(t *testing.T) {
	t.Parallel()
	text := bookOf().Markdown()
	for _, line := range []string{
		"| drain, all due at one instant | 40,000/s (20,000..80,000) | NATS schedules 20,000/s (10,000..40,000) | " +
			"2.00 | ≥ 2× | yes |",
		"| drain, all due at one instant | 40,000/s (20,000..80,000) | bare JetStream 55,000/s (27,500..110,000) | " +
			"0.73 | ≥ 0.8× | no |",
		"| processor time per drained message, tarry | 4.50 µs |  |  | ≤ 4 µs | no |",
		"| processor time per drained message, Redis | 3.00 µs |  |  | ≤ 3.5 µs | yes |",
		"| lateness p99 at 5,000/s | 5.00 ms (2.50..10.0) |  |  | ≤ 3 ms | no |",
		"| lateness p99 at 5,000/s | 5.00 ms (2.50..10.0) | NATS schedules 600 ms (300..1200) | 1/120 | ≤ 1/80 | yes |",
		"| 5,000/s, tarry | 0.10 | 1.00 | 5.00 (2.50..10.0) | 9.00 | 20.0 |  |  |  |",
		"| NATS schedules | 20,000 (10,000..40,000) | 900 |  |  |  |  |",
		"Every message was received once, whole and not early.",
		"Medians of 3 interleaved repetitions",
		"go 1, redis 7.",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("this is missing:\n%s", line)
		}
	}
	if strings.Contains(text, "push by tag") || strings.Contains(text, "1,000/s") {
		t.Error("the table has rows for what was not measured")
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestAnInvalidSampleIsLeftOutAndNamed(t *testing.T) {
	t.Parallel()
	b := bookOf()
	b.Samples = append(b.Samples, sampleOf(Drain, Tarry, 4, Values{Rate: 1e9}, "3 of 9 messages lost"),
		sampleOf(Drain, Schedules, 4, Values{Rate: 1}))
	text := b.Markdown()
	if strings.Contains(text, "1,000,000,000") ||
		!strings.Contains(text, "- drain, tarry, repetition 4: 3 of 9 messages lost") ||
		strings.Contains(text, "Every message was received once") {
		t.Error(text)
	}
}

func TestABookIsReadAsItWasSaved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "figures.json")
	want := bookOf()
	if err := want.Save(path); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("read %+v, %v; want %+v", got, err, want)
	}
}

func TestTheReportTakesThePlaceOfTheOldOne(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "figures.md")
	const before, after = "# tarry\n\n<!-- bench:start -->\n", "<!-- bench:end -->\nmore\n"
	if err := os.WriteFile(path, []byte(before+"old\n"+after), 0o600); err != nil {
		t.Fatal(err)
	}
	b := bookOf()
	for range 2 { // the second time over what the first wrote
		if err := b.PutInto(path); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if want := before + "\n" + b.Markdown() + "\n" + after; err != nil || string(got) != want {
			t.Fatalf("the page is\n%s\n%v; want\n%s", got, err, want)
		}
	}
}

func TestAPageWithoutOnePairOfMarksIsRefused(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"", markStart + "\n", markEnd + "\n" + markStart + "\n",
		markStart + "\n" + markEnd + "\n" + markStart + "\n" + markEnd + "\n"} {
		if got, err := between(page, "x"); !errors.Is(err, errNoMarks) {
			t.Errorf("%q became %q, %v", page, got, err)
		}
	}
}

func TestOnlyAWholeValidRunGoesIntoAPage(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Book){
		"quick":   func(b *Book) { b.Quick = true },
		"partial": func(b *Book) { b.Whole = false },
		"invalid": func(b *Book) { b.Samples[0].Faults = []string{"lost"} },
		"empty":   func(b *Book) { b.Samples = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bookOf()
			spoil(b)
			if err := b.PutInto(filepath.Join(t.TempDir(), "figures.md")); !errors.Is(err, errUnworthy) {
				t.Fatalf("the error is %v", err)
			}
		})
	}
}

func TestFiguresAreWrittenWithAboutThreeDigits(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]string{0: "0", 0.123: "0.12", 9.876: "9.88", 45.67: "45.7", 1234.5: "1235",
		-0.5: "-0.50"} {
		if got := figure(value); got != want {
			t.Errorf("%v is written %s, want %s", value, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000",
		-100: "-100"} {
		if got := Thousands(n); got != want {
			t.Errorf("%d is written %s, want %s", n, got, want)
		}
	}
}
