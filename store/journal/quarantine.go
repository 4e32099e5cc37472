package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
)

// aside is an entry that the journal cannot hold.
type aside struct {
	scheduler.Quarantined
	made []scheduler.Milli // when the change of each message was made
}

// setAside keeps an entry that the journal cannot hold because of some changes, until
// the run has drained all others.
func (d *drain) setAside(e *scheduler.Entry, why string, lost []scheduler.Change) {
	if len(d.aside) == scheduler.MaxQuarantined { // no quarantine has room for more
		d.stay++
		return
	}
	a := aside{Quarantined: scheduler.Quarantined{Bucket: d.bucket, Number: e.Number, ID: e.ID, Reason: why}}
	for i := range lost {
		a.UIDs, a.made = append(a.UIDs, lost[i].UID), append(a.made, lost[i].At)
	}
	d.aside = append(d.aside, a)
}

// quarantine takes out of the way what was set aside. Before that it writes down how
// those messages stand now: once an entry is gone the timeline may forget what ended. It
// comes last, and writes no change that another entry of the outbox holds: the journal
// takes each change once, and the entry has more of it than the timeline.
func (d *drain) quarantine(ctx context.Context) error {
	if len(d.aside) == 0 {
		return nil
	}
	stands, own := map[scheduler.UID]scheduler.Stand{}, map[string]bool{}
	for i := range d.aside {
		call, cancel := context.WithTimeout(ctx, d.timeout)
		some, err := d.tl.Versions(call, d.bucket, d.aside[i].UIDs)
		cancel()
		if err != nil {
			return fmt.Errorf("ask for versions in bucket %d: %w", d.bucket, err)
		}
		maps.Copy(stands, some)
		own[d.aside[i].ID] = true
	}
	coming, err := onTheWay(ctx, d.tl, d.bucket, d.timeout, stands, own)
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

// onTheWay are the changes of messages that stand in a bucket's outbox, but for some
// entries. What has left it since stands was read is in the journal.
func onTheWay(ctx context.Context, tl scheduler.Outbox, bucket int, timeout time.Duration,
	stands map[scheduler.UID]scheduler.Stand, but map[string]bool) (map[change]bool, error) {
	found := map[change]bool{}
	for after := ""; ; {
		call, cancel := context.WithTimeout(ctx, timeout)
		entries, err := tl.Unwritten(call, bucket, after, 0, drainEntries, commitBytes)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("read the outbox: %w", err)
		}
		if len(entries) == 0 {
			return found, nil
		}
		after = entries[len(entries)-1].ID
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
}

// catchUp writes down how a message of this version stands, under the latest version that
// is not on its way to the journal: what is on its way comes after that. Where the journal
// has that version already it gets the content alone, which the lost change may have held.
// made is when that change was made. It reports whether the journal knows the message as
// it is then.
func (d *drain) catchUp(ctx context.Context, uid scheduler.UID, version uint64, coming map[change]bool,
	made scheduler.Milli) (known bool, err error) {
	if version == 0 { // what stands there is damaged too, or gone
		return false, nil
	}
	last := version
	for last > 0 && coming[change{uid, last}] {
		last--
	}
	if last == 0 {
		return true, nil
	}
	call, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	found, err := d.tl.Find(call, scheduler.Ref{UID: uid})
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
		now.Version, now.State, now.At, now.Kind, now.Other = last, scheduler.StateWaiting, made, 0, ""
	}
	lost, _, err := d.salvage(ctx, []scheduler.Change{now})
	return len(lost) == 0, err
}

// move moves an entry from the outbox to the quarantine.
func (d *drain) move(ctx context.Context, a *aside) error {
	a.At = scheduler.Milli(time.Now().UnixMilli())
	call, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	switch err := d.tl.Quarantine(call, a.Quarantined); {
	case errors.Is(err, scheduler.ErrQuarantineFull):
		d.stay++
	case err != nil:
		return fmt.Errorf("quarantine an entry: %w", err)
	default:
		d.refused++
		d.log.Error().Str("why", a.Reason).Strs("uids", words(a.UIDs)).Bool("known", a.Known).
			Str("entry", a.ID).Int("bucket", d.bucket).
			Msg("an entry of the outbox is quarantined: the journal lacks its changes")
	}
	return nil
}

func words(uids []scheduler.UID) []string {
	all := make([]string, len(uids))
	for i, uid := range uids {
		all[i] = string(uid)
	}
	return all
}

// asItStands returns what the timeline knows of a message, in the journal's form.
func asItStands(i *scheduler.Info) scheduler.Change {
	c := scheduler.Change{UID: i.UID, Version: i.Version, State: i.State, Kind: i.Kind, Other: i.Other,
		Due: i.Due, Uncertain: i.Mark.Uncertain, Refusals: i.Mark.Refusals}
	if i.State == scheduler.StateInFlight {
		c.State = scheduler.StateWaiting // a claim is no state of the journal
	}
	if withContent(i.State) {
		c.Message = &i.Message
	}
	return c
}

// withContent reports whether the timeline still has the content of a message in a state.
func withContent(s scheduler.State) bool { return !s.Ended() || s == scheduler.StateDead }
