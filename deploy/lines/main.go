// Command lines counts the lines of tarry that hold code: Go and Lua that is neither blank nor a comment.
//
//	go run ./deploy/lines          by package, then in all
//	go run ./deploy/lines REF      beside the same count at a commit
//	go run ./deploy/lines -check   fails if a package has not as many as deploy/lines/limit says, or a limit rose in a
//	                               commit since the last release that does not say for what
//	go run ./deploy/lines -update  writes deploy/lines/limit
//
// A commit that raises limits has a line "lines: +n for ..." in its body, n the sum of what it raises. What moves from
// one package to another raises a limit too.
//
// Tests, deploy, generated files, and the packages that exist for tests alone (schedulertest, journaltest, bridgetest)
// are left out. A line counts once, however many tokens stand on it, and a raw string counts as many lines as it spans.
// The console's JavaScript and CSS, without what others wrote, are counted apart, and not in the sum.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"io"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// limits is the file that has how many lines each package may have, as print writes them.
const limits = "deploy/lines/limit"

// page stands for the console's JavaScript and CSS. It may have pageMost lines.
const (
	page     = "bridge/console/page"
	pageMost = 2200
)

func main() {
	check, update := flag.Bool("check", false, "compare with the limits"), flag.Bool("update", false, "write the limits")
	flag.Parse()
	if err := run(os.Stdout, flag.Args(), *check, *update); err != nil {
		fmt.Fprintln(os.Stderr, "lines:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, refs []string, check, update bool) error {
	now, err := count("")
	if err != nil {
		return err
	}
	if len(refs) > 0 {
		before, err := count(refs[0])
		if err != nil {
			return err
		}
		return print(out, now, before)
	}
	if now[page] > pageMost {
		return fmt.Errorf("%s has %d lines, and may have %d", page, now[page], pageMost)
	}
	if !check && !update {
		return print(out, now, nil)
	}
	var table bytes.Buffer
	if err := print(&table, now, nil); err != nil {
		return err
	}
	if update {
		return os.WriteFile(limits, table.Bytes(), 0o644)
	}
	written, err := os.ReadFile(limits)
	if err != nil {
		return err
	}
	if bytes.Equal(written, table.Bytes()) {
		if before, err := git("show", "HEAD:"+limits); err == nil {
			if rise := rises(read(before), read(written)); rise > 0 {
				fmt.Fprintf(out, "this commit needs a line in its body: lines: +%d for ...\n", rise)
			}
		}
		return undeclared()
	}
	may := read(written)
	var differ []string
	for name := range sorted(now, may) {
		if now[name] != may[name] {
			differ = append(differ, fmt.Sprintf("%s has %d lines, and its limit is %d", name, now[name], may[name]))
		}
	}
	return fmt.Errorf("%s\n-update writes the limits; a commit that raises some says for what (lines: +n for ...)",
		strings.Join(differ, "\n"))
}

// read returns the limits by package; of a file in another form, none.
func read(table []byte) map[string]int {
	limits := map[string]int{}
	for line := range strings.Lines(string(table)) {
		var n int
		var name string
		if _, err := fmt.Sscan(line, &n, &name); err == nil && name != "in" {
			limits[name] = n
		}
	}
	return limits
}

// rises sums what limits have risen by.
func rises(was, is map[string]int) (sum int) {
	for name, n := range is {
		sum += max(0, n-was[name])
	}
	return sum
}

// declared is what a commit's body says about a rise.
var declared = regexp.MustCompile(`(?m)^lines: \+([0-9]+) for .`)

// undeclared returns an error if a commit since the last release raised limits by more than it says.
func undeclared() error {
	since := []string{"log", "--no-merges", "--format=%H", "HEAD"}
	if tag, err := git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"); err == nil {
		since = append(since, "^"+strings.TrimSpace(string(tag)))
	}
	commits, err := git(append(since, "--", limits)...)
	if err != nil {
		return err
	}
	for commit := range strings.FieldsSeq(string(commits)) {
		before, err := git("show", commit+"~1:"+limits)
		was := read(before)
		if err != nil || len(was) == 0 { // the first with limits by package, or the first of a shallow clone
			continue
		}
		after, err := git("show", commit+":"+limits)
		if err != nil {
			return err
		}
		body, err := git("show", "-s", "--format=%B", commit)
		if err != nil {
			return err
		}
		rise, says := rises(was, read(after)), 0
		for _, found := range declared.FindAllSubmatch(body, -1) {
			n, _ := strconv.Atoi(string(found[1]))
			says += n
		}
		if rise > says {
			return fmt.Errorf("commit %.7s raises limits by %d lines, and says %d: want \"lines: +%d for ...\" in its body",
				commit, rise, says, rise)
		}
	}
	return nil
}

func git(args ...string) ([]byte, error) {
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// count returns the lines by package and language, of the work tree or of a commit.
func count(ref string) (map[string]int, error) {
	list := []string{"ls-files"}
	read := os.ReadFile
	if ref != "" {
		list = []string{"ls-tree", "-r", "--name-only", "--full-tree", ref}
		read = func(name string) ([]byte, error) { return git("show", ref+":"+name) }
	}
	names, err := git(list...)
	if err != nil {
		return nil, err
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
		if ext := path.Ext(name); ext == ".mjs" || ext == ".css" {
			lines[page] += textLines(text, "//", "/*")
		} else if ext == ".lua" {
			lines[path.Dir(name)] += textLines(text, "--")
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
	if path.Dir(name) == path.Dir(page) && (path.Ext(name) == ".mjs" || path.Ext(name) == ".css") {
		return true
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

// textLines counts the lines that are neither blank nor begin a comment.
func textLines(text []byte, comments ...string) (n int) {
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line != "" && !slices.ContainsFunc(comments, func(c string) bool { return strings.HasPrefix(line, c) }) {
			n++
		}
	}
	return n
}

// sorted iterates over the packages of two counts.
func sorted(a, b map[string]int) iter.Seq[string] {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Values(slices.Sorted(maps.Keys(all)))
}

func print(out io.Writer, now, before map[string]int) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	sumNow, sumBefore := 0, 0
	row := func(name string, now, was int) {
		if before == nil {
			fmt.Fprintf(w, "%d\t  %s\n", now, name)
			return
		}
		fmt.Fprintf(w, "%d\t%d\t%+d\t  %s\n", was, now, now-was, name)
	}
	for name := range sorted(now, before) {
		row(name, now[name], before[name])
		if name == page {
			continue
		}
		sumNow += now[name]
		sumBefore += before[name]
	}
	row("in all", sumNow, sumBefore)
	return w.Flush()
}
