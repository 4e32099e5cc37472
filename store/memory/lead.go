package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Begin raises the bucket's term.
func (t *Timeline) Begin(ctx context.Context, n message.Bucket, term uint64) error {
	return t.under(ctx, n, term, func(*bucket) error { return nil })
}

// Sweep moves back to waiting what lower terms had claimed, and this term up to the claim with the number last.
func (t *Timeline) Sweep(ctx context.Context, n message.Bucket, term, last uint64, limit int,
	now message.Milli) (count int, err error) {
	err = t.under(ctx, n, term, func(b *bucket) error {
		var over []slot
		for _, s := range b.claimed {
			if uint64(s.rank) < term || s.entry.claim <= last {
				over = append(over, s)
			}
		}
		slices.SortFunc(over, slot.compare)
		over = over[:min(len(over), max(limit, 0))]
		count = len(over)
		for _, s := range over {
			e := s.entry
			if b.meetRival(e, e.message.Mark.Refusals, true, term, now) {
				continue
			}
			b.leave(e)
			b.wait(e, e.message.Score(),
				message.Mark{Uncertain: true, Refusals: e.message.Mark.Refusals, Changes: e.message.Mark.Changes + 1})
			b.note(record.Change{UID: e.uid, Version: e.version, State: message.StateWaiting, At: now, Term: term,
				Due:       e.message.Due,
				Uncertain: true, Refusals: e.message.Mark.Refusals, Kind: message.KindSwept,
				Reason: message.KindSwept.Words("", true)})
		}
		return nil
	})
	return count, err
}

// Claim moves due messages to in_flight.
func (t *Timeline) Claim(ctx context.Context, n message.Bucket,
	req scheduler.Claim) (claimed scheduler.Claimed, err error) {
	err = t.under(ctx, n, req.Term, func(b *bucket) error {
		if b.cert.Filling {
			return fmt.Errorf("bucket %d is being restored: %w", n, scheduler.ErrUncertified)
		}
		source := &b.due
		if req.Lane != "" {
			aside := b.lanes[req.Lane]
			if aside == nil {
				return nil
			}
			source = &aside.order
		}
		until, bytes := message.ScoreNow(req.Now), 0
		for len(claimed.Messages) < req.Limit && len(*source) > 0 {
			first := (*source)[0]
			e := first.entry
			bytes += e.message.Size()
			if first.rank > until || bytes > req.Bytes && len(claimed.Messages) > 0 {
				break
			}
			b.leave(e)
			e.state, e.message.Mark.Lane = message.StateInFlight, ""
			e.claim = req.Number
			b.enter(e, int64(req.Term))
			m := *e.message
			m.Claim, m.ClaimedAt = req.Number, req.Now
			m.Mark.Uncertain = m.Mark.Uncertain || b.doubts(&m)
			claimed.Messages = append(claimed.Messages, &m)
		}
		claimed.Head = head(*source)
		return nil
	})
	return claimed, err
}

// held reports whether a message, which may be nil, is in flight under a claim of a term.
func (b *bucket) held(e *entry, term, claim uint64) bool {
	return e != nil && e.state == message.StateInFlight && e.leased() == nil && e.claim == claim &&
		b.claimed[e.place].rank == int64(term)
}

// Finish ends claimed messages.
func (t *Timeline) Finish(ctx context.Context, n message.Bucket, term uint64, ends []scheduler.End,
	now message.Milli) error {
	return t.under(ctx, n, term, func(b *bucket) error {
		for i := range ends {
			end := &ends[i]
			e := b.entries[end.Message.UID]
			switch held := b.held(e, term, end.Message.Claim); {
			case e == nil:
			case held && end.Known():
				b.leave(e)
				e.message.Mark.Refusals = end.Message.Mark.Refusals
				b.end(e, end.State, end.Uncertain, cause{end.Kind, end.Other, end.Reason}, now)
				change := record.Ended(end)
				change.At, change.Term = now, term
				b.note(change)
			case held:
				b.refuse(e, end.State, end.Kind, now)
			}
		}
		return nil
	})
}

// Return puts claimed messages back to waiting.
func (t *Timeline) Return(ctx context.Context, n message.Bucket, term uint64, back []scheduler.Back,
	now message.Milli) error {
	return t.under(ctx, n, term, func(b *bucket) error {
		for i := range back {
			r := &back[i]
			e := b.entries[r.UID]
			if e == nil || !b.held(e, term, r.Claim) {
				continue
			}
			score, mark := r.Score, r.Mark
			if r.Keep {
				score, mark = e.message.Score(), e.message.Mark
			}
			if b.meetRival(e, e.message.Mark.Refusals, mark.Uncertain || b.doubts(e.message), term, now) {
				continue
			}
			b.leave(e)
			b.wait(e, score, mark)
			if r.Message != nil {
				change := record.Returned(r)
				change.At, change.Term = now, term
				b.note(change)
			}
		}
		return nil
	})
}

// Held lists what a holder has claimed. It scans every claim of the bucket, because it is called only after a reply was
// lost.
func (t *Timeline) Held(ctx context.Context, n message.Bucket, term uint64, after message.UID,
	limit int) (held []scheduler.Held, err error) {
	err = t.under(ctx, n, term, func(b *bucket) error {
		for _, s := range b.claimed {
			if s.rank == int64(term) && s.uid > after {
				held = append(held, scheduler.Held{UID: s.uid, Claim: s.entry.claim})
			}
		}
		return nil
	})
	slices.SortFunc(held, func(a, b scheduler.Held) int { return cmp.Compare(a.UID, b.UID) })
	return held[:min(len(held), max(limit, 0))], err
}

// Heads looks at every bucket. A bucket that is not certified yet does not hide the others.
func (t *Timeline) Heads(ctx context.Context) ([]scheduler.Head, error) {
	heads := make([]scheduler.Head, len(t.buckets))
	var first error
	silent := 0
	for n := range t.Buckets() {
		heads[n].Err = t.see(ctx, n, func(b *bucket) {
			heads[n] = scheduler.Head{Due: head(b.due), Waiting: len(b.due), Claimed: len(b.claimed), Term: b.term,
				Over: b.firstOver()}
		})
		if heads[n].Err != nil {
			silent++
			first = cmp.Or(first, heads[n].Err)
		}
	}
	if silent < len(heads) {
		return heads, nil
	}
	return heads, first
}

// refuse records a transition that is not in the table.
func (b *bucket) refuse(e *entry, to message.State, kind message.Kind, now message.Milli) {
	if b.refused == nil {
		b.refused = map[message.UID]scheduler.Refusal{}
	}
	if _, known := b.refused[e.uid]; known || len(b.refused) < scheduler.MaxRefusals {
		b.refused[e.uid] = scheduler.Refusal{UID: e.uid,
			Transition: message.Transition{From: e.state, To: to, Kind: kind}, At: now}
	}
}

// Refused lists the refused transitions by uid. It forgets those of messages that are gone or have changed state since.
func (t *Timeline) Refused(ctx context.Context, n message.Bucket) (all []scheduler.Refusal, err error) {
	err = t.see(ctx, n, func(b *bucket) {
		for _, uid := range slices.Sorted(maps.Keys(b.refused)) {
			r := b.refused[uid]
			if e := b.entries[uid]; e == nil || e.state != r.From {
				delete(b.refused, uid)
				continue
			}
			r.Bucket = n
			all = append(all, r)
		}
	})
	return all, err
}

// Lanes lists the lanes that hold messages, by name.
func (t *Timeline) Lanes(ctx context.Context, n message.Bucket) (lanes []scheduler.LaneCount, err error) {
	err = t.see(ctx, n, func(b *bucket) {
		for name, lane := range b.lanes {
			held := scheduler.Waiting{Oldest: head(lane.order)}
			held.Add(scheduler.Waiting{Oldest: head(lane.behind)})
			lanes = append(lanes, scheduler.LaneCount{Lane: name, Count: len(lane.order), Oldest: held.Oldest})
		}
	})
	slices.SortFunc(lanes, func(x, y scheduler.LaneCount) int { return cmp.Compare(x.Lane, y.Lane) })
	return lanes, err
}

// Trim forgets ends and tombstones past their time.
func (t *Timeline) Trim(ctx context.Context, n message.Bucket, term uint64, now message.Milli,
	limit int) (forgotten int, err error) {
	err = t.under(ctx, n, term, func(b *bucket) error {
		until := now.Add(-t.cfg.EndedKeep)
		if len(b.outbox) > 0 { // an end that the journal does not know yet is kept
			until = min(until, b.outbox[0].Changes[0].At.Add(-t.cfg.EndedKeep/2))
		}
		for forgotten < limit && len(b.ended) > 0 && b.ended[0].endedAt <= until {
			e := b.ended[0].entry
			b.forgot(e.endedAt)
			b.leave(e)
			delete(b.entries, e.uid)
			b.unname(e)
			forgotten++
		}
		b.graves.trim(now.Add(-t.cfg.TombstoneKeep), limit)
		return nil
	})
	return forgotten, err
}
