package memory

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// doubts reports whether the certification leaves a message in doubt: the message was due by then and may have been
// delivered without a trace. Of a message for pull the journal has every answered end if it is in sync.
func (b *bucket) doubts(m *message.Message) bool {
	return m != nil && b.cert.DoubtUntil > 0 && m.Due <= b.cert.DoubtUntil && !(m.Pull && b.sync)
}

// Standings returns the standing of every bucket.
func (t *Timeline) Standings(ctx context.Context) ([]record.Standing, error) {
	standings := make([]record.Standing, len(t.buckets))
	view := *t
	view.recovering = true
	err := view.each(ctx, func(n message.Bucket, b *bucket) {
		standings[n] = record.Standing{Now: thisRun, Certification: b.cert}
	})
	return standings, err
}

// Audited notes the end of a full audit.
func (t *Timeline) Audited(ctx context.Context, n message.Bucket, number uint64) error {
	return t.see(ctx, n, func(b *bucket) {
		b.cert.Audited = b.cert.Audited || b.cert.Number == number && !b.cert.Filling
	})
}

// Renew does nothing: the timeline has no server.
func (t *Timeline) Renew() {}

// Recovering returns a view of this timeline that also works on buckets that are not certified.
func (t *Timeline) Recovering(_ []record.Standing, term, number uint64) record.Recovering {
	view := *t
	view.recovering, view.ruling, view.giving = true, term, number
	return &view
}

// Claims lists the messages in flight.
func (t *Timeline) Claims(ctx context.Context, n message.Bucket, after message.UID,
	limit int) (uids []message.UID, err error) {
	err = t.see(ctx, n, func(b *bucket) {
		uids = b.claimed.after(after, limit)
	})
	return uids, err
}

// Leased lists the leased messages. The cursor is the last uid.
func (t *Timeline) Leased(ctx context.Context, n message.Bucket, cursor string,
	limit int) (uids []message.UID, next string, err error) {
	err = t.see(ctx, n, func(b *bucket) {
		if uids = b.leases.after(message.UID(cursor), limit); len(uids) == limit {
			next = string(uids[limit-1])
		}
	})
	return uids, next, err
}

// Reclaim returns every claim to waiting.
func (t *Timeline) Reclaim(ctx context.Context, n message.Bucket, term uint64, limit int,
	now message.Milli) (int, error) {
	count, err := t.Sweep(ctx, n, term, math.MaxUint64, limit, now)
	return count, err
}

// Certify marks a bucket as usable.
func (t *Timeline) Certify(ctx context.Context, n message.Bucket, term uint64, c record.Certification) error {
	return t.in(ctx, n, func(b *bucket) error {
		if b.term > term {
			return fmt.Errorf("certify bucket %d under term %d, it knows %d: %w", n, term, b.term,
				scheduler.ErrStaleTerm)
		}
		if b.term != term || c.Run != thisRun || c.Number < b.cert.Number {
			return fmt.Errorf("bucket %d has certification %d: %w", n, b.cert.Number, scheduler.ErrUncertified)
		}
		b.forgot(c.Forgotten)
		b.cert = c
		b.cert.Forgotten = 0
		return nil
	})
}

// Restore stores records that are missing here or that have a lower version here.
func (t *Timeline) Restore(ctx context.Context, n message.Bucket, records []record.Record, read,
	now message.Milli) (codes []record.RestoreCode, err error) {
	err = t.in(ctx, n, func(b *bucket) error {
		// Half of EndedKeep allows for clocks that differ.
		if b.trimmed > 0 && b.trimmed >= read.Add(-t.cfg.EndedKeep/2) {
			return fmt.Errorf("ends are forgotten up to %d: %w", b.trimmed, scheduler.ErrOutdated)
		}
		codes = make([]record.RestoreCode, len(records))
		for i := range records {
			codes[i] = b.restore(&records[i], t.recovering, now)
		}
		return nil
	})
	return codes, err
}

func (b *bucket) restore(r *record.Record, recovering bool, now message.Milli) record.RestoreCode {
	m, version := kept(&r.Message), r.Version
	m.Mark = message.Mark{Uncertain: r.Mark.Uncertain, Refusals: r.Mark.Refusals,
		Changes: uint32(version - 1)}
	// It may have been released after a lease that the journal does not know, and moved since.
	m.Mark.Handed = m.Pull && !r.State.Ended() && (m.Due <= now || r.Version > 1)
	unsure := !r.State.Ended() && (m.Due <= now && !(m.Pull && b.sync) || r.Doubt) && !m.Mark.Uncertain
	if unsure {
		m.Mark.Uncertain = true
		m.Mark.Changes++
		version++
	}
	old := b.entries[m.UID]
	code := record.RestoreAdded
	switch {
	case old == nil:
	case old.version == r.Version && r.State.Ended() && !old.state.Ended():
		// At equal versions an end wins: the other record was made after the end had been lost.
		if old.state == message.StateInFlight && !recovering {
			return record.RestoreBusy
		}
		b.leave(old)
		code = record.RestoreRaised
	case old.version == version, old.version == r.Version:
		return record.RestoreSame
	case old.version > version || !old.state.Allows(r.State, message.KindRestored):
		return record.RestoreNewer
	case old.state == message.StateInFlight && !recovering:
		return record.RestoreBusy
	default:
		b.leave(old)
		code = record.RestoreRaised
	}
	e := &entry{uid: m.UID, message: &m}
	b.entries[e.uid] = e
	if m.ID != "" && !b.inherit(old, e) {
		b.rename(e, r.State.Ended())
	}
	if r.State.Ended() {
		m.Mark.Changes-- // the end counts one more
		b.end(e, r.State, r.Mark.Uncertain, cause{r.Kind, r.Other, r.Reason}, r.EndedAt)
		return code
	}
	b.wait(e, m.Score(), m.Mark)
	if old != nil {
		e.rival = old.rival
	}
	if unsure {
		b.note(record.Change{UID: m.UID, Version: version, State: message.StateWaiting, At: now, Due: m.Due,
			Uncertain: true, Refusals: m.Mark.Refusals, Kind: message.KindRestored,
			Reason: message.KindRestored.Words("", true)})
	}
	return code
}

// inherit gives an entry the place under its name that old had, if any.
func (b *bucket) inherit(old, e *entry) bool {
	c := b.names[nameOf(e.message)]
	if old == nil || c == nil {
		return false
	}
	for at := &c.last; *at != nil; at = &(*at).next {
		if *at == old {
			*at, e.next, old.next = e, old.next, nil
			return true
		}
	}
	return slices.Contains(c.past, e.uid)
}

// rename enters a restored message, ended or not, under its name in the order of acceptance. A life of the name that
// began later is therefore last, regardless of the numbers of its attempts. As after a push, an ended message stays
// among the attempts only if it is the last.
func (b *bucket) rename(e *entry, ended bool) {
	c := b.entry(nameOf(e.message))
	var all []*entry
	for at := c.last; at != nil; at = at.next {
		all = append(all, at)
	}
	slices.Reverse(all)
	place := len(all)
	for place > 0 && e.uid.Compare(all[place-1].uid) < 0 {
		place--
	}
	all = slices.Insert(all, place, e)
	c.last = nil
	for i, at := range all {
		over := at.state.Ended() || at == e && ended
		if over && i < len(all)-1 {
			c.past, at.next = append(c.past, at.uid), nil
			continue
		}
		at.next, c.last = c.last, at
	}
	slices.Sort(c.past)
	c.past = c.past[max(len(c.past)-pastLimit, 0):]
}

// Versions returns the version and state of messages.
func (t *Timeline) Versions(ctx context.Context, n message.Bucket,
	uids []message.UID) (stands map[message.UID]record.Stand, err error) {
	stands = make(map[message.UID]record.Stand, len(uids))
	err = t.see(ctx, n, func(b *bucket) {
		for _, uid := range uids {
			if e := b.entries[uid]; e != nil {
				stands[uid] = record.Stand{State: e.state, Version: e.version}
			}
		}
	})
	return stands, err
}

// Walk lists the messages that have not ended, and the dead ones, by uid. The cursor is the last uid.
func (t *Timeline) Walk(ctx context.Context, n message.Bucket, cursor string,
	limit int) (uids []message.UID, next string, err error) {
	err = t.see(ctx, n, func(b *bucket) {
		for uid, e := range b.entries {
			if string(uid) > cursor && e.state.Kept() {
				uids = append(uids, uid)
			}
		}
	})
	slices.Sort(uids)
	limit = max(limit, 10_000) // each page scans every message
	if len(uids) > limit {
		uids = uids[:limit]
		next = string(uids[limit-1])
	}
	return uids, next, err
}
