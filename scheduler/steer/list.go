package steer

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Listed lists messages bucket by bucket, without headers and bodies: those that wait, as Browse orders them, those in
// flight and leased by uid, and the dead by when they died. A bound of the due time holds for the place of what waits,
// as for an operation on many, which selects the same messages.
//
// A page ends with limit messages, or once most were looked at: it may stay short, or empty, where few match. next is
// empty on the last page. A message that moves meanwhile may stand on two pages, or on none.
func (s *Scheduler) Listed(ctx context.Context, q scheduler.Listing, cursor string,
	limit, most int) (page []message.Info, next string, looked int, err error) {
	at, err := s.readSpot(cursor)
	if err != nil {
		return nil, "", 0, err
	}
	met := map[message.UID]bool{}
	for at.bucket < s.cfg.Timeline.Buckets() {
		if len(page) >= limit || looked >= most {
			return page, at.String(), looked, nil
		}
		// Look at no more messages than the page may still hold: the cursor skips everything that was looked at.
		found, after, err := s.part(ctx, &q, at, min(limit-len(page), browsePage))
		if err != nil {
			return page, at.String(), looked, err
		}
		looked += len(found)
		for i := range found {
			m := &found[i]
			if takes(&q.Selection, m) && (at.part == listWaiting || covers(&q.Selection, m.Due)) && !met[m.UID] {
				met[m.UID] = true
				page = append(page, *m)
			}
		}
		switch at.after = after; {
		case after != "":
		case at.part == listDead:
			at.bucket, at.part = at.bucket+1, listWaiting
		default:
			at.part++
		}
	}
	return page, "", looked, nil
}

// The parts of a bucket, in the order of a list.
const (
	listWaiting = iota
	listInFlight
	listLeased
	listDead
)

// spot is where a list continues.
type spot struct {
	bucket message.Bucket
	part   int
	after  string // the last that was looked at, in a form of the part's own
}

func (p spot) String() string { return fmt.Sprintf("%d:%d:%s", p.bucket, p.part, p.after) }

func (s *Scheduler) readSpot(cursor string) (p spot, err error) {
	if cursor == "" {
		return p, nil
	}
	f := strings.SplitN(cursor, ":", 3)
	if len(f) == 3 {
		bucket, bad := strconv.ParseUint(f[0], 10, 16)
		part, worse := strconv.ParseUint(f[1], 10, 8)
		p = spot{message.Bucket(bucket), int(part), f[2]}
		if bad == nil && worse == nil && p.bucket < s.cfg.Timeline.Buckets() && p.part <= listDead {
			return p, nil
		}
	}
	return p, scheduler.ErrBadCursor
}

// part returns the next messages of a part, and where it continues, if it does.
func (s *Scheduler) part(ctx context.Context, q *scheduler.Listing, at spot, limit int) (found []message.Info,
	after string, err error) {
	state := [...]message.State{message.StateWaiting, message.StateInFlight, message.StateInFlight, message.StateDead}
	if len(q.States) > 0 && !slices.Contains(q.States, state[at.part]) ||
		(q.Lane != "" || q.Pull) && at.part != listWaiting {
		return nil, "", nil
	}
	if at.part == listInFlight || at.part == listLeased {
		return s.outside(ctx, at, limit)
	}
	b := scheduler.Browse{Dead: at.part == listDead, Lane: q.Lane, Pull: q.Pull, After: at.after, Limit: limit}
	if b.From, b.To = q.From, q.To; b.Dead {
		b.From, b.To = q.DiedFrom, q.DiedTo
	}
	page, err := s.browse(ctx, at.bucket, b)
	return page.Messages, page.Next, err
}

// outside returns messages that are in flight or leased, by uid.
func (s *Scheduler) outside(ctx context.Context, at spot, limit int) (found []message.Info, after string, err error) {
	if err := s.cfg.Admit(); err != nil {
		return nil, "", err
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	var uids []message.UID
	if at.part == listInFlight {
		uids, err = s.cfg.Timeline.Claims(ctx, at.bucket, message.UID(at.after), limit+1)
	} else {
		uids, err = s.leased(ctx, at.bucket, message.UID(at.after))
	}
	if len(uids) > limit { // one more shows that there is a next page
		uids = uids[:limit]
		after = string(uids[limit-1])
	}
	for _, uid := range uids {
		var all []message.Info
		if err == nil {
			all, err = s.cfg.Timeline.Find(ctx, scheduler.Ref{UID: uid})
		}
		for i := range all {
			if all[i].Headers, all[i].Body = nil, nil; all[i].State == message.StateInFlight { // else it is met elsewhere
				found = append(found, all[i])
			}
		}
	}
	return found, after, scheduler.Looked(fmt.Sprintf("list what is in flight in bucket %d", at.bucket), err)
}

// leased returns the leased messages of a bucket, by uid, after the given one.
func (s *Scheduler) leased(ctx context.Context, bucket message.Bucket, after message.UID) (uids []message.UID,
	err error) {
	for cursor := ""; ; {
		var some []message.UID
		if some, cursor, err = s.cfg.Timeline.Leased(ctx, bucket, cursor, browsePage); err != nil {
			return nil, err
		}
		for _, uid := range some {
			if uid > after {
				uids = append(uids, uid)
			}
		}
		if cursor == "" {
			slices.Sort(uids)
			return slices.Compact(uids), nil
		}
	}
}
