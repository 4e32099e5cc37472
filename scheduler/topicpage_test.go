package scheduler

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTopicPage_IsTheFirstNamesAfterTheLast: whatever the order, and however often a name comes.
func TestTopicPage_IsTheFirstNamesAfterTheLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching("[a-c]{1,3}")
		met := rapid.SliceOf(name).Draw(t, "met")
		after := rapid.OneOf(rapid.Just(""), name).Draw(t, "after")
		limit := rapid.IntRange(1, 12).Draw(t, "limit")
		page := NewTopicPage(after, limit)
		for _, topic := range met {
			page.Meet(topic)
		}
		want := slices.DeleteFunc(slices.Clone(met), func(topic string) bool { return topic <= after })
		slices.Sort(want)
		want = slices.Compact(want)
		if got := page.Topics(); !slices.Equal(got, want[:min(limit, len(want))]) {
			t.Fatalf("%q after %q, at most %d: %q", met, after, limit, got)
		}
		if len(page.names) > 2*limit {
			t.Fatalf("it keeps %d names", len(page.names))
		}
	})
}
