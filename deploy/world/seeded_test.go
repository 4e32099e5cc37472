//go:build seeded

package world_test

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/cryptotest"
)

// replays: a seed makes the same run each time.
const replays = true

// choose lets the seed make all choices; deploy/world/run.sh has the runtime obey.
func choose(t *testing.T, seed uint64) {
	before := debug.SetGCPercent(-1) // a collection takes goroutines off their processor
	t.Cleanup(func() {
		debug.SetGCPercent(before)
		runtime.GC()
	})
	cryptotest.SetGlobalRandom(t, seed)
	runtime.GC()
	runtime.SeedChoices(seed)
}

// A seed replays to the byte, so that what it found can be looked at again, unless a nats-server runs in its world.
func TestWorld_Replays(t *testing.T) {
	alone(t)
	for seed := uint64(1); seed <= 20; seed++ {
		first, second := live(t, seed, true), live(t, seed, true)
		if first.bus.line == second.bus.line || first.broker != nil {
			continue
		}
		for i, step := range first.bus.trace {
			if i >= len(second.bus.trace) || second.bus.trace[i] != step {
				context := func(w *world) string {
					return strings.Join(w.bus.trace[max(i-5, 0):min(i+1, len(w.bus.trace))], "\n")
				}
				t.Errorf("seed %d, step %d:\n%s\nand then\n%s", seed, i, context(first), context(second))
				break
			}
		}
	}
}
