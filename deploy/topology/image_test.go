package topology

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// stage is one FROM of the Dockerfile and what follows it.
type stage struct {
	from, name   string
	instructions []string
}

func stages(t testing.TB) []stage {
	t.Helper()
	var all []stage
	for line := range strings.Lines(inDeploy(t, "..", "Dockerfile")) {
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case words[0] == "FROM":
			s := stage{from: words[1]}
			if len(words) == 4 {
				s.name = words[3]
			}
			all = append(all, s)
		case len(all) > 0:
			last := &all[len(all)-1]
			last.instructions = append(last.instructions, line)
		}
	}
	return all
}

// instruction is the one line of that kind, without its first word.
func (s stage) instruction(t testing.TB, kind string) string {
	t.Helper()
	var found []string
	for _, line := range s.instructions {
		if rest, ok := strings.CutPrefix(line, kind+" "); ok {
			found = append(found, rest)
		}
	}
	if len(found) != 1 {
		t.Fatalf("stage %q: %d lines of %s, want 1", s.name, len(found), kind)
	}
	return found[0]
}

func words(t testing.TB, text string) []string {
	t.Helper()
	var list []string
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return list
}

func base(t testing.TB) stage {
	t.Helper()
	return stages(t)[0]
}

func TestThePrebuiltImagePullsNothing(t *testing.T) {
	t.Parallel()
	known := []string{"scratch"}
	for _, s := range stages(t) {
		// The classic builder runs the stages above the one it is asked for as well.
		if !slices.Contains(known, s.from) {
			t.Fatalf("%q comes from %s", s.name, s.from)
		}
		if known = append(known, s.name); s.name == "prebuilt" {
			return
		}
	}
	t.Fatal("there is no stage prebuilt")
}

func TestBothImagesAreOfOneBase(t *testing.T) {
	t.Parallel()
	all := stages(t)
	last := all[len(all)-1]
	for _, s := range all {
		if (s.name == "prebuilt" || s.name == last.name) && s.from != "base" {
			t.Errorf("%q comes from %s", s.name, s.from)
		}
	}
	if last.from != "base" || base(t).name != "base" {
		t.Errorf("the last stage comes from %s, the first is %s", last.from, base(t).name)
	}
}

func TestTheImageSaysWhatComposeSays(t *testing.T) {
	t.Parallel()
	b, c := base(t), compose(t)
	for _, name := range c.instances() {
		s := c.Services[name]
		if user := b.instruction(t, "USER"); user != s.User || strings.HasPrefix(user, "0") {
			t.Errorf("%s runs as %s, the image as %s", name, s.User, user)
		}
		if port := b.instruction(t, "EXPOSE"); port != listenPort(t, s) {
			t.Errorf("%s listens on %s, the image exposes %s", name, listenPort(t, s), port)
		}
		h := s.Healthcheck
		want := "--interval=" + h.Interval + " --timeout=" + h.Timeout + " --start-period=" + h.StartPeriod +
			" --retries=3 CMD "
		rest, ok := strings.CutPrefix(b.instruction(t, "HEALTHCHECK"), want)
		if !ok || h.Retries != 3 || !slices.Equal(words(t, rest), h.Test[1:]) || h.Test[0] != "CMD" {
			t.Errorf("%s is checked by %+v, the image by %s", name, h, b.instruction(t, "HEALTHCHECK"))
		}
	}
}

// program is tarry with the version stamped as in the Dockerfile; the race detector is on when it is in the test.
func program(t testing.TB) string {
	t.Helper()
	return lab.Binary(t, "./cmd/tarry", append(lab.Race(), "-ldflags", stamp(t, "v0.0.0-topology"))...)
}

// stamp is the Dockerfile's own -ldflags with a version.
func stamp(t testing.TB, version string) string {
	t.Helper()
	found := regexp.MustCompile(`-ldflags "([^"]+)"`).FindStringSubmatch(inDeploy(t, "..", "Dockerfile"))
	if found == nil {
		t.Fatal("the Dockerfile sets no -ldflags")
	}
	return strings.ReplaceAll(found[1], "${VERSION}", version)
}

func TestTheImagesBinaryKnowsItsVersion(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), program(t), "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "v0.0.0-topology") {
		t.Errorf("got %s, %v", out, err)
	}
}

// A package that .dockerignore keeps out of the build would be missed only where images are built.
func TestTheBuildContextHasEveryPackageOfTheBinary(t *testing.T) {
	t.Parallel()
	var kept, dropped []string
	for line := range strings.Lines(inDeploy(t, "..", ".dockerignore")) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "!"); ok {
			kept = append(kept, name)
		} else if line != "*" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "**/") {
			dropped = append(dropped, line)
		}
	}
	within := func(dir string) func(string) bool {
		return func(tree string) bool { return dir == tree || strings.HasPrefix(dir, tree+"/") }
	}
	root := filepath.Join("..", "..")
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		`{{with .Module}}{{.Path}} {{end}}{{.ImportPath}}`, "./cmd/tarry")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list what tarry is made of: %v", err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		own, path, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || own != "github.com/tarry-mq/tarry" {
			continue
		}
		seen++
		dir := strings.TrimPrefix(path, own+"/")
		if !slices.ContainsFunc(kept, within(dir)) || slices.ContainsFunc(dropped, within(dir)) {
			t.Errorf("%s is not in the build context", dir)
		}
	}
	if seen < 5 {
		t.Errorf("only %d packages of our own: %s", seen, out)
	}
}
