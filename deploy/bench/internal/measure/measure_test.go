package measure

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/deploy/bench/internal/load"
	"github.com/tarry-mq/tarry/deploy/bench/internal/report"
	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
)

func TestEverySystemGetsTheSameMomentAndBody(t *testing.T) {
	t.Parallel()
	b := bench{plan: Full(), bodies: load.NewBodies()}
	due := time.UnixMilli(1_800_000_000_123)
	const n = 4711
	want := string(b.body(n))

	tagged := b.tagged(n, due)
	if got := tagged.Header.Get("Tarry-At"); got != "1800000000123" || string(tagged.Data) != want {
		t.Errorf("by tag: %q, %q", got, tagged.Data)
	}
	scheduled := b.scheduled(n, due)
	at, found := strings.CutPrefix(scheduled.Header.Get(jetstream.ScheduleHeader), "@at ")
	if got, err := time.Parse(time.RFC3339, at); !found || err != nil || !got.Equal(due) ||
		string(scheduled.Data) != want {
		t.Errorf("as a schedule: %q, %v, %q", at, err, scheduled.Data)
	}
	if b.scheduled(n+1, due).Subject == scheduled.Subject {
		t.Error("two schedules have one subject: the second replaces the first")
	}
	var item struct {
		Topic, Body string
		At          int64
	}
	text := b.batches(&stage.Tarry{}, func(int) time.Time { return due }).Item(nil, n)
	if err := json.Unmarshal(text, &item); err != nil || item.Topic != dueSubject || item.Body != want ||
		item.At != due.UnixMilli() {
		t.Errorf("over HTTP: %s, %v", text, err)
	}
}

func TestFarOffMessagesAreDueOverTheDayAfterTomorrow(t *testing.T) {
	t.Parallel()
	b := bench{plan: Full(), bodies: load.NewBodies()}
	for n := range 1000 {
		d, err := time.ParseDuration(b.delayed(n).Header.Get("Tarry-Delay"))
		if err != nil || d != farOff(n) || d < 24*time.Hour || d >= 48*time.Hour {
			t.Fatalf("message %d waits %s, %v", n, d, err)
		}
	}
}

func TestDelaysOfTheLatenessTestsKeepToThePlan(t *testing.T) {
	t.Parallel()
	b := bench{plan: Full()}
	least, most := time.Hour, time.Duration(0)
	for n := range 20_000 {
		least, most = min(least, b.delay(n)), max(most, b.delay(n))
	}
	if least < time.Second || least > 1010*time.Millisecond || most > 10*time.Second || most < 9990*time.Millisecond {
		t.Fatalf("they go from %s to %s, want nearly 1s to 10s", least, most)
	}
}

func TestTestsHaveNamesOfTheirOwnAndTarryFirst(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, test := range All(Full(), "", "") {
		ours := []string{report.Tarry, report.TarryDoor, report.JournalOff, report.JournalAsync}
		alone := slices.Contains([]string{report.FeaturesCalls, report.FeaturesMany, // beside pushes of their own
			report.PullWake, report.PullWait}, test.Name) // nobody else has polls that wait for a due time
		if seen[test.Name] || len(test.Systems) < 2 && !alone || !slices.Contains(ours, test.Systems[0].Name) {
			t.Errorf("test %q with %d systems", test.Name, len(test.Systems))
		}
		seen[test.Name] = true
	}
}
