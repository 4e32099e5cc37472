package memory

import "github.com/tarry-mq/tarry/scheduler"

// rival is a push that waits as the next message under a name, and how it was to
// merge with the one before it, which was in flight or uncertain.
type rival struct {
	later scheduler.UID
	mode  scheduler.Merge
}

// living is the last message under a name that has not ended, nil for none.
func living(last *entry) *entry {
	for last != nil && last.state.Ended() {
		last = last.next
	}
	return last
}

// merge judges a push that merges against the last message that lives under its
// name, and lets it go into that where it waits for certain: Added says that the
// push is a message of its own.
func (b *bucket) merge(e *entry, m *scheduler.Message, now scheduler.Milli) scheduler.AddCode {
	keeps := m.Merge == scheduler.MergeKeep
	switch {
	case e == nil, e.state != scheduler.StateWaiting:
		return scheduler.Added
	case b.uncertain(e) && keeps:
		return scheduler.Added // as if it were in flight: a consumer may have it already
	case b.uncertain(e):
		return scheduler.AddUncertain
	}
	if !keeps { // what replaces the later of two replaces the earlier too
		for earlier := e.next; earlier != nil; earlier = earlier.next {
			if r := earlier.rival; r != nil && r.later == e.uid && r.mode == scheduler.MergeKeep {
				r.mode = m.Merge
			}
		}
	}
	// The stream's order decides between pushes of the intake: of an older one the
	// content is the first, whenever it comes.
	if older(m.UID, e) == keeps {
		b.replace(e, m, now)
		b.amended(e, true, cause{kind: scheduler.KindReplaced}, now)
	} else {
		e.message.Mark.Changes++
		e.version++
		b.amended(e, false, cause{kind: scheduler.KindAbsorbed}, now)
	}
	b.remember(m, e.uid, now)
	return scheduler.AddMerged
}

// older reports whether a push and the content of e both came by the intake, the
// push before.
func older(uid scheduler.UID, e *entry) bool {
	origin := e.message.Origin
	if origin == "" {
		origin = e.uid
	}
	return uid.Intake() && origin.Intake() && uid < origin
}

// replace gives a waiting message the content, due and priority of a push. It
// stays the message that it is: its uid and the number of its attempt.
func (b *bucket) replace(e *entry, given *scheduler.Message, now scheduler.Milli) {
	old := e.message
	m := kept(given)
	m.UID, m.Attempt = old.UID, old.Attempt
	if given.Stored > 0 {
		m.Origin = given.UID
	} else {
		m.Origin = ""
	}
	if given.Merge == scheduler.MergeDebounce && given.MaxWait > 0 {
		m.Due = min(m.Due, max(scheduler.CeilMilli(e.uid.Time()).Add(given.MaxWait), now)) // never into the past
	}
	changes := old.Mark.Changes + 1
	b.leave(e)
	e.message = &m
	b.wait(e, m.Score(), scheduler.Mark{Changes: changes})
}

// remember keeps the uid of a push that went into another message, so that it
// merges once. It never was a message: the journal hears nothing of it, and no name
// leads to it.
func (b *bucket) remember(given *scheduler.Message, into scheduler.UID, now scheduler.Milli) {
	m := kept(given)
	m.Headers, m.Body, m.Origin, m.Retry = nil, nil, "", scheduler.Retry{}
	e := &entry{uid: m.UID, version: 1, message: &m, state: scheduler.StateCanceled, endedAt: now}
	e.because(cause{kind: scheduler.KindMerged, other: into}, false)
	b.entries[e.uid] = e
	b.ends++
	b.enter(e, b.ends)
}

// mergedInto is the message that a push went into, nil for what is no such push
// and where that message is forgotten.
func (b *bucket) mergedInto(e *entry) *entry {
	if e.kind != scheduler.KindMerged {
		return nil
	}
	return b.entries[e.other]
}

// meetRival is where a claimed message that would wait again meets the later
// push of its name. It reports whether that ended it.
func (b *bucket) meetRival(e *entry, uncertain bool, term uint64, now scheduler.Milli) (ended bool) {
	r := e.rival
	if r == nil {
		return false
	}
	e.rival = nil
	if r.mode != scheduler.MergeKeep {
		b.cut(e, uncertain, cause{kind: scheduler.KindGaveWay}, term, now)
		return true
	}
	if later := b.entries[r.later]; later != nil && later.state == scheduler.StateWaiting {
		b.cut(later, b.uncertain(later), cause{kind: scheduler.KindYielded}, term, now)
		b.unname(later) // the name is the earlier one's again
	}
	return false
}
