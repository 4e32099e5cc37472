package load

import (
	"slices"
	"time"
)

// Lateness is a sorted list of how late messages came.
type Lateness []time.Duration

func newLateness(unsorted []time.Duration) Lateness {
	l := slices.Clone(unsorted)
	slices.Sort(l)
	return l
}

// At is the least value that the given share of all messages does not exceed: At(0) is the least, At(1) the greatest.
func (l Lateness) At(share float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	rank := int(share * float64(len(l)))
	if float64(rank) < share*float64(len(l)) {
		rank++
	}
	return l[min(max(rank-1, 0), len(l)-1)]
}
