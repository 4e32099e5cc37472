package app_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestLog_FieldsAreAllListed: a field that is logged only when something rare goes
// wrong is a part of the interface too, and no run of one instance shows them all.
func TestLog_FieldsAreAllListed(t *testing.T) {
	t.Parallel()
	field := regexp.MustCompile(
		`\.(?:Str|Strs|Int|Int64|Uint|Uint32|Uint64|Dur|Bool|Float64|Time|Stringer|Any|Interface|Ints|AnErr)\("([a-z_]+)"`)
	flag := regexp.MustCompile(`[fF]lags(\(\))?\.\w+\("`) // of the command line
	found := map[string]bool{}
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		// tests, and a library that logs nothing
		case entry.IsDir() && (path == filepath.Join(root, "deploy") || path == filepath.Join(root, "bridge", "tarry")):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		text = flag.ReplaceAll(text, nil)
		for _, m := range field.FindAllSubmatch(text, -1) {
			found[string(m[1])] = true
		}
		return err
	})
	if err != nil || len(found) < 40 {
		t.Fatalf("%d fields, %v", len(found), err)
	}
	allowed := allowedFields(t, found)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !allowed[name] {
			t.Errorf("a log field that is not in testdata/logfields.txt: %s", name)
		}
	}
}
