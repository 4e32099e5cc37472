//go:build seeded

package world_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/cryptotest"
)

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

// A seed replays to the byte, so that what it found can be looked at again. About one in a hundred does not, for a
// reason that is not known yet; so one of these may fail to.
func TestWorld_Replays(t *testing.T) {
	alone(t)
	differ := ""
	for seed := uint64(1); seed <= 20; seed++ {
		first, second := live(t, seed, true), live(t, seed, true)
		if first.bus.line == second.bus.line {
			continue
		}
		differs := ""
		for i, step := range first.bus.trace {
			if i >= len(second.bus.trace) || second.bus.trace[i] != step {
				context := func(w *world) string {
					return strings.Join(w.bus.trace[max(i-5, 0):min(i+1, len(w.bus.trace))], "\n")
				}
				differs = fmt.Sprintf("seed %d, step %d:\n%s\nand then\n%s", seed, i, context(first), context(second))
				break
			}
		}
		if t.Log(differs); differ != "" {
			t.Fatal("two of 20 seeds do not replay")
		}
		differ = differs
	}
}
