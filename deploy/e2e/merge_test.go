package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// tag pushes a message by its tags and waits until the intake has it.
func (s *site) tag(nc *nats.Conn, subject, body string, tags ...string) {
	s.t.Helper()
	m := nats.NewMsg("delayed." + subject)
	m.Data = []byte(body)
	for i := 0; i < len(tags); i += 2 {
		m.Header.Set(tags[i], tags[i+1])
	}
	reply, err := nc.RequestMsg(m, patience)
	if err != nil || !strings.Contains(string(reply.Data), `"seq"`) {
		s.t.Fatalf("push by tag: %v", err)
	}
}

// RMQ's RangeMergeMessage: a message is due a time range after the first of its kind; what arrives within the range is
// merged into it, and its time stays.
func TestRMQ_RangeMergeMessage(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{})
	s.start("a")
	in, nc := s.inbox(coreSubject+">"), s.connect("producer")
	started := time.Now()
	for range 10 { // no id: equal topic and body are one
		s.tag(nc, coreSubject+"price", "item 7", "Tarry-Delay", "1s", "Tarry-On-Duplicate", "keep")
	}
	s.tag(nc, coreSubject+"price", "item 8", "Tarry-Delay", "1s", "Tarry-On-Duplicate", "keep")
	in.bodies(t, 2)
	if last := in.snapshot()[1].at.Sub(started); last > 30*time.Second {
		t.Errorf("after %s", last)
	}
	// The range is over: the next of its kind is a message of its own.
	s.tag(nc, coreSubject+"price", "item 7", "Tarry-Delay", "100ms", "Tarry-On-Duplicate", "keep")
	in.bodies(t, 3)
}

// RMQ's FixedTimeMessage: due at a time; of repeated ones the last time counts.
func TestRMQ_FixedTimeMessage(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{})
	a := s.start("a")
	in, nc := s.inbox(coreSubject+">"), s.connect("producer")
	s.tag(nc, coreSubject+"close", "order 7", "Tarry-At", time.Now().Add(time.Hour).Format(time.RFC3339Nano),
		"Tarry-On-Duplicate", "replace", "Tarry-Id", "close-7")
	due := time.Now().Add(2 * time.Second)
	s.tag(nc, coreSubject+"close", "order 7, changed", "Tarry-At", due.Format(time.RFC3339Nano), "Tarry-On-Duplicate",
		"replace", "Tarry-Id", "close-7")
	if got := in.bodies(t, 1); got[0] != "order 7, changed" {
		t.Errorf("arrived: %q", got)
	}
	if at := in.snapshot()[0].at; at.Before(due) {
		t.Errorf("%s early", due.Sub(at))
	}
	if got := s.must(a, "GET", "/v1/messages/close-7", nil); !strings.Contains(got.raw, `"version":`) {
		t.Errorf("it is %s", got.raw)
	}
}

// RMQ's PriorityMessage: of what is due the higher priority leaves first, and of repeated ones the last priority
// counts.
func TestRMQ_PriorityMessage(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{})
	s.start("a", "TARRY_BUCKETS=1") // order is per bucket (P6)
	in, nc := s.inbox(coreSubject+">"), s.connect("producer")
	at := time.Now().Add(3 * time.Second).Truncate(time.Millisecond).Format(time.RFC3339Nano)
	for i, p := range []int{17, 250, 100, 20} {
		s.tag(nc, coreSubject+"shop", fmt.Sprint("shop ", i), "Tarry-At", at, "Tarry-Priority", fmt.Sprint(p),
			"Tarry-On-Duplicate", "replace", "Tarry-Key", "shops", "Tarry-Id", fmt.Sprint(i))
	}
	s.tag(nc, coreSubject+"shop", "shop 3", "Tarry-At", at, "Tarry-Priority", "255", "Tarry-On-Duplicate", "replace",
		"Tarry-Key", "shops", "Tarry-Id", "3")
	if got := fmt.Sprint(in.bodies(t, 4)); got != "[shop 3 shop 1 shop 2 shop 0]" {
		t.Errorf("order: %s", got)
	}
}

// A burst of changes is one delivery, after the burst or at the latest after max_wait.
func TestDebounce_WaitsForQuietButNotForEver(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{})
	s.start("a")
	in, nc := s.inbox(coreSubject+">"), s.connect("producer")
	started := time.Now()
	for i := range 40 {
		s.tag(nc, coreSubject+"search", fmt.Sprint(i), "Tarry-Delay", "1500ms", "Tarry-Max-Wait", "2s",
			"Tarry-On-Duplicate", "debounce", "Tarry-Id", "index")
		pause(t.Context(), 100*time.Millisecond)
	}
	var all []got
	lab.Eventually(t, patience, func() error {
		if all = in.snapshot(); len(all) == 0 || string(all[len(all)-1].Data) != "39" {
			return fmt.Errorf("%d came, the last push is not among them", len(all))
		}
		return nil
	})
	if first := all[0].at.Sub(started); first < 1900*time.Millisecond {
		t.Errorf("the first came after %s, want max_wait", first)
	}
	took := all[len(all)-1].at.Sub(started)
	if most := int(took/(1900*time.Millisecond)) + 1; len(all) < 2 || len(all) > most {
		t.Errorf("%d came in %s, want 2 to %d", len(all), took, most)
	}
}
