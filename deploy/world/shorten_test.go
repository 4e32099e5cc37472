package world_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// decision is something that the seed has users or faults do.
type decision struct {
	name, what string
	at         time.Time
}

// decided notes a decision, and reports whether it is carried out. One that is not has been drawn all the same, so
// those that follow stay as they are.
func (w *world) decided(name, what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.decisions = append(w.decisions, decision{name, what, time.Now()})
	return w.only == nil || slices.Contains(w.only, name)
}

// only returns the decisions that TARRY_ONLY names, separated by commas; nil are all.
func only() []string {
	if names, some := os.LookupEnv("TARRY_ONLY"); some {
		return strings.Split(names, ",")
	}
	return nil
}

// shortest bounds the runs that shorten makes: about half a minute.
const shortest = 250

// shorten leaves out decisions for as long as a world breaks the same promise without them, as ddmin does (Zeller and
// Hildebrandt, Simplifying and isolating failure-inducing input, 2002), and tells of those that are left.
func (w *world) shorten() string {
	runs := 0
	breaks := func(names []string) string {
		runs++
		run := exec.Command(os.Args[0], "-test.run=^TestWorld_KeepsItsPromises$", "-test.timeout=1m")
		run.Env = append(os.Environ(), fmt.Sprintf("TARRY_SEED=%d", w.seed), "TARRY_ONLY="+strings.Join(names, ","),
			"TARRY_HISTORY=", "TARRY_TRACE=")
		out, _ := run.CombinedOutput()
		return regexp.MustCompile(`seed \d+: ([A-Z]\d [a-z ]+|[a-z]+ [a-z]+)`).FindString(string(out))
	}
	var left []string
	for _, d := range w.decisions {
		left = append(left, d.name)
	}
	broken := breaks(left)
	if broken == "" {
		return "the same seed does not fail again, so nothing is shortened"
	}
	for parts := 2; len(left) > 1 && parts <= len(left) && runs < shortest; {
		size, found := (len(left)+parts-1)/parts, false
		for from := 0; from < len(left) && runs < shortest; from += size {
			rest := slices.Delete(slices.Clone(left), from, min(from+size, len(left)))
			if found = breaks(rest) == broken; found {
				left, parts = rest, max(parts-1, 2)
				break
			}
		}
		if !found {
			if size == 1 {
				break
			}
			parts = min(2*parts, len(left))
		}
	}
	tell := fmt.Sprintf("after %d runs %d of %d decisions are left:\n", runs, len(left), len(w.decisions))
	for _, d := range w.decisions {
		if slices.Contains(left, d.name) {
			tell += fmt.Sprintf("  %s %s: %s\n", d.at.UTC().Format("15:04:05.000"), d.name, d.what)
		}
	}
	return tell + fmt.Sprintf("again: TARRY_SEED=%d TARRY_ONLY='%s' deploy/world/run.sh -run TestWorld_Keeps", w.seed,
		strings.Join(left, ","))
}
