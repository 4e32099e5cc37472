package short_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
)

// step is one command of a tour, and what it prints.
type step struct{ command, output string }

// tour returns the steps of the README's tour, in order.
func tour(t *testing.T) []step {
	t.Helper()
	page, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, below, found := strings.Cut(string(page), "\n```console\n")
	text, _, ended := strings.Cut(below, "```\n")
	if !found || !ended {
		t.Fatal("README.md has no tour")
	}
	var steps []step
	for line := range strings.Lines(text) {
		if command, is := strings.CutPrefix(line, "$ "); is {
			steps = append(steps, step{command: strings.TrimSpace(command)})
		} else if len(steps) == 0 {
			t.Fatalf("the tour begins with %q", line)
		} else {
			steps[len(steps)-1].output += line
		}
	}
	return steps
}

var varies = []struct {
	pattern *regexp.Regexp
	mask    string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`\((in [0-9a-z]+|[0-9a-z]+ ago|now)\)`), "(FROM NOW)"},
	{regexp.MustCompile(`t-[0-9a-z]{16}`), "UID"},
}

// masked replaces what differs from run to run: times and uids.
func masked(text string) string {
	for _, v := range varies {
		text = v.pattern.ReplaceAllString(text, v.mask)
	}
	return text
}

// Every command of the README's tour runs as printed there, with the output printed there.
func TestTheReadmesTourIsWhatHappens(t *testing.T) {
	t.Parallel()
	d := site.StartDev(t, "tour")
	d.Ready(t)
	bin := t.TempDir()
	if err := os.Symlink(d.Binary, filepath.Join(bin, "tarry")); err != nil {
		t.Fatal(err)
	}
	steps := tour(t)
	if len(steps) < 8 {
		t.Fatalf("the tour has only %d steps", len(steps))
	}
	for _, s := range steps {
		if strings.HasPrefix(s.command, "sleep ") {
			d.WaitLog(`arrived on "demo.hello"`) // a slow machine needs more than the reader's pause
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", s.command)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "TARRY_SERVER=http://"+d.Addr, "TZ=UTC")
		out, err := cmd.CombinedOutput()
		if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if got, want := masked(string(out)), masked(s.output); got != want {
			t.Errorf("%s prints\n%swant\n%s", s.command, got, want)
		}
	}
}
