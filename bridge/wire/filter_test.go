package wire_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// filterPairs are what servers and settings name beside each other.
var filterPairs = []struct {
	whole, part     string
	covers, overlap bool
}{
	{">", "a.b", true, true}, {"a.>", "a", false, false}, {"a.>", "a.b.c", true, true}, {"a.>", "a.>", true, true},
	{"a.*", "a.>", false, true},
	{"a.*", "a.b", true, true}, {"a.b", "a.*", false, true}, {"a.b", "a.b", true, true}, {"a.b", "a.c", false, false},
	{"*.b", "a.>", false, true},
	{"a.b", "a.b.c", false, false}, {"a.*.c", "a.b", false, false}, {"delayed.>", "delayed.eu.>", true, true},
	{"delayed.>", "delayedx.>", false, false},
	{"*", "delayed.>", false, false}, {">", "delayed.>", true, true}, {"a.*.c", "a.b.*", false, true},
	{"a.*.c", "a.b.d", false, false},
}

func TestFilters_CoverAndOverlap(t *testing.T) {
	t.Parallel()
	for _, c := range filterPairs {
		if got := wire.Covers(c.whole, c.part); got != c.covers {
			t.Errorf("%s covers %s: %v", c.whole, c.part, got)
		}
		if got := wire.Overlap(c.whole, c.part); got != c.overlap || wire.Overlap(c.part, c.whole) != got {
			t.Errorf("%s overlaps %s: %v", c.whole, c.part, got)
		}
	}
}

// A filter covers another exactly if it matches every subject that the other does; two overlap exactly if they have one
// in common.
func TestFilters_AgreeWithWhatMatches(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	filter := func() string {
		tokens := make([]string, 1+random.IntN(3))
		for i := range tokens {
			tokens[i] = []string{"a", "b", "*"}[random.IntN(3)]
		}
		if random.IntN(3) == 0 {
			if tokens = append(tokens, ">"); random.IntN(4) == 0 {
				tokens = tokens[len(tokens)-1:]
			}
		}
		return strings.Join(tokens, ".")
	}
	// Three letters and one token more than any filter distinguish all of them.
	var all []string
	for level := []string{"a", "b", "c"}; len(level[0]) < 9; {
		all = append(all, level...)
		var next []string
		for _, s := range level {
			next = append(next, s+".a", s+".b", s+".c")
		}
		level = next
	}
	for range 3000 {
		p, q := filter(), filter()
		covers, overlap := true, false
		for _, s := range all {
			inP, inQ := scheduler.Matches(p, s), scheduler.Matches(q, s)
			if wire.Covers(p, s) != inP {
				t.Fatalf("%s covers the subject %s: %v", p, s, !inP)
			}
			covers = covers && (inP || !inQ)
			overlap = overlap || inP && inQ
		}
		if got := wire.Covers(p, q); got != covers {
			t.Fatalf("%s covers %s: %v", p, q, got)
		}
		if got := wire.Overlap(p, q); got != overlap || wire.Overlap(q, p) != got {
			t.Fatalf("%s overlaps %s: %v", p, q, got)
		}
	}
}
