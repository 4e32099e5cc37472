package publish

import (
	"fmt"
	"testing"
	"time"
)

// CountsAsCore reports whether the Publisher takes the subject for one that no stream has.
func CountsAsCore(p *Publisher, subject string) bool { return p.hidden.isCore(subject, time.Now()) }

func TestHidden_BelievesAnswersForAWhile(t *testing.T) {
	t.Parallel()
	var h hidden
	now := time.Unix(1_800_000_000, 0)
	if h.route("a") != nil || h.isCore("a", now) {
		t.Error("it knows something")
	}
	h.foundCore("a", now)
	if !h.isCore("a", now.Add(coreLife-1)) || h.isCore("a", now.Add(coreLife)) {
		t.Error("a subject counts as core for a minute")
	}
	h.answered("a", "", now) // a refusal may lack the stream's name
	if to := h.route("a"); h.isCore("a", now) || to == nil || to.lane != "core:a" {
		t.Errorf("got %+v", to)
	}
	h.answered("a", "S", now)
	if to := h.route("a"); to == nil || to.stream != "S" || to.lane != "core:a" {
		t.Errorf("got %+v", to)
	}
	h.answered("a", "", now.Add(time.Minute))
	h.foundCore("a", now)
	h.silent("a", now.Add(time.Minute+heldLife))
	if to := h.route("a"); to == nil || to.stream != "S" || h.isCore("a", now) {
		t.Errorf("got %+v", to)
	}
	h.silent("a", now.Add(time.Minute+heldLife+1))
	if to := h.route("a"); to != nil {
		t.Errorf("after ten minutes of silence: %+v", to)
	}
	for subject, gone := range map[string]map[string]bool{"b": {"S": true}, "listed.b": {}} {
		h.answered(subject, "S", now)
		h.listed(newRoutes(map[string]string{"listed.>": "S"}), gone)
		if to := h.route(subject); to != nil {
			t.Errorf("%s: %+v", subject, to)
		}
	}
	h.answered("listed.c", "OTHER", now) // mapped away from where it is listed
	h.listed(newRoutes(map[string]string{"listed.>": "S"}), nil)
	if to := h.route("listed.c"); to == nil || to.stream != "OTHER" {
		t.Errorf("got %+v", to)
	}
	h.foundCore("d", now)
	h.noNews()
	if h.foundCore("e", now); h.isCore("d", now) || h.isCore("e", now) {
		t.Error("without news of streams a subject counts as core")
	}
}

func TestHidden_IsBounded(t *testing.T) {
	t.Parallel()
	var h hidden
	now := time.Unix(1_800_000_000, 0)
	for i := range 3*hiddenMax + 1 {
		h.answered(fmt.Sprintf("held.%d", i), "S", now)
		h.foundCore(fmt.Sprintf("core.%d", i), now)
	}
	if len(h.held) > hiddenMax || len(h.core) > hiddenMax || h.route(fmt.Sprintf("held.%d", 3*hiddenMax)) == nil {
		t.Errorf("%d and %d subjects", len(h.held), len(h.core))
	}
}

func TestGrace_FollowsTheRoundTrip(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ trip, timeout, want time.Duration }{
		{0, 2 * time.Second, 100 * time.Millisecond}, {20 * time.Millisecond, 2 * time.Second, 200 * time.Millisecond},
		{time.Second, 2 * time.Second, 500 * time.Millisecond}, {0, 200 * time.Millisecond, 50 * time.Millisecond},
	} {
		if got := grace(c.trip, c.timeout); got != c.want {
			t.Errorf("%+v: got %s", c, got)
		}
	}
}
