package short_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// step is one command of a tour, and what it prints; or, without a command, what tarry dev prints meanwhile.
type step struct{ command, output string }

var consoles = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// tour returns the steps of a page's tour, in order.
func tour(t *testing.T, page string) []step {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", page))
	if err != nil {
		t.Fatal(err)
	}
	var blocks strings.Builder
	for _, block := range consoles.FindAllStringSubmatch(string(text), -1) {
		blocks.WriteString(block[1])
	}
	var steps []step
	for line := range strings.Lines(blocks.String()) {
		if command, is := strings.CutPrefix(line, "$ "); is {
			steps = append(steps, step{command: strings.TrimSpace(command)})
		} else if strings.HasPrefix(line, "# ") {
			steps = append(steps, step{})
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
	{regexp.MustCompile(`"lease_ms":\d+`), `"lease_ms":LEFT`},
	{regexp.MustCompile(`"receipt":"[0-9A-Za-z_-]+"`), `"receipt":RECEIPT`},
	{regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{3} `), "CLOCK "},
}

// masked replaces what differs from run to run: times, what is left of them, and uids.
func masked(text string) string {
	for _, v := range varies {
		text = v.pattern.ReplaceAllString(text, v.mask)
	}
	return text
}

// Every command of the pages' tours runs as printed there, with the output printed there.
func TestToursAreWhatHappens(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"README.md", "docs/start-http.md"} {
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			takeTour(t, page)
		})
	}
}

func takeTour(t *testing.T, page string) {
	d := site.StartDev(t, "tour")
	d.Ready(t)
	bin, dir := t.TempDir(), t.TempDir()
	if err := os.Symlink(d.Binary, filepath.Join(bin, "tarry")); err != nil {
		t.Fatal(err)
	}
	steps := tour(t, page)
	if len(steps) < 8 {
		t.Fatalf("the tour has only %d steps", len(steps))
	}
	does := func(s step) error {
		want := masked(s.output)
		if s.command == "" {
			if got := masked(d.Log()); !strings.Contains(got, want) {
				return fmt.Errorf("tarry dev prints\n%swant\n%s", got, want)
			}
			return nil
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(s.command, "localhost:7070", d.Addr))
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "TARRY_SERVER=http://"+d.Addr, "TZ=UTC")
		out, err := cmd.CombinedOutput()
		if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
			return err
		}
		if got := masked(string(out)); got != want {
			err = fmt.Errorf("%s prints\n%swant\n%s", s.command, got, want)
			if strings.Contains(got, "(in_flight)") { // what has arrived may not have ended: the reader is slower
				err = fmt.Errorf("%w: %w", errNotYet, err)
			}
			return err
		}
		return nil
	}
	for _, s := range steps {
		if s.command == "" || strings.HasPrefix(s.command, "sleep ") { // a slow machine needs more than the reader's pause
			lab.Eventually(t, site.Patience, func() error { return does(s) })
		} else if err := does(s); errors.Is(err, errNotYet) {
			lab.Eventually(t, site.Patience, func() error { return does(s) })
		} else if err != nil {
			t.Error(err)
		}
	}
}
