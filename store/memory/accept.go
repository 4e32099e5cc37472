package memory

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Add stores a batch of messages of one bucket.
func (t *Timeline) Add(ctx context.Context, n message.Bucket, batch []*message.Message,
	now message.Milli) (results []scheduler.AddResult, earlier []scheduler.Earlier, err error) {
	for _, m := range batch {
		if at := m.UID.Bucket(t.Buckets()); at != n {
			return nil, nil, fmt.Errorf("add %s to bucket %d: it belongs to %d", m.UID, n, at)
		}
	}
	err = t.in(ctx, n, func(b *bucket) error {
		first := b.first()
		if b.news(batch) {
			if err := t.behind(n, b); err != nil {
				return err
			}
		}
		results = make([]scheduler.AddResult, len(batch))
		for i, m := range batch {
			b.by = m.By
			results[i] = b.add(m, now)
			results[i].Number = b.cert.Number
		}
		earlier = b.earlier(first)
		return nil
	})
	return results, earlier, err
}

// first returns the rank of the message due first in the bucket.
func (b *bucket) first() int64 {
	if len(b.due) == 0 {
		return math.MaxInt64
	}
	return b.due[0].rank
}

// earlier returns what begins earlier: orders of topics, and the bucket's if its lowest rank is below first, that
// before the call.
func (b *bucket) earlier(first int64) []scheduler.Earlier {
	if b.first() >= first {
		return b.hastened
	}
	return append(b.hastened, scheduler.Earlier{Due: head(b.due)})
}

// add judges one message and stores it if it is new.
func (b *bucket) add(given *message.Message, now message.Milli) scheduler.AddResult {
	e := b.entries[given.UID]
	if first := b.entries[b.calls.of(given.Call)]; first != nil { // else the call is longer ago than is remembered
		e = first
	}
	if e != nil {
		code := scheduler.AddDuplicate
		if to := b.mergedInto(e); to != nil {
			e, code = to, scheduler.AddMerged
		}
		if on := e.message.Topic; on != "" && on != given.Topic { // the uid belongs to another message
			code = scheduler.AddConflict
		}
		return scheduler.AddResult{Code: code, First: b.info(e)}
	}
	if given.Call != "" && !b.calls.room() {
		return scheduler.AddResult{Code: scheduler.AddCalls,
			First: message.Info{Message: message.Message{UID: given.UID}}}
	}
	var first *entry
	covered := b.graves.covers(given)
	unjudged := b.cert.Filling && given.Judged != b.cert.Number && (given.Judge || given.Merge != message.MergeReject)
	filling := scheduler.AddResult{Code: scheduler.AddFilling,
		First: message.Info{Message: message.Message{UID: given.UID}}, Number: b.cert.Number}
	if given.ID == "" && unjudged {
		return filling
	}
	if given.ID != "" {
		first = b.last(nameOf(given))
		code := scheduler.Added
		switch {
		case given.Merge == message.MergeReject && first != nil:
			code = b.meet(first, given)
		case given.Merge == message.MergeReject && unjudged:
			return filling
		case given.Merge != message.MergeReject && !covered: // a canceled push changes nothing
			if first = living(first); first == nil && unjudged {
				return filling
			}
			code = b.merge(first, given, now)
		}
		if code != scheduler.Added {
			if code == scheduler.AddMerged {
				b.calls.keep(given)
			}
			return scheduler.AddResult{Code: code, First: b.info(first)}
		}
	}
	b.calls.keep(given)
	e = b.accept(given)
	b.accepted(e.message, now)
	if covered {
		b.end(e, message.StateCanceled, false, cause{kind: message.KindWithdrawn}, now)
		b.canceled(e, 0, now)
		return scheduler.AddResult{Code: scheduler.AddedCanceled, First: b.info(e)}
	}
	if given.Merge != message.MergeReject && first != nil && !first.state.Ended() &&
		(given.Merge != message.MergeKeep || first.rival == nil || first.rival.later != "") {
		first.rival = &rival{later: e.uid, mode: given.Merge}
	}
	b.wait(e, e.message.Score(), message.Mark{})
	return scheduler.AddResult{Code: scheduler.Added}
}

// accept creates the entry of a new message. The entry is in no order yet.
func (b *bucket) accept(given *message.Message) *entry {
	m := kept(given)
	e := &entry{uid: m.UID, version: 1, message: &m}
	b.entries[e.uid] = e
	if m.ID != "" {
		b.name(e)
	}
	return e
}

// kept returns the part of a given message that the timeline keeps.
func kept(given *message.Message) message.Message {
	m := *given
	m.Stored, m.Since, m.StoredAt, m.Judge, m.Judged, m.By, m.Call = 0, 0, 0, false, 0, "", ""
	m.Merge, m.MaxWait, m.Mark = message.MergeReject, 0, message.Mark{}
	m.Claim, m.ClaimedAt = 0, 0
	return m
}

// meet judges a push under the name of e. Added means that the push is a message of its own.
func (b *bucket) meet(e *entry, m *message.Message) scheduler.AddCode {
	over := e.state.Ended() && e.state != message.StateDelivered
	switch first := e.message.Attempt; {
	case over && (m.Attempt <= 1 || m.Attempt > first):
		return scheduler.AddConflict // but a retry with this number or a lower one is judged below
	case m.Attempt < first && b.repeats(m):
		return scheduler.AddDuplicate
	case m.Attempt < first:
		return scheduler.AddConflict
	case m.Attempt > first && (e.state != message.StateWaiting || e.message.Mark.Uncertain || b.doubts(e.message)):
		return scheduler.Added // a consumer received the earlier attempt and sent this one
	case m.Digest == e.message.Digest:
		return scheduler.AddDuplicate
	}
	return scheduler.AddConflict
}

// Find returns every message that ref names.
func (t *Timeline) Find(ctx context.Context, ref scheduler.Ref) (found []message.Info, err error) {
	from, to := t.reach(ref)
	add := func(b *bucket, e *entry) {
		i := b.info(e)
		if e.state == message.StateWaiting && e.pull != nil {
			i.Expires = e.pull.expires
		}
		found = append(found, i)
	}
	for n := from; n < to; n++ {
		err := t.in(ctx, n, func(b *bucket) error {
			if ref.UID != "" {
				if e := b.entries[ref.UID]; e != nil {
					add(b, e)
				}
				return nil
			}
			return b.called(ref, func(e *entry) { add(b, e) })
		})
		if errors.Is(err, scheduler.ErrAmbiguousID) {
			return found, err
		} else if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// reach returns the range of buckets that may hold what ref names.
func (t *Timeline) reach(ref scheduler.Ref) (from, to message.Bucket) {
	switch {
	case ref.UID != "":
		from = ref.UID.Bucket(t.Buckets())
	case ref.Keyed:
		from = t.nameBucket(ref.ID, ref.Key)
	default:
		return 0, t.Buckets()
	}
	return from, from + 1
}

// Cancel ends a waiting message, by its uid or its exact name.
func (t *Timeline) Cancel(ctx context.Context, ref scheduler.Ref,
	now message.Milli) (result scheduler.CancelResult, err error) {
	n := ref.UID.Bucket(t.Buckets())
	if ref.UID == "" {
		n = t.nameBucket(ref.ID, ref.Key)
	}
	err = t.see(ctx, n, func(b *bucket) {
		result.Number = b.cert.Number
		e := b.entries[ref.UID]
		if ref.UID == "" {
			e = b.sole(ref)
		}
		if e != nil {
			result.Code = b.cancel(e, now)
			result.Info = b.info(e)
		}
	})
	return result, err
}

func (b *bucket) cancel(e *entry, now message.Milli) scheduler.CancelCode {
	switch e.state {
	case message.StateInFlight:
		return scheduler.CancelInFlight
	case message.StateWaiting:
		uncertain := b.uncertain(e)
		b.cut(e, uncertain, cause{}, 0, now)
	case message.StateCanceled:
	default:
		return scheduler.CancelEnded
	}
	if b.info(e).Mark.Uncertain {
		return scheduler.CancelMaybe
	}
	return scheduler.CancelDone
}

// cut ends an entry as canceled.
func (b *bucket) cut(e *entry, uncertain bool, why cause, term uint64, now message.Milli) {
	b.leave(e)
	b.end(e, message.StateCanceled, uncertain, why, now)
	b.canceled(e, term, now)
}

// Bury leaves tombstones in the buckets where no message has the name.
func (t *Timeline) Bury(ctx context.Context, ref scheduler.Ref, sequence uint64,
	now message.Milli) (found []message.UID, err error) {
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
		if err != nil && laid {
			err = scheduler.Unsure("a tombstone is left in some buckets", err)
		}
		if err != nil {
			return nil, err
		}
	}
	if full && len(found) == 0 {
		return nil, scheduler.ManyTombstones(laid)
	}
	return found, nil
}
