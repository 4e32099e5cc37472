package memory

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/tarry-mq/tarry/scheduler"
)

// Add stores a batch of one bucket.
func (t *Timeline) Add(ctx context.Context, n int, batch []*scheduler.Message,
	now scheduler.Milli) (results []scheduler.AddResult, earlier scheduler.Milli, err error) {
	for _, m := range batch {
		if at := m.UID.Bucket(len(t.buckets)); at != n {
			return nil, 0, fmt.Errorf("add %s to bucket %d: it belongs to %d", m.UID, n, at)
		}
	}
	err = t.in(ctx, n, func(b *bucket) error {
		first := b.first()
		if b.records && b.size >= t.cfg.Record.Limit && b.news(batch) {
			return fmt.Errorf("bucket %d holds %d bytes for the journal, the limit is %d: %w", n, b.size,
				t.cfg.Record.Limit, scheduler.ErrBehind)
		}
		results = make([]scheduler.AddResult, len(batch))
		for i, m := range batch {
			results[i] = b.add(m, now)
			results[i].Number = b.cert.Number
		}
		earlier = b.earlier(first)
		return nil
	})
	return results, earlier, err
}

// first is the rank of what is due first in the bucket.
func (b *bucket) first() int64 {
	if len(b.due) == 0 {
		return math.MaxInt64
	}
	return b.due[0].rank
}

// earlier returns the bucket's earliest due time if its rank is below the rank that
// was first before, else 0.
func (b *bucket) earlier(first int64) scheduler.Milli {
	if b.first() >= first {
		return 0
	}
	return head(b.due)
}

// add judges one message and stores it if it is new.
func (b *bucket) add(given *scheduler.Message, now scheduler.Milli) scheduler.AddResult {
	if e := b.entries[given.UID]; e != nil {
		code := scheduler.AddDuplicate
		if to := b.mergedInto(e); to != nil {
			e, code = to, scheduler.AddMerged
		}
		if e.message.Topic != given.Topic { // the uid is another message's
			code = scheduler.AddConflict
		}
		return scheduler.AddResult{Code: code, First: b.info(e)}
	}
	var first *entry
	covered := b.graves.covers(given)
	if given.ID != "" {
		first = b.last(nameOf(given))
		code := scheduler.Added
		switch {
		case given.Merge == scheduler.MergeReject && first != nil:
			code = b.meet(first, given)
		case given.Merge != scheduler.MergeReject && !covered: // what was canceled changes nothing
			first = living(first)
			code = b.merge(first, given, now)
		}
		if code != scheduler.Added {
			return scheduler.AddResult{Code: code, First: b.info(first)}
		}
	}
	e := b.accept(given)
	b.accepted(e.message, now)
	if covered {
		b.end(e, scheduler.StateCanceled, false, cause{kind: scheduler.KindWithdrawn}, now)
		b.canceled(e, 0, now)
		return scheduler.AddResult{Code: scheduler.AddedCanceled, First: b.info(e)}
	}
	if given.Merge != scheduler.MergeReject && first != nil {
		first.rival = &rival{later: e.uid, mode: given.Merge}
	}
	b.wait(e, e.message.Score(), scheduler.Mark{})
	return scheduler.AddResult{Code: scheduler.Added}
}

// accept makes an entry of a new message, which stands in no order yet.
func (b *bucket) accept(given *scheduler.Message) *entry {
	m := kept(given)
	e := &entry{uid: m.UID, version: 1, message: &m}
	b.entries[e.uid] = e
	if m.ID != "" {
		b.name(e)
	}
	return e
}

// kept is what is kept of a message that is given.
func kept(given *scheduler.Message) scheduler.Message {
	m := *given
	m.Stored, m.Merge, m.MaxWait, m.Mark = 0, scheduler.MergeReject, 0, scheduler.Mark{}
	m.Claim, m.ClaimedAt = 0, 0
	return m
}

// meet judges a push under the name of e: Added says that it is a message of
// its own.
func (b *bucket) meet(e *entry, m *scheduler.Message) scheduler.AddCode {
	over := e.state.Ended() && e.state != scheduler.StateDelivered
	switch first := e.message.Attempt; {
	case over && (m.Attempt <= 1 || m.Attempt > first):
		return scheduler.AddConflict // what was stored of a consumer's retries is no news to it
	case m.Attempt < first && b.repeats(m):
		return scheduler.AddDuplicate
	case m.Attempt < first:
		return scheduler.AddConflict
	case m.Attempt > first && (e.state != scheduler.StateWaiting || e.message.Mark.Uncertain || b.doubts(e.message)):
		return scheduler.Added // a consumer had it and sent it back
	case m.Digest == e.message.Digest:
		return scheduler.AddDuplicate
	}
	return scheduler.AddConflict
}

// Find returns every message that ref names.
func (t *Timeline) Find(ctx context.Context, ref scheduler.Ref) (found []scheduler.Info, err error) {
	from, to := t.reach(ref)
	for n := from; n < to; n++ {
		err := t.in(ctx, n, func(b *bucket) error {
			if ref.UID != "" {
				if e := b.entries[ref.UID]; e != nil {
					found = append(found, b.info(e))
				}
				return nil
			}
			return b.called(ref, func(e *entry) { found = append(found, b.info(e)) })
		})
		if errors.Is(err, scheduler.ErrAmbiguousID) {
			return found, err
		} else if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// reach is the range of buckets that may hold what ref names.
func (t *Timeline) reach(ref scheduler.Ref) (from, to int) {
	switch {
	case ref.UID != "":
		from = ref.UID.Bucket(len(t.buckets))
	case ref.Keyed:
		from = t.nameBucket(ref.ID, ref.Key)
	default:
		return 0, len(t.buckets)
	}
	return from, from + 1
}

// Cancel ends the waiting message with this uid, or says why not.
func (t *Timeline) Cancel(ctx context.Context, uid scheduler.UID,
	now scheduler.Milli) (result scheduler.CancelResult, err error) {
	err = t.in(ctx, uid.Bucket(len(t.buckets)), func(b *bucket) error {
		result.Number = b.cert.Number
		if e := b.entries[uid]; e != nil {
			result.Code = b.cancel(e, now)
			result.Info = b.info(e)
		}
		return nil
	})
	return result, err
}

func (b *bucket) cancel(e *entry, now scheduler.Milli) scheduler.CancelCode {
	switch e.state {
	case scheduler.StateInFlight:
		return scheduler.CancelInFlight
	case scheduler.StateWaiting:
		uncertain := b.uncertain(e)
		b.cut(e, uncertain, cause{}, 0, now)
	case scheduler.StateCanceled:
	default:
		return scheduler.CancelEnded
	}
	if b.info(e).Mark.Uncertain {
		return scheduler.CancelMaybe
	}
	return scheduler.CancelDone
}

// cut ends an entry as canceled.
func (b *bucket) cut(e *entry, uncertain bool, why cause, term uint64, now scheduler.Milli) {
	b.leave(e)
	b.end(e, scheduler.StateCanceled, uncertain, why, now)
	b.canceled(e, term, now)
}

// Bury leaves tombstones where no message has the name.
func (t *Timeline) Bury(ctx context.Context, ref scheduler.Ref, sequence uint64,
	now scheduler.Milli) (found []scheduler.UID, err error) {
	at := grave{name: name{ref.ID, ref.Topic, ref.Key}, any: !ref.Keyed}
	from, to := t.reach(scheduler.Ref{ID: ref.ID, Key: ref.Key, Keyed: ref.Keyed})
	full, laid := false, false
	for n := from; n < to; n++ {
		err := t.in(ctx, n, func(b *bucket) error {
			before := len(found)
			if err := b.called(ref, func(e *entry) { found = append(found, e.uid) }); err != nil ||
				len(found) > before {
				return err
			}
			if b.graves.bury(at, sequence, now, now.Add(-t.cfg.TombstoneKeep), t.cfg.TombstoneLimit) {
				laid = true
			} else {
				full = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if full && len(found) == 0 {
		return nil, scheduler.ManyTombstones(laid)
	}
	return found, nil
}
