package report

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// The marks that enclose the report in a page.
const (
	markStart = "<!-- bench:start -->"
	markEnd   = "<!-- bench:end -->"
)

var (
	errNoMarks  = errors.New("it needs one line " + markStart + " and after it one line " + markEnd)
	errUnworthy = errors.New("only a whole, valid run that is not quick goes into a page")
)

// PutInto replaces the report in the file at path.
func (b *Book) PutInto(path string) error {
	if b.Quick || !b.Whole || len(b.Faults()) > 0 || len(b.Samples) == 0 {
		return fmt.Errorf("write %s: %w", path, errUnworthy)
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	text, err := between(string(old), b.Markdown())
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// between replaces the text between the marks.
func between(page, text string) (string, error) {
	before, rest, found := strings.Cut(page, markStart+"\n")
	_, after, closed := strings.Cut(rest, markEnd)
	if !found || !closed || strings.Contains(after, markStart) || strings.Contains(after, markEnd) {
		return "", errNoMarks
	}
	return before + markStart + "\n\n" + strings.TrimRight(text, "\n") + "\n\n" + markEnd + after, nil
}
