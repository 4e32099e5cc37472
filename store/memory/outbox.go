package memory

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// changeCost is what a change counts toward the outbox's limit in addition to its message.
const changeCost = 100

// note adds a change of the current call to those for the journal.
func (b *bucket) note(c record.Change) {
	if b.records {
		c.By = b.by
		b.changes = append(b.changes, c)
	}
}

// effect covers the changes of the current call, and the versions at which the call left other messages. It is zero if
// no journal is kept.
func (t *Timeline) effect(n message.Bucket, b *bucket, left []scheduler.Recorded) scheduler.Effect {
	if !b.records {
		return scheduler.Effect{}
	}
	covered := left
	for i := range b.changes {
		covered = append(covered, scheduler.Recorded{UID: b.changes[i].UID, Version: b.changes[i].Version})
	}
	for i := range covered {
		covered[i].Bucket, covered[i].Number = n, t.number(b)
	}
	return scheduler.Effect{Changes: covered}
}

// accepted records a new message. The journal retains the message it receives, so accepted passes a copy.
func (b *bucket) accepted(m *message.Message, now message.Milli) {
	if b.records {
		own := *m
		b.note(
			record.Change{UID: m.UID, Version: 1, State: message.StateWaiting, At: now, Due: m.Due, Message: &own})
	}
}

// canceled records a cancel. term is the term of the leader that made it.
func (b *bucket) canceled(e *entry, term uint64, now message.Milli) {
	i := b.info(e)
	b.note(record.Change{UID: e.uid, Version: e.version, State: e.state, At: now, Term: term, Due: i.Due,
		Uncertain: i.Mark.Uncertain, Refusals: i.Mark.Refusals, Attempt: i.Tries(),
		Kind: e.kind, Other: e.other, Reason: e.reason})
}

// amended records a change of a waiting message, including its content if that is new.
func (b *bucket) amended(e *entry, whole bool, why cause, now message.Milli) {
	if !b.records {
		return
	}
	m := e.message
	c := record.Change{UID: e.uid, Version: e.version, State: message.StateWaiting, At: now, Due: m.Due,
		Uncertain: m.Mark.Uncertain, Refusals: m.Mark.Refusals, Kind: why.kind, Other: why.other,
		Reason: why.words(m.Mark.Uncertain)}
	if whole {
		own := *m
		own.Mark = message.Mark{}
		c.Message = &own
	}
	b.note(c)
}

// Reject records that a push is not accepted.
func (t *Timeline) Reject(ctx context.Context, r *scheduler.Rejected,
	now message.Milli) (made scheduler.Effect, err error) {
	n := r.UID.Bucket(t.Buckets())
	err = t.in(ctx, n, func(b *bucket) error {
		if err := t.behind(n, b); err != nil {
			return err
		}
		b.note(record.Change{UID: r.UID, At: now, Rejected: r})
		made = t.effect(n, b, nil)
		return nil
	})
	return made, err
}

// behind returns the error of a bucket whose outbox has reached its limit.
func (t *Timeline) behind(n message.Bucket, b *bucket) error {
	if !b.records || b.size < t.cfg.Record.Limit {
		return nil
	}
	return fmt.Errorf("bucket %d holds %d bytes for the journal, the limit is %d: %w", n, b.size, t.cfg.Record.Limit,
		scheduler.ErrBehind)
}

// news reports whether a batch holds an unknown message.
func (b *bucket) news(batch []*message.Message) bool {
	return slices.ContainsFunc(batch, func(m *message.Message) bool { return b.entries[m.UID] == nil })
}

// wrote turns the changes of a call into an outbox entry.
func (t *Timeline) wrote(n message.Bucket, b *bucket) {
	if len(b.changes) == 0 {
		return
	}
	r := t.cfg.Record
	e := record.Entry{Bucket: n, Number: t.number(b), Count: len(b.changes), Changes: b.changes}
	b.changes = nil
	b.entered++
	e.ID = fmt.Sprintf("%020d", b.entered)
	for i := range e.Changes {
		c := &e.Changes[i]
		c.Bucket, c.Instance, c.Address = n, r.Instance, r.Address
		e.Size += changeCost
		if c.Message != nil {
			e.Size += c.Message.Size()
		}
		if c.Rejected != nil {
			e.Size += len(c.Rejected.Body)
		}
	}
	b.outbox = append(b.outbox, e)
	b.size += int64(e.Size)
	r.Wrote(e)
}

// Unwritten reads the outbox. It ignores age, because nobody else writes here.
func (t *Timeline) Unwritten(ctx context.Context, n message.Bucket, after string, age message.Milli, limit,
	bytes int) (found []record.Entry, err error) {
	err = t.see(ctx, n, func(b *bucket) {
		size := 0
		for _, e := range b.outbox {
			if e.ID <= after {
				continue
			}
			if size += e.Size; len(found) == limit || size > bytes && len(found) > 0 {
				break
			}
			e.Number = t.number(b)
			e.Changes = slices.Clone(e.Changes)
			found = append(found, e)
		}
	})
	return found, err
}

// Written removes entries.
func (t *Timeline) Written(ctx context.Context, n message.Bucket, entries []record.Entry) error {
	gone := map[string]bool{}
	for i := range entries {
		gone[entries[i].ID] = true
	}
	return t.in(ctx, n, func(b *bucket) error {
		b.outbox = slices.DeleteFunc(b.outbox, func(e record.Entry) bool {
			if gone[e.ID] {
				b.size -= int64(e.Size)
			}
			return gone[e.ID]
		})
		return nil
	})
}

// Quarantine moves an entry out of the outbox and keeps its description.
func (t *Timeline) Quarantine(ctx context.Context, q record.Quarantined) error {
	return t.in(ctx, q.Bucket, func(b *bucket) error {
		at := slices.IndexFunc(b.outbox, func(e record.Entry) bool { return e.ID == q.ID })
		switch {
		case at < 0:
			return nil
		case len(b.quarantined) >= record.MaxQuarantined:
			return record.ErrQuarantineFull
		}
		b.size -= int64(b.outbox[at].Size)
		b.outbox = slices.Delete(b.outbox, at, at+1)
		q.Number, q.UIDs = 0, slices.Clone(q.UIDs[:min(len(q.UIDs), record.MaxQuarantinedUIDs)])
		b.quarantined = append(b.quarantined, q)
		return nil
	})
}

// Quarantined lists the quarantined entries. None is ever removed, so a place is a number.
func (t *Timeline) Quarantined(ctx context.Context, n message.Bucket,
	after string) (list []record.Quarantined, next string, err error) {
	from, _ := strconv.Atoi(after)
	err = t.see(ctx, n, func(b *bucket) {
		from = min(max(from, 0), len(b.quarantined))
		list = slices.Clone(b.quarantined[from:min(from+record.QuarantinedPage, len(b.quarantined))])
	})
	return list, strconv.Itoa(from + len(list)), err
}

// Lags returns the backlog of each outbox.
func (t *Timeline) Lags(ctx context.Context) ([]record.Lag, error) {
	lags := make([]record.Lag, len(t.buckets))
	err := t.each(ctx, func(n message.Bucket, b *bucket) {
		lags[n] = record.Lag{Entries: len(b.outbox), Bytes: b.size, Quarantined: len(b.quarantined)}
		for i := range b.outbox {
			lags[n].Changes += len(b.outbox[i].Changes)
		}
		if len(b.outbox) > 0 {
			lags[n].Oldest = b.outbox[0].Changes[0].At
		}
	})
	return lags, err
}
