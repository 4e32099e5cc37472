package message_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/scheduler/schedulertest"
)

func TestWhys_AreExplainedToUsers(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "why.md"))
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(page), "Nothing at all was found?")
	for _, word := range schedulertest.Whys() {
		if !strings.Contains(table, "`"+string(word)+"`") {
			t.Errorf("docs/why.md does not explain %s", word)
		}
	}
}
