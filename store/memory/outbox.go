package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
)

// changeCost is what a change counts toward the outbox's limit beyond its
// message.
const changeCost = 100

// note keeps a change of the call under way for the journal.
func (b *bucket) note(c scheduler.Change) {
	if b.records {
		b.changes = append(b.changes, c)
	}
}

// accepted notes a new message. The journal keeps what it is given, so it gets a
// message of its own.
func (b *bucket) accepted(m *scheduler.Message, now scheduler.Milli) {
	if b.records {
		own := *m
		b.note(scheduler.Change{UID: m.UID, Version: 1, State: scheduler.StateWaiting, At: now, Due: m.Due, Message: &own})
	}
}

// canceled notes a cancel; term is that of a leader who made it.
func (b *bucket) canceled(e *entry, term uint64, now scheduler.Milli) {
	i := b.info(e)
	b.note(scheduler.Change{UID: e.uid, Version: e.version, State: e.state, At: now, Term: term, Due: i.Due, Uncertain: i.Mark.Uncertain, Reason: e.reason})
}

// amended notes a change of a waiting message, with what it contains now where
// that is new.
func (b *bucket) amended(e *entry, whole bool, reason string, now scheduler.Milli) {
	if !b.records {
		return
	}
	m := e.message
	c := scheduler.Change{UID: e.uid, Version: e.version, State: scheduler.StateWaiting, At: now, Due: m.Due,
		Uncertain: m.Mark.Uncertain, Refusals: m.Mark.Refusals, Reason: reason}
	if whole {
		own := *m
		own.Mark = scheduler.Mark{}
		c.Message = &own
	}
	b.note(c)
}

// news tells whether a batch holds a message that is not known.
func (b *bucket) news(batch []*scheduler.Message) bool {
	return slices.ContainsFunc(batch, func(m *scheduler.Message) bool { return b.entries[m.UID] == nil })
}

// wrote makes an entry of what a call changed.
func (t *Timeline) wrote(n int, b *bucket) {
	if len(b.changes) == 0 {
		return
	}
	r := t.cfg.Record
	e := scheduler.Entry{Bucket: n, Number: b.cert.Number, Count: len(b.changes), Changes: b.changes}
	b.changes = nil
	b.entered++
	e.ID = fmt.Sprintf("%020d", b.entered)
	for i := range e.Changes {
		c := &e.Changes[i]
		c.Bucket, c.Instance, c.Address = n, r.Instance, r.Address()
		e.Size += changeCost
		if c.Message != nil {
			e.Size += weight(c.Message)
		}
	}
	b.outbox = append(b.outbox, e)
	b.size += int64(e.Size)
	r.Wrote(e)
}

// Unwritten reads the outbox. age is not asked for: nobody else writes here.
func (t *Timeline) Unwritten(ctx context.Context, n int, after string, age scheduler.Milli, limit, bytes int) (found []scheduler.Entry, err error) {
	err = t.in(ctx, n, func(b *bucket) error {
		size := 0
		for _, e := range b.outbox {
			if e.ID <= after {
				continue
			}
			if size += e.Size; len(found) == limit || size > bytes && len(found) > 0 {
				break
			}
			e.Number = b.cert.Number
			if t.recovering {
				e.Number = 0
			}
			e.Changes = slices.Clone(e.Changes)
			found = append(found, e)
		}
		return nil
	})
	return found, err
}

// Written removes entries.
func (t *Timeline) Written(ctx context.Context, n int, entries []scheduler.Entry) error {
	gone := map[string]bool{}
	for i := range entries {
		gone[entries[i].ID] = true
	}
	return t.in(ctx, n, func(b *bucket) error {
		b.outbox = slices.DeleteFunc(b.outbox, func(e scheduler.Entry) bool {
			if gone[e.ID] {
				b.size -= int64(e.Size)
			}
			return gone[e.ID]
		})
		return nil
	})
}

// Lags tells how much stands in each outbox.
func (t *Timeline) Lags(ctx context.Context) ([]scheduler.Lag, error) {
	lags := make([]scheduler.Lag, len(t.buckets))
	for n := range lags {
		err := t.in(ctx, n, func(b *bucket) error {
			lags[n] = scheduler.Lag{Entries: len(b.outbox), Bytes: b.size}
			for i := range b.outbox {
				lags[n].Changes += len(b.outbox[i].Changes)
			}
			if len(b.outbox) > 0 {
				lags[n].Oldest = b.outbox[0].Changes[0].At
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return lags, nil
}
