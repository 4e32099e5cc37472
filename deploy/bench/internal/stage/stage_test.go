package stage

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAScopeCleansUpInReverseAndKeepsItsReasons(t *testing.T) {
	t.Parallel()
	var (
		order []string
		dir   string
		bad   = errors.New("bad")
	)
	failure := Run(t.Context(), func(s *Scope) {
		dir = s.TempDir()
		s.Cleanup(func() { order = append(order, "first") })
		s.Cleanup(func() {
			order = append(order, "second")
			if s.Context().Err() == nil {
				t.Error("the context still lives in the clean-up")
			}
			s.Fatalf("and %s", "worse")
		})
		s.Fatal(bad)
		t.Error("Fatal returned")
	})
	if failure == nil || len(failure.Reasons) != 2 || !errors.Is(failure.Reasons[0], bad) ||
		failure.Reasons[1].Error() != "and worse" {
		t.Fatalf("the failure is %v", failure)
	}
	if want := []string{"second", "first"}; !slices.Equal(order, want) {
		t.Fatalf("cleaned up in the order %q, want %q", order, want)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the directory is still there: %v", err)
	}
}

func TestAScopeWithoutAFailureReturnsNil(t *testing.T) {
	t.Parallel()
	if failure := Run(t.Context(), func(*Scope) {}); failure != nil {
		t.Fatal(failure)
	}
}

func TestProcessorTimeIsReadBehindAnyName(t *testing.T) {
	t.Parallel()
	got, err := parseCPU("42 (a ) b (c)) S 1 42 42 0 -1 4194304 100 0 0 0 150 25 7 8 20 0 1 0 100 1000 10")
	if want := 1750 * time.Millisecond; err != nil || got != want {
		t.Fatalf("read %s, %v; want %s", got, err, want)
	}
	for _, text := range []string{"", "42 (x) S 1", "42 x S 1 42 42 0 -1 4194304 100 0 0 0 150 25",
		"42 (x) S 1 42 42 0 -1 4194304 100 0 0 0 a 25 7"} {
		if got, err := parseCPU(text); err == nil {
			t.Errorf("%q was read as %s", text, got)
		}
	}
}

func TestProcessorTimeOfThisProcessGrowsWithWork(t *testing.T) {
	t.Parallel()
	cost, err := Watch(This())
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; {
		used, elapsed, err := cost.Used()
		if err != nil {
			t.Fatal(err)
		}
		if used["bench"] >= 3*tick && elapsed > 0 {
			return
		}
		if time.Since(began) > 20*time.Second {
			t.Fatalf("busy for %s, and %s of processor time were seen", elapsed, used["bench"])
		}
	}
}

func TestMemoryOfThisProcessIsPlausible(t *testing.T) {
	t.Parallel()
	got, err := RSS(os.Getpid())
	if err != nil || got < 1<<20 || got > 1<<36 {
		t.Fatalf("it is %d bytes, %v", got, err)
	}
	if _, err := RSS(-1); err == nil {
		t.Fatal("a process that cannot be has memory")
	}
}

func TestAMetricIsSummedOverItsLabelsAndNotTakenForAnother(t *testing.T) {
	t.Parallel()
	const page = "# HELP tarry_accepted_total Messages.\n# TYPE tarry_accepted_total " +
		"counter\ntarry_accepted_total 1.5e+03\n" +
		"tarry_accepted_total_other 7\ntarry_cancels_total{answer=\"a } b\"} 2\ntarry_cancels_total{answer=\"c\"} 3\n"
	for name, want := range map[string]float64{"tarry_accepted_total": 1500, "tarry_cancels_total": 5} {
		if got, err := parseMetric(page, name); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", name, got, err, want)
		}
	}
	if got, err := parseMetric(page, "tarry_accepted"); err == nil {
		t.Errorf("a metric that is not there is %v", got)
	}
}

func TestUntilGivesTheLastReason(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := Until(ctx, time.Millisecond, func(context.Context) error { return errors.New("not yet") })
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not yet") {
		t.Fatalf("the error is %v", err)
	}
	tries := 0
	err = Until(t.Context(), time.Millisecond, func(context.Context) error { tries++; return errGivenUp })
	if !errors.Is(err, errGivenUp) || tries != 1 {
		t.Fatalf("after %d tries the error is %v", tries, err)
	}
}

func TestTheMachineIsDescribed(t *testing.T) {
	t.Parallel()
	m := ThisMachine()
	if m.Cores < 1 || m.MemoryGB <= 0 || m.Kernel == "" || m.Versions["go"] == "" {
		t.Fatalf("it is %+v", m)
	}
}
