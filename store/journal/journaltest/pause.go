package journaltest

import (
	"errors"
	"slices"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func paused(pattern, by string, at message.Milli) scheduler.PauseChange {
	return scheduler.PauseChange{Pause: scheduler.Pause{Pattern: pattern, By: by, At: at}}
}

func resumed(pattern string, at message.Milli) scheduler.PauseChange {
	return scheduler.PauseChange{Pause: scheduler.Pause{Pattern: pattern, At: at}, Resumed: true}
}

// pause writes every change twice: it counts once.
func (t *trial) pause(changes ...scheduler.PauseChange) {
	t.Helper()
	for _, c := range changes {
		for range 2 {
			t.must("write a pause", t.j.WritePause(t.Context(), c))
		}
	}
}

func (t *trial) wantPauses(want ...scheduler.PauseChange) {
	t.Helper()
	got, err := t.j.Pauses(t.Context())
	if t.must("pauses", err); !slices.Equal(got, want) {
		t.Fatalf("got %+v\nwant %+v", got, want)
	}
}

var pausePromises = []promise{
	{"the last change of each pattern's pause is kept, by time", func(t *trial) {
		t.wantPauses()
		t.pause(paused("orders.>", "ann", start+2), paused("mail.*.eu", `tarry:"x" ü`, start+1))
		t.wantPauses(paused("mail.*.eu", `tarry:"x" ü`, start+1), paused("orders.>", "ann", start+2))
		t.pause(resumed("mail.*.eu", start+3))
		t.wantPauses(paused("orders.>", "ann", start+2), resumed("mail.*.eu", start+3))
		t.pause(paused("mail.*.eu", "bob", start+4), resumed("never.paused", start+5))
		t.wantPauses(paused("orders.>", "ann", start+2), paused("mail.*.eu", "bob", start+4),
			resumed("never.paused", start+5))
	}},
	{"an earlier change that comes late changes nothing", func(t *trial) {
		t.pause(resumed("a", start+5), paused("a", "ann", start+4), paused("b", "ann", start+5), resumed("b", start+4))
		t.wantPauses(resumed("a", start+5), paused("b", "ann", start+5))
	}},
	{"a change under a certification that is over is refused", func(t *trial) {
		t.fence(0, 5)
		t.fence(1, 9) // of another bucket
		for i, number := range []uint64{5, 6, 0} {
			c := paused("a", "ann", start+message.Milli(i))
			c.Number = number
			t.must("write a pause", t.j.WritePause(t.Context(), c))
			c.Number = 4
			c.At, c.Resumed = c.At+100, true
			if err := t.j.WritePause(t.Context(), c); !errors.Is(err, scheduler.ErrFenced) {
				t.Fatalf("under 4: %v", err)
			}
		}
		t.wantPauses(paused("a", "ann", start+2))
	}},
	{"patterns are distinguished exactly", func(t *trial) {
		long := strings.Repeat("é", 127)
		all := []scheduler.PauseChange{paused(long, "", start), paused("A", "", start+1), paused("a", "", start+2),
			paused("ä", "", start+3), paused("*", "", start+4)}
		t.pause(all...)
		t.wantPauses(all...)
	}},
	{"what was resumed is forgotten with what ended; what is paused never is", func(t *trial) {
		t.pause(paused("a", "ann", start), resumed("b", start+1), resumed("c", start+3))
		t.prune(start+2, 100, 0)
		t.wantPauses(paused("a", "ann", start), resumed("c", start+3))
		t.prune(start+1000, 100, 0)
		t.wantPauses(paused("a", "ann", start))
	}},
}
