package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// rival is a push that waits as the next message under a name, and how it was to merge with the one before it, which
// was in flight or uncertain. Of a message that was discarded there is no such push, and it is replaced all the same.
type rival struct {
	later message.UID
	mode  message.Merge
}

const discarded = "deleted while a consumer had it"

// living returns the last message under a name that has not ended, or nil.
func living(last *entry) *entry {
	for last != nil && last.state.Ended() {
		last = last.next
	}
	return last
}

// merge judges a merging push against the last living message under its name. If that message is certainly waiting,
// merge applies the push to it, or ends it if consumers have tried it, since they may skip a uid that they know. Added
// means that the push is a message of its own.
func (b *bucket) merge(e *entry, m *message.Message, now message.Milli) scheduler.AddCode {
	keeps := m.Merge == message.MergeKeep
	switch {
	case e == nil, e.state != message.StateWaiting:
		return scheduler.Added
	case b.uncertain(e) && keeps:
		return scheduler.Added // treat it as in flight: a consumer may have it already
	case b.uncertain(e):
		return scheduler.AddUncertain
	}
	if !keeps { // a push that replaces the later of two messages replaces the earlier too
		for earlier := e.next; earlier != nil; earlier = earlier.next {
			if r := earlier.rival; r != nil && r.later == e.uid && r.mode == message.MergeKeep {
				r.mode = m.Merge
			}
		}
	}
	replaces := m.Older(cmp.Or(e.message.Origin, e.uid)) == keeps // the older push is the first, whenever it arrives
	switch {
	case replaces && !keeps && b.wasTried(e):
		b.cut(e, false, cause{kind: message.KindGaveWay}, 0, now)
		return scheduler.Added
	case replaces && !b.wasTried(e):
		b.replace(e, m, now)
		b.amended(e, true, cause{kind: message.KindReplaced}, now)
	default:
		e.message.Mark.Changes++
		e.version++
		b.amended(e, false, cause{kind: message.KindAbsorbed}, now)
	}
	b.remember(m, e.uid, now)
	return scheduler.AddMerged
}

// replace gives a waiting message the content, due time and priority of a push. The message keeps its uid and its
// attempt number.
func (b *bucket) replace(e *entry, given *message.Message, now message.Milli) {
	old := e.message
	m := kept(given)
	m.UID, m.Attempt, m.Origin = old.UID, old.Attempt, given.UID
	if given.Merge == message.MergeDebounce && given.MaxWait > 0 {
		m.Due = min(m.Due, max(message.CeilMilli(e.uid.Time()).Add(given.MaxWait), now)) // never into the past
	}
	changes := old.Mark.Changes + 1
	b.leave(e)
	e.message, e.pull = &m, nil
	b.wait(e, m.Score(), message.Mark{Changes: changes})
}

// remember keeps the uid of a push that was merged into another message, so that it merges only once. It never was a
// message: the journal does not record it, and no name leads to it.
func (b *bucket) remember(given *message.Message, into message.UID, now message.Milli) {
	m := kept(given)
	m.Headers, m.Body, m.Origin, m.Retry, m.Lease = nil, nil, "", message.Retry{}, 0
	e := &entry{uid: m.UID, version: 1, message: &m, state: message.StateCanceled, endedAt: now}
	e.because(cause{kind: message.KindMerged, other: into}, false)
	b.entries[e.uid] = e
	b.ends++
	b.enter(e, b.ends)
}

// mergedInto returns the message that a push was merged into. It returns nil if e is not such a push or that message is
// forgotten.
func (b *bucket) mergedInto(e *entry) *entry {
	if e.kind != message.KindMerged {
		return nil
	}
	return b.entries[e.other]
}

// meetRival is called when a claimed message would wait again, and lets it meet the later push of its name. It reports
// whether that ended the claimed message, with those refusals.
func (b *bucket) meetRival(e *entry, refusals uint32, uncertain bool, term uint64, now message.Milli) (ended bool) {
	r := e.rival
	if r == nil {
		return false
	}
	e.rival = nil
	if r.mode != message.MergeKeep {
		why := cause{kind: message.KindGaveWay}
		if r.later == "" {
			why = cause{reason: discarded}
		}
		if e.leased() != nil {
			b.finish(e, e.leased(), refusals, message.StateCanceled, why, term, now)
		} else {
			b.cut(e, uncertain, why, term, now)
		}
		return true
	}
	if later := b.entries[r.later]; later != nil && later.state == message.StateWaiting {
		b.cut(later, b.uncertain(later), cause{kind: message.KindYielded}, term, now)
		b.unname(later) // the name belongs to the earlier one again
	}
	return false
}

// Amend changes a waiting message, by its uid or its exact name.
func (t *Timeline) Amend(ctx context.Context, a scheduler.Amend,
	now message.Milli) (result scheduler.AmendResult, err error) {
	n := a.UID.Bucket(t.Buckets())
	if a.UID == "" {
		n = t.nameBucket(a.Named.ID, a.Named.Key)
	}
	err = t.in(ctx, n, func(b *bucket) error {
		result.Number = b.cert.Number
		e := b.entries[a.UID]
		if a.UID == "" {
			if e = b.sole(a.Named); e == nil || e.message.Due == a.Due {
				return nil
			}
			a.Version, a.Priority = e.version, e.message.Priority
		}
		if e == nil {
			return nil
		}
		first := b.first()
		if result.Code = b.amends(e, &a); result.Code == scheduler.AmendDone && e.version == a.Version {
			if err := t.behind(n, b); err != nil {
				return err
			}
			b.amend(e, &a, now)
		}
		result.Info, result.Earlier = b.brief(e), b.earlier(first)
		return nil
	})
	return result, err
}

// amends returns what an amend comes to. One that is done already has raised the version.
func (b *bucket) amends(e *entry, a *scheduler.Amend) scheduler.AmendCode {
	switch {
	case e.state.Ended():
		return scheduler.AmendEnded
	case e.state == message.StateInFlight:
		return scheduler.AmendInFlight
	case b.uncertain(e):
		return scheduler.AmendMaybe
	case e.version == a.Version+1 && stands(e.message, a):
		return scheduler.AmendDone
	case e.version != a.Version:
		return scheduler.AmendVersion
	case b.wasTried(e) && !keepsContent(e.message, a):
		return scheduler.AmendTried
	}
	return scheduler.AmendDone
}

func (b *bucket) amend(e *entry, a *scheduler.Amend, now message.Milli) {
	m, old := *e.message, e.message.Due
	m.Due, m.Priority = a.Due, a.Priority
	mark := message.Mark{Handed: m.Mark.Handed, Refusals: m.Mark.Refusals, Changes: m.Mark.Changes + 1, Try: m.Mark.Try}
	if !keepsContent(&m, a) {
		m.Headers, m.Body = a.Message.Headers, a.Message.Body
		mark.Refusals, mark.Try = 0, message.Try{} // NATS has not refused the new content
	}
	b.leave(e)
	if e.message = &m; a.Due != old {
		e.pull = nil // it lives from its new due time
	}
	b.wait(e, m.Score(), mark)
	b.amended(e, a.Message != nil, cause{reason: a.Reason}, now)
}

// stands reports whether a message satisfies the conditions of an amend.
func stands(m *message.Message, a *scheduler.Amend) bool {
	return m.Due == a.Due && m.Priority == a.Priority && keepsContent(m, a)
}

// keepsContent reports whether an amend leaves headers and body as they are.
func keepsContent(m *message.Message, a *scheduler.Amend) bool {
	return a.Message == nil || slices.Equal(m.Headers, a.Message.Headers) && bytes.Equal(m.Body, a.Message.Body)
}

// wasTried reports whether consumers had a waiting message, or may have had it under a lease that the store has lost,
// since it was due before the certification.
func (b *bucket) wasTried(e *entry) bool {
	m := e.message
	return m.Pull && (m.Mark.Refusals > 0 || m.Mark.Handed || m.Due <= b.cert.DoubtUntil)
}
