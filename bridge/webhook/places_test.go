package webhook

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The subjects of a target that hangs take its own places, wait for these in turn, and hold up no other target.
func TestPlaces_AreEachTargetsOwn(t *testing.T) {
	t.Parallel()
	targets := map[string]*target{"slow": {}, "fast": {}}
	var ran []string
	p := places{share: func() int { return 3 }, topics: map[string]*place{},
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
	begun("slow.0", "slow.1", "slow.2")
	p.begin("fast.0")
	p.begin("none.0")
	begun("fast.0")
	if slow := targets["slow"]; len(slow.queue) != queuedMost || int(slow.queued.Load()) != queuedMost {
		t.Fatalf("%d wait, %d counted", len(slow.queue), slow.queued.Load())
	}
	p.begin("slow.1") // heard of again while it is consumed: once more, behind those that wait
	p.begin("slow.3") // waits already
	p.end("slow.1")
	begun("slow.3")
	p.end("slow.0")
	begun("slow.4")
	if q := targets["slow"].queue; q[len(q)-1] != "slow.1" || slices.Contains(q, "slow.0") {
		t.Fatalf("last in line is %s", q[len(q)-1])
	}
	targets["slow"] = &target{} // other settings: those that wait go to the new target
	p.end("slow.2")
	if begun("slow.5", "slow.6", "slow.7"); len(targets["slow"].queue) == 0 {
		t.Fatal("nobody waits for the new target")
	}
	p.end("fast.0")
	begun()
	if len(p.topics) > queuedMost+10 {
		t.Fatalf("%d topics are kept", len(p.topics))
	}
}
