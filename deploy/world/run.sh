#!/usr/bin/env bash
# Runs go test on this package with a runtime whose choices are the seed's: which ready case a select takes, which of
# the timers of one instant fires first (in a bubble Go draws that), where the iteration of a map begins, and in which
# order contexts end. So a seed replays to the byte. Arguments are go test's, as in
#
#	TARRY_SEED=42 deploy/world/run.sh -run TestWorld_Keeps
#
# The files of the runtime are changed for this build alone (go help build, -overlay).
set -euo pipefail
cd "$(dirname "$0")"
root=$(go env GOROOT)/src
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

replaced=
# change FILE WHAT WITH changes a part of a file of the standard library.
change() {
  local file=$work/${1//\//_} text
  [ -e "$file" ] || cp "$root/$1" "$file"
  text=$(<"$file")
  [[ $text == *"$2"* ]] || { echo "go's $1 has no more \"$2\": see what has become of it" >&2; exit 1; }
  printf '%s\n' "${text/"$2"/"$3"}" >"$file"
  replaced="$replaced, \"$root/$1\": \"$file\""
}
change runtime/select.go 'cheaprandn(uint32(norder + 1))' 'pick(uint32(norder + 1))'
change runtime/time.go 't.rand = cheaprand()' 't.rand = pick(1<<32 - 1)'
# One number for all maps: what is made but once in a process may not change the draws that follow.
change runtime/rand.go $'func maps_rand() uint64 {\n' \
  $'func maps_rand() uint64 {\n if choices.seeded && getg().bubble != nil { return choices.first }\n'
# A goroutine that is taken off its processor, after 10 ms, comes back after others.
change runtime/proc.go 'forcePreemptNS = 10 * 1000 * 1000' 'forcePreemptNS = 1 << 60'
# A goroutine that has waited for a mutex for a millisecond takes it before others.
change internal/sync/mutex.go 'starvationThresholdNs = 1e6' 'starvationThresholdNs = 1 << 60'
# What is woken runs next, before what was to run next: also what a clock outside the bubble wakes.
change runtime/proc.go $'func runqput(pp *p, gp *g, next bool) {\n' \
  $'func runqput(pp *p, gp *g, next bool) {\n next = next && (gp.bubble != nil || !choices.seeded)\n'
# A select locks its channels, and starts their timers, in the order of addresses.
change runtime/select.go 'return uintptr(unsafe.Pointer(c))' 'return c.made'
change runtime/chan.go $'\tlock mutex\n' $'\tlock mutex\n made uintptr\n'
change runtime/chan.go 'c.elemsize = uint16(' 'c.made = atomic.Xadduintptr(&choices.channels, 1); c.elemsize = uint16('
# The map of a context's children is in the order of addresses.
change context/context.go 'children map[canceler]struct{} //' 'order []canceler; children map[canceler]struct{} //'
change context/context.go 'p.children[child] = struct{}{}' \
  'p.children[child], p.order = struct{}{}, append(p.order, child)'
change context/context.go 'for child := range c.children {' \
  'for _, child := range c.order { if _, is := c.children[child]; !is { continue }'
cat >>"$work/runtime_rand.go" <<'GO'

var choices struct {
	seeded       bool
	first, state uint64
	channels     uintptr // made so far
}

// SeedChoices lets a seed make the choices that the runtime draws, until it is called again.
func SeedChoices(seed uint64) {
	choices.seeded, choices.state = true, seed
	choices.first = choice()
}

// pick is cheaprandn, whose draws are the seed's in a bubble.
//
//go:nosplit
func pick(n uint32) uint32 {
	if !choices.seeded || getg().bubble == nil {
		return cheaprandn(n)
	}
	return uint32(choice() % uint64(n))
}

// choice returns the next number of the seed (SplitMix64).
//
//go:nosplit
func choice() uint64 {
	choices.state += 0x9e3779b97f4a7c15
	z := choices.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
GO
printf '{"Replace": {%s}}' "${replaced#, }${TARRY_REPLACE:+, $TARRY_REPLACE}" >"$work/overlay.json"
go test -vet=off -count=1 -overlay "$work/overlay.json" -tags seeded . "$@"
