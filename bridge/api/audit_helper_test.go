package api_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// linesOf are the lines of a log with this message.
func linesOf(t testing.TB, log, message string) (found []map[string]any) {
	t.Helper()
	for text := range strings.Lines(log) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if line["message"] == message {
			found = append(found, line)
		}
	}
	return found
}
