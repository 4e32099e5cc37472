package memory

import (
	"cmp"
	"slices"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// order is a binary heap of entries, lowest rank first and, among equal ranks, lowest uid first. An entry knows its
// place, so it can be removed from anywhere. The rank is stored beside the entry, so that most comparisons stay within
// the heap.
type order []slot

type slot struct {
	rank int64
	*entry
}

func (s slot) before(other slot) bool {
	return s.rank < other.rank || s.rank == other.rank && s.uid < other.uid
}

func (s slot) compare(other slot) int {
	return cmp.Or(cmp.Compare(s.rank, other.rank), cmp.Compare(s.uid, other.uid))
}

// push adds an entry that is in no order.
func (o *order) push(e *entry, rank int64) {
	*o = append(*o, slot{rank, e})
	o.up(len(*o) - 1)
}

// remove removes an entry that is in o.
func (o *order) remove(e *entry) {
	h := *o
	i, last := e.place, len(h)-1
	h[i] = h[last]
	h[i].place = i
	h[last] = slot{}
	*o = h[:last]
	if i < last {
		o.down(i)
		o.up(i)
	}
	if c := cap(h); c > 1024 && last < c/4 {
		*o = append(make(order, 0, c/2), h[:last]...) // release the memory that a burst took
	}
}

// upTo returns how many entries have at most the given rank, counting up to limit, and the lowest rank above it, or 0.
func (o order) upTo(rank int64, limit int) (n int, next int64) {
	if limit > 0 {
		next = o.each(rank, func(slot) bool { n++; return n < limit })
	}
	return n, next
}

// each visits the entries of at most the given rank, in no order, until visit returns false. It returns the lowest rank
// above, or 0 if there is none.
func (o order) each(rank int64, visit func(s slot) bool) (next int64) {
	for under := []int{0}; len(under) > 0; {
		i := under[len(under)-1]
		under = under[:len(under)-1]
		switch { // the children of an entry rank no lower
		case i >= len(o):
		case o[i].rank > rank:
			if next == 0 || o[i].rank < next {
				next = o[i].rank
			}
		case !visit(o[i]):
			return next
		default:
			under = append(under, 2*i+1, 2*i+2)
		}
	}
	return next
}

// least returns up to limit entries with at most the given rank, lowest first.
func (o order) least(rank int64, limit int) (found []slot) {
	// The candidates for the next are the children of those found, and no others.
	for next := []int{0}; len(next) > 0 && len(found) < limit; {
		best := -1
		for at, i := range next {
			if i < len(o) && o[i].rank <= rank && (best < 0 || o[i].before(o[next[best]])) {
				best = at
			}
		}
		if best < 0 {
			break
		}
		i := next[best]
		found = append(found, o[i])
		next[best] = 2*i + 1
		next = append(next, 2*i+2)
	}
	return found
}

// after returns up to limit uids that sort after the given one.
func (o order) after(uid message.UID, limit int) (uids []message.UID) {
	for _, s := range o {
		if s.uid > uid {
			uids = append(uids, s.uid)
		}
	}
	slices.Sort(uids)
	return uids[:min(len(uids), max(limit, 0))]
}

func (o *order) up(i int) {
	h := *o
	s := h[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !s.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		h[i].place = i
		i = parent
	}
	h[i] = s
	s.place = i
}

func (o *order) down(i int) {
	h := *o
	s := h[i]
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if right := child + 1; right < len(h) && h[right].before(h[child]) {
			child = right
		}
		if !h[child].before(s) {
			break
		}
		h[i] = h[child]
		h[i].place = i
		i = child
	}
	h[i] = s
	s.place = i
}
