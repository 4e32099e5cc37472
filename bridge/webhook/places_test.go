package webhook

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The subjects of a target that hangs take half of the places, wait for these in turn, and hold up no other target.
func TestPlaces_LeaveSomeForEveryTarget(t *testing.T) {
	t.Parallel()
	targets := map[string]*target{"slow": {line: &line{}}, "fast": {line: &line{}}, "third": {line: &line{}}}
	var ran []string
	p := places{most: 8, least: 1, topics: map[string]*line{},
		of:  func(topic string) *target { return targets[strings.SplitN(topic, ".", 2)[0]] },
		run: func(topic string) { ran = append(ran, topic) }}
	begun := func(want ...string) {
		t.Helper()
		if !slices.Equal(ran, want) {
			t.Fatalf("begun %q, want %q", ran, want)
		}
		ran = nil
	}
	for i := range queuedMost + 10 {
		p.begin(fmt.Sprint("slow.", i))
	}
	begun("slow.0", "slow.1", "slow.2", "slow.3")
	p.begin("none.0")
	for i := range 3 {
		p.begin(fmt.Sprint("fast.", i))
	}
	begun("fast.0", "fast.1")
	p.begin("third.0")
	p.begin("third.1")
	begun("third.0")
	slow := targets["slow"].line
	if len(slow.queue) != queuedMost || int(slow.queued.Load()) != queuedMost {
		t.Fatalf("%d wait, %d counted", len(slow.queue), slow.queued.Load())
	}
	p.begin("slow.1") // heard of again while it is consumed: once more, behind those that wait
	p.begin("slow.4") // waits already
	for _, topic := range []string{"slow.0", "slow.2", "slow.1"} {
		p.end(topic)
	}
	begun("slow.4", "slow.5") // before, it had more than what is free
	if q := slow.queue; q[len(q)-1] != "slow.1" || slices.Contains(q, "slow.0") {
		t.Fatalf("last in line is %s", q[len(q)-1])
	}
	targets["slow"] = &target{line: slow} // other settings
	p.end("slow.3")
	begun("slow.6")
	delete(targets, "slow")
	p.end("slow.4")
	p.end("slow.5")
	p.end("slow.6")
	if begun(); len(slow.queue) > 0 || len(slow.runs) > 0 || p.taken != 3 || len(p.topics) != 5 {
		t.Fatalf("%d wait, %d run, %d places are taken, %d topics kept", len(slow.queue), len(slow.runs), p.taken,
			len(p.topics))
	}
}
