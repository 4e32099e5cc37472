package memory

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
)

// Browse looks at a page of what waits, or of what is dead. A heap has no order
// to page through, so each page looks at every rank there; it keeps no more than
// the page.
func (t *Timeline) Browse(ctx context.Context, n int, q scheduler.Browse) (page scheduler.Browsed, err error) {
	if q.Limit < 1 {
		return page, fmt.Errorf("browse: a limit of %d", q.Limit)
	}
	after, err := readPlace(q.After, q.Dead)
	if err != nil {
		return page, fmt.Errorf("browse: %w", err)
	}
	from, to := int64(q.From), int64(math.MaxInt64)
	if q.To > 0 {
		to = int64(q.To)
	}
	if !q.Dead {
		from <<= 8
		if q.To > 0 {
			to = scheduler.ScoreNow(q.To)
		}
	}
	err = t.in(ctx, n, func(b *bucket) error {
		names := []string{""}
		if !q.Dead {
			names = append(names, slices.Sorted(maps.Keys(b.lanes))...)
		}
		last := place{dead: q.Dead}
		for _, name := range names {
			if name < after.lane {
				continue
			}
			start := place{rank: math.MinInt64}
			if name == after.lane && q.After != "" {
				start = after
			}
			found := b.ordered(q.Dead, name).lowest(start, from, to, q.Limit-len(page.Messages)+1)
			for _, s := range found {
				if len(page.Messages) == q.Limit {
					page.Next = last.String()
					return nil
				}
				page.Messages = append(page.Messages, b.brief(s.entry))
				last.lane, last.rank, last.uid = name, s.rank, s.uid
			}
		}
		return nil
	})
	return page, err
}

// ordered is the order that a part of a browse goes by.
func (b *bucket) ordered(dead bool, lane string) order {
	switch {
	case dead:
		return b.dead
	case lane == "":
		return b.due
	}
	return b.lanes[lane].order
}

// lowest are the first n entries after a place, within two ranks, in order. The
// higher half of what was gathered goes whenever twice as many are there.
func (o order) lowest(after place, from, to int64, n int) (found []slot) {
	compare := func(a, b slot) int {
		switch {
		case a.before(b):
			return -1
		case b.before(a):
			return 1
		}
		return 0
	}
	bound := to
	for _, s := range o {
		if s.rank < from || s.rank > bound || s.rank < after.rank || s.rank == after.rank && s.uid <= after.uid {
			continue
		}
		if found = append(found, s); len(found) >= 2*n {
			slices.SortFunc(found, compare)
			found = found[:n]
			bound = found[n-1].rank
		}
	}
	slices.SortFunc(found, compare)
	return found[:min(len(found), n)]
}

// place is where a page ended.
type place struct {
	dead bool
	lane string
	rank int64
	uid  scheduler.UID
}

const (
	placeWaiting = 'w'
	placeDead    = 'd'
	placeLen     = 1 + 8 + scheduler.UIDLen
)

// String is the place as a cursor: what it is of, rank, uid, lane.
func (p place) String() string {
	kind := byte(placeWaiting)
	if p.dead {
		kind = placeDead
	}
	b := append(make([]byte, 0, placeLen+len(p.lane)), kind)
	b = binary.BigEndian.AppendUint64(b, uint64(p.rank))
	b = append(b, p.uid...)
	return base64.RawURLEncoding.EncodeToString(append(b, p.lane...))
}

// readPlace reads a cursor of the kind that is asked for.
func readPlace(s string, dead bool) (p place, err error) {
	if s == "" {
		return place{}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil && len(b) >= placeLen && (b[0] == placeDead) == dead && (dead || b[0] == placeWaiting) {
		p = place{dead: dead, rank: int64(binary.BigEndian.Uint64(b[1:])), uid: scheduler.UID(b[9:placeLen]),
			lane: string(b[placeLen:])}
		if scheduler.IsUID(string(p.uid)) && !(dead && p.lane != "") {
			return p, nil
		}
	}
	return place{}, fmt.Errorf("%w: %.80q", scheduler.ErrBadCursor, s)
}
