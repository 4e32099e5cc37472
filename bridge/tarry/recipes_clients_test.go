//go:build clients

package tarry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The recipes in other languages, and those for the nats command line, need programs and libraries, which .ci/clients
// installs and names here.

func TestRecipes_Python(t *testing.T) {
	t.Parallel()
	python := interpreter(t, "RECIPES_PYTHON")
	d, dir := startDev(t, ""), t.TempDir()
	save(t, dir, "push.py", recipe(t, recipes, "### Python: a producer"))
	save(t, dir, "consume.py", recipe(t, recipes, "### Python: a consumer"))
	d.runProducer(t, 2, dir, python, "push.py")
	save(t, dir, "start.py", recipe(t, "docs/start-scripts.md", "## Python"))
	if said := d.start(t, dir, python, "start.py").end(t); !strings.HasSuffix(said, "\narrived: order 17\n") {
		t.Errorf("the first program says %s", said)
	}
	d.refused(t, dir, recipe(t, recipes, "### Python: a producer"), python, "refused.py")
	d.runConsumer(t, dir, python, "consume.py")
	save(t, dir, "pull.py", recipe(t, "docs/consumers.md", "#### Pull with Python"))
	locked := startDev(t, needsToken)
	locked.runPuller(t, dir, python, "pull.py")
	save(t, dir, "many.py", recipe(t, recipes, "### Many with Python"))
	locked.runMany(t, dir, python, "many.py")
}

func TestRecipes_Node(t *testing.T) {
	t.Parallel()
	node := interpreter(t, "RECIPES_NODE")
	d, dir := startDev(t, ""), t.TempDir()
	save(t, dir, "push.mjs", recipe(t, recipes, "### Node: a producer"))
	save(t, dir, "consume.mjs", recipe(t, recipes, "### Node: a consumer"))
	if err := os.Symlink(interpreter(t, "RECIPES_NODE_MODULES"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	d.runProducer(t, 2, dir, node, "push.mjs")
	save(t, dir, "start.mjs", recipe(t, "docs/start-scripts.md", "## Node"))
	if said := d.start(t, dir, node, "start.mjs").end(t); !strings.HasSuffix(said, "\narrived: order 17\n") {
		t.Errorf("the first program says %s", said)
	}
	d.refused(t, dir, recipe(t, recipes, "### Node: a producer"), node, "refused.mjs")
	d.runConsumer(t, dir, node, "consume.mjs")
	save(t, dir, "pull.mjs", recipe(t, "docs/consumers.md", "#### Pull with Node"))
	locked := startDev(t, needsToken)
	locked.runPuller(t, dir, node, "pull.mjs")
	save(t, dir, "many.mjs", recipe(t, recipes, "### Many with Node"))
	locked.runMany(t, dir, node, "many.mjs")
}

func TestRecipes_Java(t *testing.T) {
	t.Parallel()
	java := interpreter(t, "RECIPES_JAVA")
	d, dir := startDev(t, ""), t.TempDir()
	save(t, dir, "Push.java", recipe(t, recipes, "### Java: a producer"))
	d.runProducer(t, 1, dir, java, "Push.java")
	d.refused(t, dir, recipe(t, recipes, "### Java: a producer"), java, "Push.java")
	save(t, dir, "Pull.java", recipe(t, "docs/consumers.md", "#### Pull with Java"))
	locked := startDev(t, needsToken)
	locked.runPuller(t, dir, java, "Pull.java")
	save(t, dir, "Many.java", recipe(t, recipes, "### Many with Java"))
	locked.runMany(t, dir, java, "Many.java")
}

// runMany runs a program that pushes and acknowledges many at a time, twice.
func (d *dev) runMany(t *testing.T, dir string, args ...string) {
	t.Helper()
	for range 2 {
		if said := d.start(t, dir, args...).end(t); said != "100 stored, 100 acknowledged\n" {
			t.Errorf("it says %q", said)
		}
	}
}

func TestRecipes_CommandLine(t *testing.T) {
	t.Parallel()
	cli := interpreter(t, "RECIPES_NATS")
	d, dir := startDev(t, ""), t.TempDir()
	sub := listen(t, wrap(t, connect(t, d.nats)), "orders.remind")
	short := recipe(t, "docs/producers.md", "The `nats` CLI, and any client that speaks JetStream:")
	script := save(t, dir, "recipe.sh", recipe(t, recipes, "## Command line")+short)
	said := execute(t, dir, []string{"NATS_URL=" + d.nats, "PATH=" + filepath.Dir(cli) + ":" + os.Getenv("PATH")}, "sh",
		"-eux", script)
	for _, want := range []string{`"stream":"TARRY_default"`, `"durable":"memory"`, `"state":"waiting"`, `"version":2`,
		`"state":"canceled"`} {
		if !strings.Contains(strings.ReplaceAll(said, " ", ""), want) {
			t.Errorf("it lacks %s", want)
		}
	}
	if n, m := strings.Count(said, `"stream":"TARRY_default"`), strings.Count(said, `"durable"`); n != 2 || m != 2 {
		t.Errorf("JetStream acknowledged %d pushes and tarry %d, want 2 and 2", n, m)
	}
	if m := next(t, sub); !strings.HasPrefix(m.Header.Get(HeaderID), "order-17-") ||
		string(m.Data) != `{"order": 17}` || t.Failed() {
		t.Errorf("got %q with %v after: %s", m.Data, m.Header, said)
	}
}

// refused runs a producer whose delays are none: it does not say that its message is stored.
func (d *dev) refused(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	save(t, dir, args[len(args)-1], strings.ReplaceAll(program, `"2s"`, `"2 sec"`))
	p := d.start(t, dir, args...)
	select {
	case err := <-p.done:
		p.done <- nil // for the clean-up
		said := p.said.String()
		if err == nil || strings.Contains(said, "stored: due") || !strings.Contains(said, "invalid_delay") {
			t.Errorf("%v: %s", err, said)
		}
	case <-time.After(time.Minute):
		t.Errorf("it does not end: %s", p.said)
	}
}

// interpreter is a path that .ci/clients names; without it the test fails.
func interpreter(t *testing.T, name string) string {
	t.Helper()
	path := os.Getenv(name)
	if path == "" {
		t.Fatalf("%s is not set; run .ci/clients", name)
	}
	return path
}
