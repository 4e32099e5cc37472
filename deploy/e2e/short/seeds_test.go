package short_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each test that docs/seeds.md names exists, and each row names one or says that it is not built yet.
func TestEveryRowOfTheSeedsHasItsTest(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	has := map[string]bool{}
	tests := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range tests.FindAllSubmatch(text, -1) {
			has[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "seeds.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	named := regexp.MustCompile("`(Test\\w+)`")
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| ") || strings.HasSuffix(line, "| test |\n") {
			continue
		}
		rows++
		all := named.FindAllStringSubmatch(line, -1)
		if len(all) == 0 && !strings.Contains(line, "not built yet") {
			t.Errorf("without a test: %s", line)
		}
		for _, one := range all {
			if !has[one[1]] {
				t.Errorf("there is no %s: %s", one[1], line)
			}
		}
	}
	if rows < 30 {
		t.Errorf("%d rows were read", rows)
	}
}
