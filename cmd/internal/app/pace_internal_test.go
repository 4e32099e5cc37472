package app

import (
	"maps"
	"slices"
	"testing"
)

// Of what another instance tells, all that can be compared is kept, and only what is newer. One that counts otherwise
// is told to be missing, and not left out of a sum that seems whole.
func TestPace_LearnsWhatItCanCompare(t *testing.T) {
	t.Parallel()
	bounds, others := []float64{1, 2}, []float64{1, 3}
	p := pace{own: counted{counter: counter{"own", 1}, Bounds: bounds}}
	err := p.learn([]counted{{counter{"later version", 1}, 5, nil, others}, {counter{"own", 1}, 9, nil, bounds},
		{counter{"b", 1}, 5, nil, bounds}, {counter{"b", 4}, 6, nil, bounds}})
	if err == nil {
		t.Error("what cannot be compared is not missing")
	}
	if err := p.learn([]counted{{counter{"b", 1}, 4, nil, bounds}, {counter{"b", 4}, 7, nil, bounds}}); err != nil {
		t.Error(err)
	}
	got := slices.SortedFunc(maps.Values(p.heard), byUntil)
	if len(got) != 2 || got[0].counter != (counter{"b", 1}) || got[0].Until != 5 || got[1].Until != 7 {
		t.Errorf("%+v", got)
	}
}

func TestTally_LateIsAsPrometheusSays(t *testing.T) {
	t.Parallel()
	bounds := []float64{.001, .002, 1, 10}
	for name, c := range map[string]struct {
		lateness []uint64
		late     int
		p50, p99 float64
	}{
		"none":                    {nil, 0, 0, 0},
		"half and half":           {[]uint64{50, 50, 0, 0, 0}, 0, 1, 2},
		"all in one":              {[]uint64{0, 100, 0, 0, 0}, 0, 1.5, 2},
		"a second is not late":    {[]uint64{0, 0, 1, 0, 0}, 0, 501, 990},
		"one of two":              {[]uint64{1, 0, 0, 1, 0}, 1, 1, 9820},
		"later than all bounds":   {[]uint64{0, 0, 0, 0, 7}, 7, 10000, 10000},
		"of a daemon without any": {[]uint64{0, 0, 0, 0, 0}, 0, 0, 0},
	} {
		tally := tally{Lateness: c.lateness}
		if n, p50, p99 := tally.late(bounds); n != c.late || p50 != c.p50 || p99 != c.p99 {
			t.Errorf("%s: %d late, half within %v ms, 99 of 100 within %v", name, n, p50, p99)
		}
	}
}
