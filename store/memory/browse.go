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
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Browse returns a page of waiting or dead messages. A heap has no order to page through, so each page scans every
// rank; it keeps no more than the page.
func (t *Timeline) Browse(ctx context.Context, n message.Bucket,
	q scheduler.Browse) (page scheduler.Browsed, err error) {
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
			to = message.ScoreNow(q.To)
		}
	}
	err = t.see(ctx, n, func(b *bucket) {
		names := []message.Lane{""}
		switch {
		case q.Lane != "" && b.lanes[q.Lane] == nil:
			return
		case q.Lane != "":
			names[0] = q.Lane
		case q.Pull:
			names[0] = pullLane
		case !q.Dead:
			names = append(names, slices.Sorted(maps.Keys(b.lanes))...)
			names = append(names, pullLane)
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
					return
				}
				page.Messages = append(page.Messages, b.brief(s.entry))
				last.lane, last.rank, last.uid = name, s.rank, s.uid
			}
		}
	})
	return page, err
}

// pullLane stands, behind every lane, for the messages that consumers pull.
const pullLane message.Lane = "\xff"

// ordered returns the order that part of a browse walks.
func (b *bucket) ordered(dead bool, lane message.Lane) order {
	switch {
	case dead:
		return b.dead
	case lane == "":
		return b.due
	case lane == pullLane:
		return b.waitingForPull()
	}
	return b.lanes[lane].order
}

// lowest returns the first n entries after a place, between two ranks, in order. It discards the higher half of what it
// gathered whenever it holds twice as many.
func (o order) lowest(after place, from, to int64, n int) (found []slot) {
	bound := to
	for _, s := range o {
		if s.rank < from || s.rank > bound || s.rank < after.rank || s.rank == after.rank && s.uid <= after.uid {
			continue
		}
		if found = append(found, s); len(found) >= 2*n {
			slices.SortFunc(found, slot.compare)
			found = found[:n]
			bound = found[n-1].rank
		}
	}
	slices.SortFunc(found, slot.compare)
	return found[:min(len(found), n)]
}

// place is the position at which a page ended.
type place struct {
	dead bool
	lane message.Lane
	rank int64
	uid  message.UID
}

const (
	placeWaiting = 'w'
	placeDead    = 'd'
	placeLen     = 1 + 8 + message.UIDLen
)

// String returns the place as a cursor: the kind of list, rank, uid and lane.
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

// readPlace parses a cursor of the given kind.
func readPlace(s string, dead bool) (p place, err error) {
	if s == "" {
		return place{}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil && len(b) >= placeLen && (b[0] == placeDead) == dead && (dead || b[0] == placeWaiting) {
		p = place{dead: dead, rank: int64(binary.BigEndian.Uint64(b[1:])), uid: message.UID(b[9:placeLen]),
			lane: message.Lane(b[placeLen:])}
		if message.IsUID(string(p.uid)) && !(dead && p.lane != "") {
			return p, nil
		}
	}
	return place{}, fmt.Errorf("%w: %.80q", scheduler.ErrBadCursor, s)
}
