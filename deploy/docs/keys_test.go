package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// twice returns what a strict reader says of a text in YAML or in JSON, which YAML contains: Go's own reader of JSON
// takes a key given twice, while those of others refuse the whole file.
func twice(text string) error {
	in := yaml.NewDecoder(strings.NewReader(text))
	for {
		var document any
		if err := in.Decode(&document); err != nil {
			if err.Error() == "EOF" {
				return nil
			}
			return err
		}
	}
}

var sample = regexp.MustCompile("(?ms)^( *)```(?:yaml|json)\n(.*?)^ *```$")

func TestFiles_GiveNoKeyTwice(t *testing.T) {
	t.Parallel()
	read := 0
	check := func(where, text string) {
		read++
		if err := twice(text); err != nil {
			t.Errorf("%s: %v", where, err)
		}
	}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if name := entry.Name(); name == ".git" || name == "node_modules" {
				return fs.SkipDir
			}
			return err
		}
		kind := filepath.Ext(path)
		switch kind {
		case ".json", ".yml", ".yaml", ".jsonl", ".md":
		default:
			return nil
		}
		file, err := os.ReadFile(path)
		text := string(file)
		switch kind {
		case ".md":
			for _, m := range sample.FindAllStringSubmatch(text, -1) {
				check(path, strings.ReplaceAll("\n"+m[2], "\n"+m[1], "\n"))
			}
		case ".jsonl":
			for line := range strings.Lines(text) {
				check(path, line)
			}
		default:
			check(path, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if read < 15 {
		t.Fatalf("only %d texts were read", read)
	}
	for _, bad := range []string{`{"a": 1, "a": 2}`, `[{"a": {"b": 1, "b": 1}}]`, "a: 1\nb: {c: 1, c: 1}",
		"a: 1\n---\nb: 1\nb: 2"} {
		if twice(bad) == nil {
			t.Errorf("%q passes", bad)
		}
	}
}
