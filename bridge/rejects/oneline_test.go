package rejects

import (
	"strings"
	"testing"
)

func TestOneLine_BoundsWhatGoesIntoAHeader(t *testing.T) {
	t.Parallel()
	if got := oneLine("a\r\nb\x00" + strings.Repeat("é", 400)); len(got) > 310 ||
		strings.ContainsAny(got, "\r\n\x00") || !strings.HasSuffix(got, "...") {
		t.Errorf("got %q", got)
	}
}
