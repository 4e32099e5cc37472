package schedulertest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func (t *trial) pauses() []scheduler.Pause {
	t.Helper()
	list, _, err := t.tl.Pauses(t.Context())
	t.must("pauses", err)
	return list
}

// pause sends a pause twice, which must count once. It returns since when the pattern is paused.
func (t *trial) pause(p scheduler.Pause) (since message.Milli) {
	t.Helper()
	for i := range 2 {
		c, err := t.tl.Pause(t.Context(), p)
		t.must("pause", err)
		if c.Pattern != p.Pattern || c.By != p.By || c.Resumed || c.Number == 0 || i > 0 && c.At != since {
			t.Fatalf("asked for the %d. time %+v: %+v, before since %d", i+1, p, c, since)
		}
		since = c.At
	}
	return since
}

func (t *trial) resume(pattern string, want bool) (at message.Milli) {
	t.Helper()
	was, c, err := t.tl.Resume(t.Context(), pattern, Start)
	t.must("resume", err)
	if was != want || c.Pattern != pattern || !c.Resumed || c.Number == 0 {
		t.Fatalf("resume of %q: was paused: %t, want %t: %+v", pattern, was, want, c)
	}
	return c.At
}

func (t *trial) wantPauses(want ...scheduler.Pause) {
	t.Helper()
	if got := t.pauses(); !slices.Equal(got, want) {
		t.Fatalf("paused are %+v\nwant %+v", got, want)
	}
}

var pausePromises = []promise{
	{name: "what is paused stands until it is resumed, by pattern", check: func(t *trial) {
		t.wantPauses()
		b := scheduler.Pause{Pattern: "orders.>", By: "ann", At: Start}
		a := scheduler.Pause{Pattern: "orders.*.eu", By: "tarry:\"x\" \x00", At: Start + 1}
		t.pause(b)
		t.pause(a)
		t.wantPauses(a, b)
		t.resume("orders.>", true)
		t.resume("orders.>", false)
		t.resume("orders.*", false)
		t.wantPauses(a)
		t.resume(a.Pattern, true)
		t.wantPauses()
	}},
	{name: "who pauses again is the one who paused", check: func(t *trial) {
		p := scheduler.Pause{Pattern: ">", By: "ann", At: Start}
		t.pause(p)
		p.By, p.At = "bob", Start+5
		t.pause(p)
		t.wantPauses(p)
	}},
	{name: "pauses are bounded in number", check: func(t *trial) {
		for i := range scheduler.MaxPauses {
			t.pause(scheduler.Pause{Pattern: fmt.Sprintf("orders.%03d", i), At: Start})
		}
		more := scheduler.Pause{Pattern: "orders.more", At: Start + 1000}
		if _, err := t.tl.Pause(t.Context(), more); !errors.Is(err, scheduler.ErrTooManyPauses) {
			t.Fatalf("one more: %v", err)
		}
		t.pause(scheduler.Pause{Pattern: "orders.007", By: "ann", At: Start + 500}) // one that stands
		if got := t.pauses(); len(got) != scheduler.MaxPauses || got[7].By != "ann" {
			t.Fatalf("%d are paused, the eighth by %q", len(got), got[7].By)
		}
		t.resume("orders.050", true)
		t.pause(more)
		if got := t.pauses(); len(got) != scheduler.MaxPauses || got[len(got)-1] != more {
			t.Fatalf("%d are paused", len(got))
		}
	}},
	{name: "no two changes of pauses share a time, and the later one has the later", check: func(t *trial) {
		a, b := scheduler.Pause{Pattern: "a", By: "ann", At: Start},
			scheduler.Pause{Pattern: "b", By: "bob", At: Start - 1000}
		last := t.pause(a)
		if last != Start {
			t.Fatalf("the first stands since %d, want %d", last, Start)
		}
		b.At = t.pause(b) // by a clock that is behind
		at := []message.Milli{b.At, t.resume("a", true), t.resume("a", false)}
		a.At = t.pause(a)
		for _, next := range append(at, a.At) {
			if next <= last {
				t.Fatalf("after %d comes %d", last, next)
			}
			last = next
		}
		t.wantPauses(a, b)
		ahead := scheduler.Pause{Pattern: "c", At: last + 10_000}
		if since := t.pause(ahead); since != ahead.At {
			t.Fatalf("it stands since %d, want %d", since, ahead.At)
		}
	}},
	{name: "a pause leaves the timeline as it is: who claims goes by it", check: func(t *trial) {
		m := t.one(Message(1))
		t.pause(scheduler.Pause{Pattern: ">", At: Start})
		t.wantUIDs(t.claim(), []*message.Message{m})
	}},
}
