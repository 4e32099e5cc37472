package short_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// RMQ's RangeMergeMessage: a message is due a time range after the first of its kind; what arrives within the range is
// merged into it, and its time stays.
func TestRMQ_RangeMergeMessage(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	s.Start("a")
	in, nc := s.Inbox(site.CoreSubject+">"), s.Connect("producer")
	started := time.Now()
	for range 10 { // no id: equal topic and body are one
		s.Tag(nc, site.CoreSubject+"price", "item 7", "Tarry-Delay", "1s", "Tarry-On-Duplicate", "keep")
	}
	s.Tag(nc, site.CoreSubject+"price", "item 8", "Tarry-Delay", "1s", "Tarry-On-Duplicate", "keep")
	in.Bodies(t, 2)
	if last := in.Snapshot()[1].At.Sub(started); last > 30*time.Second {
		t.Errorf("after %s", last)
	}
	// The range is over: the next of its kind is a message of its own.
	s.Tag(nc, site.CoreSubject+"price", "item 7", "Tarry-Delay", "100ms", "Tarry-On-Duplicate", "keep")
	in.Bodies(t, 3)
}

// RMQ's FixedTimeMessage: due at a time; of repeated ones the last time counts.
func TestRMQ_FixedTimeMessage(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	a := s.Start("a")
	in, nc := s.Inbox(site.CoreSubject+">"), s.Connect("producer")
	s.Tag(nc, site.CoreSubject+"close", "order 7", "Tarry-At", time.Now().Add(time.Hour).Format(time.RFC3339Nano),
		"Tarry-On-Duplicate", "replace", "Tarry-Id", "close-7")
	due := time.Now().Add(2 * time.Second)
	s.Tag(nc, site.CoreSubject+"close", "order 7, changed", "Tarry-At", due.Format(time.RFC3339Nano), "Tarry-On-Duplicate",
		"replace", "Tarry-Id", "close-7")
	if got := in.Bodies(t, 1); got[0] != "order 7, changed" {
		t.Errorf("arrived: %q", got)
	}
	if at := in.Snapshot()[0].At; at.Before(due) {
		t.Errorf("%s early", due.Sub(at))
	}
	if got := s.Must(a, "GET", "/v1/messages/close-7", nil); !strings.Contains(got.Raw, `"version":`) {
		t.Errorf("it is %s", got.Raw)
	}
}

// RMQ's PriorityMessage: of what is due the higher priority leaves first, and of repeated ones the last priority
// counts.
func TestRMQ_PriorityMessage(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	s.Start("a", "TARRY_BUCKETS=1") // order is per bucket (P6)
	in, nc := s.Inbox(site.CoreSubject+">"), s.Connect("producer")
	at := time.Now().Add(3 * time.Second).Truncate(time.Millisecond).Format(time.RFC3339Nano)
	for i, p := range []int{17, 250, 100, 20} {
		s.Tag(nc, site.CoreSubject+"shop", fmt.Sprint("shop ", i), "Tarry-At", at, "Tarry-Priority", fmt.Sprint(p),
			"Tarry-On-Duplicate", "replace", "Tarry-Key", "shops", "Tarry-Id", fmt.Sprint(i))
	}
	s.Tag(nc, site.CoreSubject+"shop", "shop 3", "Tarry-At", at, "Tarry-Priority", "255", "Tarry-On-Duplicate", "replace",
		"Tarry-Key", "shops", "Tarry-Id", "3")
	if got := fmt.Sprint(in.Bodies(t, 4)); got != "[shop 3 shop 1 shop 2 shop 0]" {
		t.Errorf("order: %s", got)
	}
}

// A burst of changes is one delivery, after the burst or at the latest after max_wait.
func TestDebounce_WaitsForQuietButNotForEver(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{})
	s.Start("a")
	in, nc := s.Inbox(site.CoreSubject+">"), s.Connect("producer")
	started := time.Now()
	for i := range 40 {
		s.Tag(nc, site.CoreSubject+"search", fmt.Sprint(i), "Tarry-Delay", "1500ms", "Tarry-Max-Wait", "2s",
			"Tarry-On-Duplicate", "debounce", "Tarry-Id", "index")
		site.Pause(t.Context(), 100*time.Millisecond)
	}
	var all []site.Got
	lab.Eventually(t, site.Patience, func() error {
		if all = in.Snapshot(); len(all) == 0 || string(all[len(all)-1].Data) != "39" {
			return fmt.Errorf("%d came, the last push is not among them", len(all))
		}
		return nil
	})
	if first := all[0].At.Sub(started); first < 1900*time.Millisecond {
		t.Errorf("the first came after %s, want max_wait", first)
	}
	took := all[len(all)-1].At.Sub(started)
	if most := int(took/(1900*time.Millisecond)) + 1; len(all) < 2 || len(all) > most {
		t.Errorf("%d came in %s, want 2 to %d", len(all), took, most)
	}
}
