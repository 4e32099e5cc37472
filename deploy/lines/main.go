// Command lines counts the lines of tarry that hold code: Go and Lua that is neither blank nor a comment.
//
//	go run ./deploy/lines          by package, then in all
//	go run ./deploy/lines REF      beside the same count at a commit
//	go run ./deploy/lines -max N   fails if there are more than N in all
//
// Tests, deploy, generated files, and the packages that exist for tests alone (schedulertest, journaltest, bridgetest)
// are left out. A line counts once, however many tokens stand on it, and a raw string counts as many lines as it spans.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	most := flag.Int("max", 0, "fail if there are more lines in all")
	flag.Parse()
	if err := run(flag.Args(), *most); err != nil {
		fmt.Fprintln(os.Stderr, "lines:", err)
		os.Exit(1)
	}
}

func run(refs []string, most int) error {
	now, err := count("")
	if err != nil {
		return err
	}
	sum := 0
	for _, n := range now {
		sum += n
	}
	if most > 0 && sum > most {
		return fmt.Errorf("%d lines in all, the limit is %d: take something out, or raise the limit and say why", sum, most)
	}
	if most > 0 {
		fmt.Printf("passed lines: %d, the limit is %d\n", sum, most)
		return nil
	}
	if len(refs) == 0 {
		return print(now, nil)
	}
	before, err := count(refs[0])
	if err != nil {
		return err
	}
	return print(now, before)
}

// count returns the lines by package and language, of the work tree or of a commit.
func count(ref string) (map[string]int, error) {
	list := []string{"ls-files"}
	read := os.ReadFile
	if ref != "" {
		list = []string{"ls-tree", "-r", "--name-only", "--full-tree", ref}
		read = func(name string) ([]byte, error) { return exec.Command("git", "show", ref+":"+name).Output() }
	}
	names, err := exec.Command("git", list...).Output()
	if err != nil {
		return nil, fmt.Errorf("list the files: %w", err)
	}
	lines := map[string]int{}
	for name := range strings.Lines(string(names)) {
		name = strings.TrimSpace(name)
		if !counts(name) {
			continue
		}
		text, err := read(name)
		if os.IsNotExist(err) { // removed, and not committed yet
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if strings.HasSuffix(name, ".lua") {
			lines[path.Dir(name)] += luaLines(text)
		} else if !generated(text) {
			lines[path.Dir(name)] += goLines(text)
		}
	}
	return lines, nil
}

func counts(name string) bool {
	for _, tests := range []string{"deploy/", "scheduler/schedulertest/", "store/journal/journaltest/",
		"bridge/bridgetest/"} {
		if strings.HasPrefix(name, tests) {
			return false
		}
	}
	return strings.HasSuffix(name, ".lua") || strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}

// generated reports whether a file says, as Go's tools expect it, that it is generated.
func generated(text []byte) bool {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	return bytes.HasPrefix(first, []byte("// Code generated ")) && bytes.HasSuffix(first, []byte(" DO NOT EDIT."))
}

func goLines(text []byte) int {
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	held := map[int]bool{}
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return len(held)
		}
		if tok == token.SEMICOLON && literal == "\n" { // inserted by the scanner
			continue
		}
		first := file.Line(pos)
		for i := range 1 + strings.Count(literal, "\n") {
			held[first+i] = true
		}
	}
}

func luaLines(text []byte) int {
	n := 0
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && !bytes.HasPrefix(line, []byte("--")) {
			n++
		}
	}
	return n
}

func print(now, before map[string]int) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	all := maps.Clone(now)
	maps.Copy(all, before)
	sumNow, sumBefore := 0, 0
	row := func(name string, now, was int) {
		if before == nil {
			fmt.Fprintf(w, "%d\t  %s\n", now, name)
			return
		}
		fmt.Fprintf(w, "%d\t%d\t%+d\t  %s\n", was, now, now-was, name)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		row(name, now[name], before[name])
		sumNow += now[name]
		sumBefore += before[name]
	}
	row("in all", sumNow, sumBefore)
	return w.Flush()
}
