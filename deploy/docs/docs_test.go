package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

var (
	fences  = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	code    = regexp.MustCompile("`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+)$`)
	marks   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the fragments of a page's headings, made as GitHub makes them.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fences.ReplaceAllString(page, ""), -1) {
		text := regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`).ReplaceAllString(m[1], "$1")
		name := strings.ReplaceAll(marks.ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), ""), " ", "-")
		unique := name
		for n := 1; found[unique]; n++ {
			unique = fmt.Sprintf("%s-%d", name, n)
		}
		found[unique] = true
	}
	return found
}

// broken returns the relative links of the page at path, below dir, that lead nowhere.
func broken(dir, path string) ([]string, error) {
	page, err := os.ReadFile(filepath.Join(dir, path))
	if err != nil {
		return nil, err
	}
	var wrong []string
	text := code.ReplaceAllString(fences.ReplaceAllString(string(page), ""), "")
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
			continue
		}
		file, anchor, _ := strings.Cut(m[1], "#")
		target := path
		if file != "" {
			target = filepath.Join(filepath.Dir(path), filepath.FromSlash(file))
		}
		if !filepath.IsLocal(target) {
			wrong = append(wrong, m[1]+": outside the repository")
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, target)); err != nil {
			wrong = append(wrong, m[1]+": no such file")
			continue
		}
		if anchor == "" {
			continue
		}
		there, err := os.ReadFile(filepath.Join(dir, target))
		if err != nil || !anchors(string(there))[anchor] {
			wrong = append(wrong, m[1]+": no such heading")
		}
	}
	return wrong, nil
}

func TestLinks_LeadSomewhere(t *testing.T) {
	t.Parallel()
	pages := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == ".git" || name == "node_modules") {
			return fs.SkipDir
		}
		if entry.IsDir() || filepath.Ext(path) != ".md" {
			return nil
		}
		pages++
		page, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		wrong, err := broken(root, page)
		for _, each := range wrong {
			t.Errorf("%s: %s", page, each)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages < 15 {
		t.Fatalf("only %d pages were found", pages)
	}
}

func TestLinks_ThatLeadNowhereAreFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.md": "# One `two`: three\n\n[good](b.md) [good](b.md#why-not) [good](#one-two-three)\n" +
			"[good](https://x.example/) [bad](c.md) [bad](b.md#how) [bad](#four) [bad](../a.md) `[code](d.md)`\n\n" +
			"```\n[code](e.md)\n```\n",
		"b.md": "## Why not …\n\n## Why not?\n\n```sh\n# how\n```\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wrong, err := broken(dir, "a.md")
	if err != nil {
		t.Fatal(err)
	}
	want := "[c.md: no such file b.md#how: no such heading #four: no such heading ../a.md: outside the repository]"
	if got := fmt.Sprint(wrong); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestFrames_AreThoseOfTheTour(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile(filepath.Join(root, "docs", "tour.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if want, err := frames(string(page)); err != nil || string(picture) != want {
		t.Errorf("docs/tour.svg is not the README's tour (%v): go run ./deploy/docs", err)
	}
	if _, err := frames("no tour"); err == nil {
		t.Error("a page without a tour has frames")
	}
}

// A page to start with is read in one go.
func TestStartPages_StayShort(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(root, "docs", "start-*.md"))
	if err != nil || len(pages) != 4 {
		t.Fatalf("found %v, %v", pages, err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if lines := strings.Count(string(text), "\n"); err != nil || lines > 60 {
			t.Errorf("%s has %d lines, want at most 60, %v", page, lines, err)
		}
	}
}
