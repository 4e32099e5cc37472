package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Drain commits a bucket's entries that are at least age old and removes them. It returns how many changes it
// committed, and how many entries had changes that the journal refused for good. Those do not block the entries behind
// them: if the journal refuses the content of a change, Drain writes the bare state, and if it refuses even that, Drain
// quarantines the entry, as it does an entry that cannot be read. Entries for which the quarantine has no room stay in
// the outbox, and so do entries that a newer tarry wrote, for an instance that knows their form. Drain then returns
// ErrQuarantineFull or ErrNewer after it has drained all others.
func (r *Reconciler) Drain(ctx context.Context, bucket message.Bucket, age message.Milli) (drained, refused int,
	err error) {
	d := &drain{Reconciler: r, bucket: bucket}
	err = d.run(ctx, age)
	return d.drained, d.refused, err
}

// drain is one pass through a bucket's outbox.
type drain struct {
	*Reconciler
	bucket message.Bucket

	drained, refused, stay int
	newer                  error   // why an entry of a newer tarry stays
	number                 uint64  // of the entries being committed
	aside                  []aside // for the end of the pass
}

func (d *drain) run(ctx context.Context, age message.Milli) error {
	for entries, err := range d.unwritten(ctx, d.bucket, age) {
		if err != nil {
			return err
		}
		for len(entries) > 0 {
			n := together(entries)
			if err := d.some(ctx, entries[:n]); err != nil {
				return err
			}
			entries = entries[n:]
		}
	}
	if err := d.quarantine(ctx); err != nil {
		return err
	}
	if d.newer != nil {
		return fmt.Errorf("an entry stays in the outbox: %w", d.newer)
	}
	if d.stay > 0 {
		return fmt.Errorf("%d entries stay that the journal cannot hold: %w", d.stay, record.ErrQuarantineFull)
	}
	return nil
}

// together returns how many entries, from the first, go into one commit. A damaged entry is always alone.
func together(entries []record.Entry) int {
	rows := 0
	for n := range entries {
		if rows += len(entries[n].Changes); n > 0 && (entries[n].Damaged != nil || rows > commitRows) {
			return n
		}
		if entries[n].Damaged != nil {
			return 1
		}
	}
	return len(entries)
}

// some commits a few entries, one by one if the journal refuses them together. A damaged entry is always alone.
func (d *drain) some(ctx context.Context, entries []record.Entry) error {
	var changes []record.Change
	d.number = 0
	for i := range entries {
		changes = append(changes, entries[i].Changes...)
		d.number = max(d.number, entries[i].Number) // for the fence: their server may have been replaced
	}
	if e := &entries[0]; errors.Is(e.Damaged, scheduler.ErrNewer) {
		d.newer = e.Damaged
		return nil
	} else if e.Damaged != nil {
		d.setAside(e, e.Damaged.Error(), changes)
		return nil
	}
	err := d.write(ctx, changes)
	switch {
	case err == nil:
		d.drained += len(changes)
		return d.written(ctx, entries)
	case !refused(err):
		return err
	case len(entries) > 1:
		for i := range entries {
			if err := d.some(ctx, entries[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	}
	var bare []record.Change
	var reason error
	lost, why, err := salvage(ctx, changes, d.write, func(c *record.Change, why error) {
		bare, reason = append(bare, *c), why
		d.Log.Error().Str("why", refusal(why)).Str("uid", string(c.UID)).Uint64("version", c.Version).
			Str("state", c.State.String()).Int("bucket", int(d.bucket)).
			Msg("the journal refuses a change for good; it gets the bare state")
	})
	switch {
	case err != nil:
		return err
	case len(lost) > 0:
		d.setAside(&entries[0], "the journal refuses it: "+refusal(why), lost)
		return nil
	}
	d.drained += len(changes)
	if len(bare) > 0 {
		return d.tell(ctx, &entries[0], "the journal refuses the content: "+refusal(reason), bare)
	}
	return d.written(ctx, entries)
}

// tell quarantines an entry that the journal holds but for the content of some messages, so that an operator learns of
// them. If the quarantine is full, the entry goes: nothing but the content is missing, which the timeline has.
func (d *drain) tell(ctx context.Context, e *record.Entry, why string, bare []record.Change) error {
	q := record.Quarantined{Bucket: d.bucket, Number: e.Number, ID: e.ID, Reason: why, Known: true,
		At: message.Milli(time.Now().UnixMilli()), UIDs: mapped(bare, changeUID)}
	err := within(ctx, d.Timeout, func(ctx context.Context) error { return d.Timeline.Quarantine(ctx, q) })
	d.refused++
	switch {
	case errors.Is(err, record.ErrQuarantineFull):
		return d.written(ctx, []record.Entry{*e})
	case err != nil:
		return fmt.Errorf("quarantine an entry: %w", err)
	}
	return nil
}

// write commits changes of this bucket.
func (d *drain) write(ctx context.Context, changes []record.Change) error {
	if len(changes) == 0 {
		return nil
	}
	fences := map[message.Bucket]uint64{}
	if d.number > 0 {
		fences[d.bucket] = d.number
	}
	err := within(ctx, d.Timeout, func(ctx context.Context) error { return d.Store.Write(ctx, fences, changes) })
	return wrap(err, "write %d changes", len(changes))
}

// written removes committed entries from the outbox.
func (d *drain) written(ctx context.Context, entries []record.Entry) error {
	err := within(ctx, d.Timeout, func(ctx context.Context) error { return d.Timeline.Written(ctx, d.bucket, entries) })
	return wrap(err, "remove %d committed entries", len(entries))
}

// salvage commits as many as it can of changes that may be refused together, so that a refused change costs the others
// nothing. If a single change is refused, salvage commits its bare state, without any text or content. The journal then
// knows if the message ended, and does not restore a message whose acceptance was committed in this way. salvage
// returns the changes that are refused even so, and why. bare, which may be nil, is called for each change whose bare
// state is committed.
func salvage(ctx context.Context, changes []record.Change, write func(context.Context, []record.Change) error,
	bare func(c *record.Change, why error)) (lost []record.Change, why, err error) {
	if err := write(ctx, changes); !refused(err) {
		return nil, nil, err
	} else if len(changes) == 1 {
		why = err
	}
	if half := len(changes) / 2; half > 0 {
		first, why1, err := salvage(ctx, changes[:half], write, bare)
		if err != nil {
			return nil, nil, err
		}
		second, why2, err := salvage(ctx, changes[half:], write, bare)
		why1 = cmp.Or(why1, why2)
		return append(first, second...), why1, err
	}
	c := changes[0]
	if c.Version == 0 {
		bare := *c.Rejected
		bare.Body, c.Rejected = nil, &bare
	} else {
		c.Message, c.Reason, c.By = nil, record.RefusedReason, ""
		c.Instance, c.Address, c.Stream, c.Sequence = "", "", "", 0
	}
	if err := write(ctx, []record.Change{c}); refused(err) {
		return changes, err, nil
	} else if err != nil {
		return nil, nil, err
	}
	if bare != nil {
		bare(&c, why)
	}
	return nil, nil, nil
}

// aside is an entry that the journal cannot hold.
type aside struct {
	record.Quarantined
	made []message.Milli // when the change of each message was made
}

// setAside keeps an entry that the journal cannot hold, because of the changes in lost, until the pass has drained all
// others.
func (d *drain) setAside(e *record.Entry, why string, lost []record.Change) {
	if len(d.aside) == record.MaxQuarantined { // no quarantine has room for more
		d.stay++
		return
	}
	a := aside{Quarantined: record.Quarantined{Bucket: d.bucket, Number: e.Number, ID: e.ID, Reason: why}}
	for i := range lost {
		a.UIDs, a.made = append(a.UIDs, lost[i].UID), append(a.made, lost[i].At)
	}
	d.aside = append(d.aside, a)
}

// quarantine quarantines the entries that were set aside. Before that it writes the current states of their messages to
// the journal: once an entry is gone, the timeline may forget ends. quarantine runs last, and writes no change that
// another entry of the outbox holds: the journal accepts each change once, and that entry holds more of it than the
// timeline.
func (d *drain) quarantine(ctx context.Context) error {
	if len(d.aside) == 0 {
		return nil
	}
	stands, own := map[message.UID]record.Stand{}, map[string]bool{}
	for i := range d.aside {
		some, err := d.versions(ctx, d.bucket, d.aside[i].UIDs)
		if err != nil {
			return err
		}
		maps.Copy(stands, some)
		own[d.aside[i].ID] = true
	}
	coming, err := d.onTheWay(ctx, d.bucket, stands, own)
	if err != nil {
		return err
	}
	for i := range d.aside {
		a := &d.aside[i]
		d.number, a.Known = a.Number, len(a.UIDs) > 0
		for n, uid := range a.UIDs {
			known, err := d.catchUp(ctx, uid, stands[uid].Version, coming, a.made[n])
			if err != nil {
				return err
			}
			a.Known = a.Known && known
		}
		if err := d.move(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// onTheWay returns the changes in a bucket's outbox that concern the messages in stands. It leaves out the entries
// whose ids are in but. Changes that left the outbox after stands was read are in the journal.
func (r *Reconciler) onTheWay(ctx context.Context, bucket message.Bucket, stands map[message.UID]record.Stand,
	but map[string]bool) (map[change]bool, error) {
	found := map[change]bool{}
	for entries, err := range r.unwritten(ctx, bucket, 0) {
		if err != nil {
			return nil, err
		}
		for i := range entries {
			if but[entries[i].ID] {
				continue
			}
			for _, c := range entries[i].Changes {
				if stands[c.UID].Version > 0 {
					found[change{c.UID, c.Version}] = true
				}
			}
		}
	}
	return found, nil
}

// catchUp writes the state that a message has in the timeline to the journal, after a change of the message was lost.
// version is its version in the timeline. coming holds the changes that are still in the outbox: they apply after this
// one, so the state is written under the latest version that is not among them. If the journal already has that
// version, only the content is written, which the lost change may have held. made is when the lost change was made.
// catchUp reports whether the journal then knows the message's state.
func (d *drain) catchUp(ctx context.Context, uid message.UID, version uint64, coming map[change]bool,
	made message.Milli) (known bool, err error) {
	if version == 0 { // the stored record is damaged too, or gone
		return false, nil
	}
	last := version
	for last > 0 && coming[change{uid, last}] {
		last--
	}
	if last == 0 {
		return true, nil
	}
	call, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	found, err := d.Timeline.Find(call, scheduler.Ref{UID: uid})
	switch {
	case errors.Is(err, scheduler.ErrUnavailable), errors.Is(err, scheduler.ErrOutcomeUnknown),
		errors.Is(err, scheduler.ErrStaleTerm), err != nil && call.Err() != nil:
		return false, fmt.Errorf("look at %s: %w", uid, err)
	case err != nil || len(found) == 0: // damaged, or gone
		return false, nil
	}
	now := asItStands(&found[0])
	now.At, now.Bucket, now.Reason = made, d.bucket, "what led here is lost"
	if ended := found[0].EndedAt; ended > 0 {
		now.At = ended
	}
	if now.Version > last {
		if now.Message == nil {
			return true, nil // its end is on the way
		}
		now.Version, now.State, now.At, now.Kind, now.Other = last, message.StateWaiting, made, 0, ""
	}
	lost, _, err := salvage(ctx, []record.Change{now}, d.write, nil)
	return len(lost) == 0, err
}

// move moves an entry from the outbox to the quarantine.
func (d *drain) move(ctx context.Context, a *aside) error {
	a.At = message.Milli(time.Now().UnixMilli())
	err := within(ctx, d.Timeout, func(ctx context.Context) error { return d.Timeline.Quarantine(ctx, a.Quarantined) })
	switch {
	case errors.Is(err, record.ErrQuarantineFull):
		d.stay++
	case err != nil:
		return fmt.Errorf("quarantine an entry: %w", err)
	default:
		d.refused++
		d.Log.Error().Str("why", a.Reason).Strs("uids", words(a.UIDs)).Bool("known", a.Known).
			Str("entry", a.ID).Int("bucket", int(d.bucket)).
			Msg("an entry of the outbox is quarantined: the journal lacks its changes")
	}
	return nil
}

func words(uids []message.UID) []string {
	return mapped(uids, func(u *message.UID) string { return string(*u) })
}

// asItStands returns what the timeline knows of a message as a change for the journal.
func asItStands(i *message.Info) record.Change {
	c := record.Change{UID: i.UID, Version: i.Version, State: i.State, Kind: i.Kind, Other: i.Other,
		Due: i.Due, Uncertain: i.Mark.Uncertain, Refusals: i.Mark.Refusals}
	if i.State == message.StateInFlight {
		c.State = message.StateWaiting // in flight is not a state of the journal
	}
	if i.State.Kept() {
		c.Message = &i.Message
	}
	return c
}
