package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
)

// doubts tells whether the certification leaves a doubt about a message: it was
// due by then, and may have been delivered without a trace.
func (b *bucket) doubts(m *scheduler.Message) bool {
	return m != nil && b.cert.DoubtUntil > 0 && m.Due <= b.cert.DoubtUntil
}

// Standings tells how every bucket stands.
func (t *Timeline) Standings(ctx context.Context) ([]scheduler.Standing, error) {
	standings := make([]scheduler.Standing, len(t.buckets))
	view := *t
	view.recovering = true
	for n := range standings {
		if err := view.in(ctx, n, func(b *bucket) error {
			standings[n] = scheduler.Standing{Now: thisRun, Certification: b.cert}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return standings, nil
}

// Renew does nothing: there is no server.
func (t *Timeline) Renew() {}

// Recovering is this timeline, certified or not.
func (t *Timeline) Recovering([]scheduler.Standing) scheduler.Recovering {
	view := *t
	view.recovering = true
	return &view
}

// Reclaim gives back every claim.
func (t *Timeline) Reclaim(ctx context.Context, n int, term uint64, limit int, now scheduler.Milli) (int, error) {
	return t.sweep(ctx, n, term, term+1, limit, now)
}

// Certify says that a bucket may be used.
func (t *Timeline) Certify(ctx context.Context, n int, term uint64, c scheduler.Certification) error {
	return t.in(ctx, n, func(b *bucket) error {
		if b.term > term {
			return fmt.Errorf("certify bucket %d under term %d, it knows %d: %w", n, term, b.term, scheduler.ErrStaleTerm)
		}
		if b.term != term || c.Run != thisRun || c.Number < b.cert.Number {
			return fmt.Errorf("bucket %d has certification %d: %w", n, b.cert.Number, scheduler.ErrUncertified)
		}
		b.cert = c
		return nil
	})
}

// Restore stores what is missing here or has a lower version.
func (t *Timeline) Restore(ctx context.Context, n int, records []scheduler.Record, now scheduler.Milli) (codes []scheduler.RestoreCode, err error) {
	err = t.in(ctx, n, func(b *bucket) error {
		codes = make([]scheduler.RestoreCode, len(records))
		for i := range records {
			codes[i] = b.restore(&records[i], now)
		}
		return nil
	})
	return codes, err
}

func (b *bucket) restore(r *scheduler.Record, now scheduler.Milli) scheduler.RestoreCode {
	m, version := kept(&r.Message), r.Version
	m.Mark = scheduler.Mark{Uncertain: r.Mark.Uncertain, Refusals: r.Mark.Refusals, Changes: uint32(version - 1)}
	overdue := !r.State.Ended() && m.Due <= now && !m.Mark.Uncertain
	if overdue {
		m.Mark.Uncertain = true
		m.Mark.Changes++
		version++
	}
	old := b.entries[m.UID]
	code := scheduler.RestoreAdded
	switch {
	case old == nil:
	case old.version == r.Version && r.State.Ended() && old.state == scheduler.StateWaiting:
		// Of one version an end wins: the other side was made when the end was lost.
		b.leave(old)
		code = scheduler.RestoreRaised
	case old.version == version, old.version == r.Version:
		return scheduler.RestoreSame
	case old.state == scheduler.StateDead && r.State == scheduler.StateCanceled && r.Version > old.version:
		// It was requeued or purged, and this store had lost that.
		b.leave(old)
		code = scheduler.RestoreRaised
	case old.version > version || old.state.Ended():
		return scheduler.RestoreNewer
	case old.state == scheduler.StateInFlight:
		return scheduler.RestoreBusy
	default:
		b.leave(old)
		code = scheduler.RestoreRaised
	}
	e := &entry{uid: m.UID, due: m.Due, message: &m}
	b.entries[e.uid] = e
	if m.ID != "" && !b.inherit(old, e) {
		b.rename(e)
	}
	if r.State.Ended() {
		m.Mark.Changes-- // end counts one more
		b.end(e, r.State, r.Mark.Uncertain, r.Reason, r.EndedAt)
		return code
	}
	b.wait(e, m.Score(), m.Mark)
	if old != nil {
		e.rival = old.rival
	}
	if overdue {
		b.note(scheduler.Change{UID: m.UID, Version: version, State: scheduler.StateWaiting, At: now, Due: m.Due,
			Uncertain: true, Refusals: m.Mark.Refusals, Reason: "restored when it was due already"})
	}
	return code
}

// inherit gives an entry the place under its name that another had, if it had one.
func (b *bucket) inherit(old, e *entry) bool {
	if old == nil {
		return false
	}
	n := name{e.message.ID, e.message.Key}
	if b.names[n] == old {
		b.names[n], e.next = e, old.next
		return true
	}
	for at := b.names[n]; at != nil; at = at.next {
		if at.next == old {
			at.next, e.next = e, old.next
			return true
		}
	}
	return false
}

// rename enters a restored message under its name, in the order of attempts.
func (b *bucket) rename(e *entry) {
	n := name{e.message.ID, e.message.Key}
	later := func(other *entry) bool {
		return cmp.Or(cmp.Compare(other.message.Attempt, e.message.Attempt), cmp.Compare(other.uid, e.uid)) > 0
	}
	if last := b.names[n]; last == nil || !later(last) {
		e.next = last
		b.names[n] = e
	} else {
		at := last
		for at.next != nil && later(at.next) {
			at = at.next
		}
		e.next, at.next = at.next, e
	}
	if b.keys[n.id] == nil {
		b.keys[n.id] = map[string]struct{}{}
	}
	b.keys[n.id][n.key] = struct{}{}
}

// Versions tells how messages stand.
func (t *Timeline) Versions(ctx context.Context, n int, uids []scheduler.UID) (stands map[scheduler.UID]scheduler.Stand, err error) {
	stands = make(map[scheduler.UID]scheduler.Stand, len(uids))
	err = t.in(ctx, n, func(b *bucket) error {
		for _, uid := range uids {
			if e := b.entries[uid]; e != nil {
				stands[uid] = scheduler.Stand{State: e.state, Version: e.version}
			}
		}
		return nil
	})
	return stands, err
}

// Walk lists what has not ended, and the dead, by uid. The cursor is the last
// uid.
func (t *Timeline) Walk(ctx context.Context, n int, cursor string, limit int) (uids []scheduler.UID, next string, err error) {
	err = t.in(ctx, n, func(b *bucket) error {
		for uid, e := range b.entries {
			if string(uid) > cursor && (!e.state.Ended() || e.state == scheduler.StateDead) {
				uids = append(uids, uid)
			}
		}
		return nil
	})
	slices.Sort(uids)
	limit = max(limit, 10_000) // each page looks at every message
	if len(uids) > limit {
		uids = uids[:limit]
		next = string(uids[limit-1])
	}
	return uids, next, err
}
