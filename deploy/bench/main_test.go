package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/bench/internal/load"
	"github.com/tarry-mq/tarry/deploy/bench/internal/measure"
	"github.com/tarry-mq/tarry/deploy/bench/internal/report"
	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
)

func TestOptionsThatDoNotGoTogetherAreRefusedByName(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"-only drian":             `no test "drian"`,
		"-reps -1":                "-reps is -1",
		"-reps 101":               "-reps is 101",
		"-messages 10":            "-messages is 10",
		"-messages 99999999":      "-messages is 99999999",
		"-quick -page figures.md": "-page wants a whole run",
		"-only drain -page F":     "-page wants a whole run",
		"-from a.json -reps 2":    "-from measures nothing",
		"-from a -page b -json c": "-from measures nothing",
		"-from a -before b":       "-from measures nothing",
		"-only plai":              `no test "plai"`,
		"-only plain-":            `no test "plain-"`,
		"drain":                   `got "drain"`,
		"-soak 5s":                "-soak is 5s, want 10s to 48h",
		"-soak 1h -quick":         "-soak goes with -rate and -tarry alone",
		"-soak 1h -rate 0":        "-rate is 0",
		"-rate 5":                 "-rate is that of -soak",
		"-n 5":                    "flag provided but not defined",
	} {
		if _, err := readOptions(strings.Fields(line), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q", line, err, want)
		}
	}
}

func TestAFirstWordStandsForAllTestsThatBeginWithIt(t *testing.T) {
	t.Parallel()
	for only, want := range map[string]string{
		"plain":                 "plain-push plain-tag plain-drain",
		"features,drain":        "drain features-push features-drain features-calls features-many",
		"journal-drain,pending": "pending journal-drain",
		"late":                  "late-1000 late-5000",
	} {
		o, err := readOptions([]string{"-only", only}, io.Discard)
		var got []string
		for _, test := range testNames(o.plan) {
			if o.wanted(test) {
				got = append(got, test)
			}
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: it runs %v, %v; want %s", only, got, err, want)
		}
	}
}

func TestAnUnknownProgramBeforeEndsTheRunBeforeItBegins(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	missing := filepath.Join(t.TempDir(), "tarry")
	got := run(t.Context(), []string{"-tarry", os.Args[0], "-before", missing, "-only", "plain"}, io.Discard, &log)
	if got != exitFailed ||
		!strings.Contains(log.String(), "find the program before") {
		t.Fatalf("it exits with %d: %s", got, log.String())
	}
}

func TestWithoutAProgramBeforeThePlainPathIsSkippedByName(t *testing.T) {
	t.Parallel()
	var out, log strings.Builder
	if got := run(t.Context(), []string{"-tarry", os.Args[0], "-only", "plain"}, &out, &log); got != exitDone ||
		strings.Count(out.String(), "skipped: no -before given") != 3 {
		t.Fatalf("it exits with %d and prints\n%s%s", got, out.String(), log.String())
	}
}

func TestOnlyAQuickRunTriesAgainWhileServersStarve(t *testing.T) {
	t.Parallel()
	starved, wrong := fmt.Errorf("push: %w", load.ErrStarved), errors.New("a message was lost")
	for name, c := range map[string]struct {
		quick bool
		ends  []error
		runs  int
		valid bool
	}{
		"quick":            {true, []error{starved, starved, nil}, 3, true},
		"quick, to no end": {true, []error{starved, starved, starved, nil}, 3, false},
		"quick and wrong":  {true, []error{wrong, nil}, 1, false},
		"whole":            {false, []error{starved, nil}, 1, false},
	} {
		runs := 0
		r := recorder{book: &report.Book{Quick: c.quick}, log: io.Discard}
		err := r.one(t.Context(), job{"push-1", measure.System{Name: "tarry",
			Run: func(context.Context, *stage.Scope) (measure.Outcome, error) {
				runs++
				return measure.Outcome{}, c.ends[runs-1]
			}}, 1})
		if err != nil || runs != c.runs || len(r.book.Samples) != 1 || (len(r.book.Faults()) == 0) != c.valid {
			t.Errorf("%s: it ran %d times, %v, with the faults %q", name, runs, err, r.book.Faults())
		}
	}
}

func TestOptionsHaveDefaults(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]struct{ reps, messages int }{
		"":                         {3, 200_000},
		"-quick":                   {1, 3_000},
		"-quick -reps 2":           {2, 3_000},
		"-messages 5000":           {3, 5_000},
		"-only drain,pending":      {3, 200_000},
		"-page figures.md -reps 5": {5, 200_000},
	} {
		o, err := readOptions(strings.Fields(line), io.Discard)
		if err != nil || o.reps != want.reps || o.plan.Messages != want.messages {
			t.Errorf("%q: %d repetitions of %d messages, %v; want %v", line, o.reps, o.plan.Messages, err, want)
		}
	}
}

func TestAnEarlierRunIsPrintedAgainAndFailsIfItWasInvalid(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "figures.json")
	book := report.Book{Started: time.Now(), Samples: []report.Sample{
		{Test: report.Drain, System: report.Tarry, Repetition: 1, Values: report.Values{report.Rate: 1234}}}}
	for _, c := range []struct {
		faults []string
		want   int
	}{{nil, exitDone}, {[]string{"2 of 9 messages lost"}, exitFailed}} {
		book.Samples[0].Faults = c.faults
		if err := book.Save(path); err != nil {
			t.Fatal(err)
		}
		var out, log strings.Builder
		if got := run(t.Context(), []string{"-from", path}, &out, &log); got != c.want {
			t.Fatalf("with faults %q it exits with %d, want %d: %s", c.faults, got, c.want, log.String())
		}
		if c.want == exitDone && !strings.Contains(out.String(), "1,234") {
			t.Fatalf("it prints\n%s", out.String())
		}
	}
}

func TestBadUsageExitsWithTwo(t *testing.T) {
	t.Parallel()
	if got := run(t.Context(), []string{"-only", "nothing"}, io.Discard, io.Discard); got != exitUsage {
		t.Fatalf("it exits with %d, want %d", got, exitUsage)
	}
}
