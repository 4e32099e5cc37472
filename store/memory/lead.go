package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
)

// Begin raises the bucket's term.
func (t *Timeline) Begin(ctx context.Context, n int, term uint64) error {
	return t.under(ctx, n, term, func(*bucket) error { return nil })
}

// Sweep moves what lower terms had claimed back to waiting.
func (t *Timeline) Sweep(ctx context.Context, n int, term uint64, limit int, now scheduler.Milli) (int, error) {
	return t.sweep(ctx, n, term, term, limit, now)
}

// swept is the reason of a message whose leader is gone.
const swept = "the leader that had claimed it is gone; it may have been delivered"

// sweep gives back the claims of terms below a bound.
func (t *Timeline) sweep(ctx context.Context, n int, term, below uint64, limit int, now scheduler.Milli) (count int, err error) {
	err = t.under(ctx, n, term, func(b *bucket) error {
		for count < limit && len(b.claimed) > 0 && uint64(b.claimed[0].rank) < below {
			e := b.claimed[0].entry
			count++
			if b.meetRival(e, true, term, now) {
				continue
			}
			b.leave(e)
			b.wait(e, e.message.Score(), scheduler.Mark{Uncertain: true, Refusals: e.message.Mark.Refusals, Changes: e.message.Mark.Changes + 1})
			b.note(scheduler.Change{UID: e.uid, Version: e.version, State: scheduler.StateWaiting, At: now, Term: term, Due: e.message.Due,
				Uncertain: true, Refusals: e.message.Mark.Refusals, Reason: swept})
		}
		return nil
	})
	return count, err
}

// Claim moves due messages to in_flight.
func (t *Timeline) Claim(ctx context.Context, n int, req scheduler.Claim) (claimed scheduler.Claimed, err error) {
	err = t.under(ctx, n, req.Term, func(b *bucket) error {
		if b.cert.Filling {
			return fmt.Errorf("bucket %d is being restored: %w", n, scheduler.ErrUncertified)
		}
		source := &b.due
		if req.Lane != "" {
			if source = b.lanes[req.Lane]; source == nil {
				return nil
			}
		}
		until, bytes := scheduler.ScoreNow(req.Now), 0
		for len(claimed.Messages) < req.Limit && len(*source) > 0 {
			first := (*source)[0]
			e := first.entry
			bytes += weight(e.message)
			if first.rank > until || bytes > req.Bytes && len(claimed.Messages) > 0 {
				break
			}
			b.leave(e)
			e.state, e.message.Mark.Lane = scheduler.StateInFlight, ""
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

// weight is what a message counts toward a claim's bytes.
func weight(m *scheduler.Message) int {
	n := len(m.Body)
	for _, h := range m.Headers {
		n += len(h.Name) + len(h.Value)
	}
	return n
}

// claimedEntry is the claimed message with this uid, nil when there is none.
func (b *bucket) claimedEntry(uid scheduler.UID) *entry {
	if e := b.entries[uid]; e != nil && e.state == scheduler.StateInFlight {
		return e
	}
	return nil
}

// Finish ends claimed messages.
func (t *Timeline) Finish(ctx context.Context, n int, term uint64, ends []scheduler.End, now scheduler.Milli) error {
	for i := range ends {
		if end := &ends[i]; !end.State.Ended() || end.State == scheduler.StateCanceled {
			return fmt.Errorf("finish %s: no claim ends as %s", end.Message.UID, end.State)
		}
	}
	return t.under(ctx, n, term, func(b *bucket) error {
		for i := range ends {
			end := &ends[i]
			if e := b.claimedEntry(end.Message.UID); e != nil {
				b.leave(e)
				b.end(e, end.State, end.Uncertain, end.Reason, now)
				change := end.Change()
				change.At, change.Term = now, term
				b.note(change)
			}
		}
		return nil
	})
}

// Return gives claimed messages back to waiting.
func (t *Timeline) Return(ctx context.Context, n int, term uint64, back []scheduler.Back, now scheduler.Milli) error {
	return t.under(ctx, n, term, func(b *bucket) error {
		for i := range back {
			r := &back[i]
			e := b.claimedEntry(r.UID)
			if e == nil || e.claim != r.Claim || b.claimed[e.place].rank != int64(term) {
				continue
			}
			score, mark := r.Score, r.Mark
			if r.Keep {
				score, mark = e.message.Score(), e.message.Mark
			}
			if b.meetRival(e, mark.Uncertain || b.doubts(e.message), term, now) {
				continue
			}
			b.leave(e)
			b.wait(e, score, mark)
			if r.Message != nil {
				change := r.Change()
				change.At, change.Term = now, term
				b.note(change)
			}
		}
		return nil
	})
}

// Held lists what this term has claimed. It looks at every claim of the
// bucket: it is asked only when a reply was lost.
func (t *Timeline) Held(ctx context.Context, n int, term uint64, after scheduler.UID, limit int) (held []scheduler.Held, err error) {
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

// Heads looks at every bucket.
func (t *Timeline) Heads(ctx context.Context) ([]scheduler.Head, error) {
	heads := make([]scheduler.Head, len(t.buckets))
	for n := range heads {
		err := t.in(ctx, n, func(b *bucket) error {
			heads[n] = scheduler.Head{Due: head(b.due), Waiting: len(b.due), Claimed: len(b.claimed), Term: b.term}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return heads, nil
}

// Lanes lists the lanes that hold messages, by name.
func (t *Timeline) Lanes(ctx context.Context, n int) (names []string, err error) {
	err = t.in(ctx, n, func(b *bucket) error {
		for name := range b.lanes {
			names = append(names, name)
		}
		return nil
	})
	slices.Sort(names)
	return names, err
}

// Trim forgets ends and tombstones past their time.
func (t *Timeline) Trim(ctx context.Context, n int, term uint64, now scheduler.Milli, limit int) (forgotten int, err error) {
	err = t.under(ctx, n, term, func(b *bucket) error {
		until := now.Add(-t.cfg.EndedKeep)
		if len(b.outbox) > 0 { // an end that the journal does not know yet is not forgotten
			until = min(until, b.outbox[0].Changes[0].At-2000)
		}
		for forgotten < limit && len(b.ended) > 0 && b.ended[0].endedAt <= until {
			e := b.ended[0].entry
			b.leave(e)
			delete(b.entries, e.uid)
			if e.message != nil {
				b.unname(e)
			}
			forgotten++
		}
		b.graves.trim(now.Add(-t.cfg.TombstoneKeep), limit)
		return nil
	})
	return forgotten, err
}
