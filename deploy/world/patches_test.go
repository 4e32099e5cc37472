//go:build seeded

package world_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// patch takes one mend, or one promise, out of the program. The worlds must notice.
type patch struct {
	what      string // what is broken
	file      string
	old, with string
	seed      int // the first that found it; 0 if none has since the draws last changed
}

var patches = []patch{
	{"a lane is not probed again after its store changed", "scheduler/lead/leadership.go",
		"l.lanes.leave(bucket, sc.lanes)", "", 0},
	{"a message that a dead leader had claimed is not uncertain", "store/memory/lead.go",
		"message.Mark{Uncertain: true, Refusals", "message.Mark{Refusals", 0},
	{"a claim may be early", "scheduler/lead/scan.go",
		"Now:    cfg.Clock.Milli(),", "Now:    cfg.Clock.Milli().Add(50 * time.Millisecond),", 6},
	{"claims whose replies were lost are not given back", "scheduler/lead/scan.go",
		"if !sc.flight.doubt.Load() {", "if true {", 13},
	{"a leader of an earlier term still writes", "store/memory/memory.go",
		"if b.term > term {", "if false {", 379},
	{"the journal takes writes of a store that was replaced", "store/memory/journal.go",
		"stands > number {", "false && stands > number {", 0},
	{"a restored message that was due is not uncertain", "store/memory/recover.go",
		"m.Mark.Uncertain = true", "m.Mark.Uncertain = false", 0},
	{"an edit of what a lost lease may have handed out keeps the uid", "store/memory/merge.go",
		" || m.Due <= b.cert.DoubtUntil", "", 0},
	{"an edit after a try keeps the uid", "store/memory/merge.go",
		"case b.wasTried(e) && !keepsContent(e.message, a):", "case false:", 37},
	{"an answer in sync does not wait for the journal", "store/journal/writer.go",
		"if w.cfg.Mode != Sync {\n\t\tfor i := range changes {", "if true {\n\t\tfor i := range changes {", 0},
	{"a poll whose leases are over hands them out", "scheduler/pull/pull.go",
		"if slices.ContainsFunc(found, s.over()) {", "if false {", 0},
	{"a repeated pull gets other messages", "scheduler/pull/pull.go",
		"if found, err := s.again(ctx, &p); len(found) > 0 || err != nil {",
		"if found, err := s.again(ctx, &p); false {", 0},
	{"a lease lapses before its time", "scheduler/lead/lapse.go",
		"now := l.cfg.Clock.Milli()\n\terr = l.call", "now := l.cfg.Clock.Milli().Add(time.Second)\n\terr = l.call", 35},
	{"what lives in the journal without content is answered", "store/journal/answers.go",
		"r.Content == 0 && !r.State.Ended()", "false", 0},
	{"a later version tells that a change is in the journal", "store/journal/writer.go",
		"there[i] = slices.ContainsFunc(", "there[i] = true || slices.ContainsFunc(", 0},
	{"a process that was suspended trusts its own clock", "scheduler/clock.go",
		"if len(votes) == 0 && !c.last.at.IsZero() {", "if false {", 0},
	{"a clock within the slack counts as it is", "scheduler/clock.go",
		"if own.After(high) {", "if false {", 0},
	{"an outcome that is unknown leaves no mark", "scheduler/lead/judge.go",
		" || r.outcome.Kind == scheduler.Unknown", "", 0},
}

// Those that are not tried today fit the source, too.
func TestPatches_FitTheSource(t *testing.T) {
	for _, p := range patches {
		text, err := os.ReadFile("../../" + p.file)
		if n := strings.Count(string(text), p.old); err != nil || n != 1 {
			t.Errorf("%s has %q %d times, want once (%v)", p.file, p.old, n, err)
		}
	}
}

// TARRY_PATCHES=all tries all of them; others take two each day.
func TestWorld_FindsWhatAPatchBreaks(t *testing.T) {
	lab.Needs(t, "go and half a minute a patch")
	some := patches
	if os.Getenv("TARRY_PATCHES") != "all" {
		some = slices.DeleteFunc(slices.Clone(patches), func(p patch) bool { return p.seed == 0 })
		first := 2 * time.Now().YearDay() % (len(some) - 1)
		some = some[first : first+2]
	}
	for _, p := range some {
		t.Run(p.what, p.isFound)
	}
}

func (p patch) isFound(t *testing.T) {
	dir := t.TempDir()
	original, err := filepath.Abs("../../" + p.file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), p.old); n != 1 {
		t.Fatalf("%s has %q %d times, want once", p.file, p.old, n)
	}
	patched := filepath.Join(dir, "patched.go")
	if err := os.WriteFile(patched, []byte(strings.Replace(string(text), p.old, p.with, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "world.test")
	build := exec.CommandContext(t.Context(), "./run.sh", "-c", "-o", program)
	build.Env = append(os.Environ(), fmt.Sprintf("TARRY_REPLACE=%q: %q", original, patched))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	began := time.Now()
	run := exec.CommandContext(t.Context(), program, "-test.run=TestWorld_KeepsItsPromises", "-test.timeout=40m")
	run.Env = append(os.Environ(), "TARRY_SEEDS="+cmp.Or(os.Getenv("TARRY_SEEDS"), "6000"))
	out, err := run.CombinedOutput()
	if err == nil {
		t.Fatal("6,000 worlds did not notice")
	}
	found := regexp.MustCompile(`seed \d+: .{0,200}`).FindString(string(out))
	t.Logf("found after %s: %s", time.Since(began).Round(time.Second), found)
	if found == "" {
		t.Errorf("it ended with %s", out)
	}
	if !strings.Contains(string(out), "decisions are left") && !strings.Contains(string(out), "does not fail again") {
		t.Errorf("it was not tried to shorten it: %s", out)
	}
}
