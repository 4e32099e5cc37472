package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A limit rises only in a commit that says for what, and what is left out of a package lowers its limit.
func TestCheck_HoldsEachPackageToItsLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("needs git")
	}
	t.Chdir(t.TempDir())
	must := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	code := func(name string, lines int) {
		t.Helper()
		text := "package x\n" + strings.Repeat("// not counted\n\nvar _ = 1\n", lines-1)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	update := func() {
		t.Helper()
		must("add", "-A")
		if err := run(nil, nil, false, true); err != nil {
			t.Fatal(err)
		}
		must("add", "-A")
	}
	check := func(want string) {
		t.Helper()
		must("add", "-A")
		err := run(new(bytes.Buffer), nil, true, false)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	must("init", "-q")
	code("a/a.go", 10)
	code("b/b.go", 20)
	code("b/b_test.go", 100)
	if err := os.MkdirAll(filepath.Dir(limits), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(limits, []byte("30\n"), 0o644); err != nil { // as it was once: one limit for all
		t.Fatal(err)
	}
	must("add", "-A")
	must("commit", "-qm", "begin")
	update()
	must("commit", "-qm", "limit each package")
	check("")
	code("a/a.go", 13)
	check("a has 13 lines, and its limit is 10")
	code("a/a.go", 9)
	check("a has 9 lines, and its limit is 10")
	update()
	check("")
	must("commit", "-qm", "a: say less")
	code("a/a.go", 12)
	code("b/b.go", 16)
	update()
	must("commit", "-qm", "a: say more\n\nIt has to.\n\nlines: +2 for what it has to")
	check("raises limits by 3 lines, and says 2")
	must("commit", "--amend", "-qm", "a: say more\n\nlines: +2 for what it has to\nlines: +1 for the rest")
	check("")
	code("c/c.go", 1)
	update()
	must("commit", "-qm", "c: begin")
	check("raises limits by 1 lines, and says 0")
	must("tag", "v0.1.0")
	check("")
}
