//go:build clients

package tarry

import (
	"os"
	"path/filepath"
	"testing"
)

// The recipes in other languages need an interpreter and libraries, which .ci/clients installs and names here.

func TestRecipes_Python(t *testing.T) {
	t.Parallel()
	python := interpreter(t, "RECIPES_PYTHON")
	d, dir := startDev(t, ""), t.TempDir()
	save(t, dir, "push.py", recipe(t, recipes, "### Python: a producer"))
	save(t, dir, "consume.py", recipe(t, recipes, "### Python: a consumer"))
	d.runProducer(t, 2, dir, python, "push.py")
	d.runConsumer(t, dir, python, "consume.py")
	save(t, dir, "pull.py", recipe(t, "docs/consumers.md", "#### Pull with Python"))
	startDev(t, "").runPuller(t, dir, python, "pull.py")
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
	d.runConsumer(t, dir, node, "consume.mjs")
	save(t, dir, "pull.mjs", recipe(t, "docs/consumers.md", "#### Pull with Node"))
	startDev(t, "").runPuller(t, dir, node, "pull.mjs")
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
