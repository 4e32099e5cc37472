package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
)

// Drain commits a bucket's entries that are at least age old and removes them. It
// returns how many changes it committed, and of how many entries the journal refused
// some for good. Nothing stands behind those: where the journal refuses the content
// of a change it gets the bare state, and what it refuses even so is quarantined, as
// is an entry that cannot be read. Entries for which the quarantine has no room stay,
// and those that a newer tarry wrote, for one that knows their form: the error is
// ErrQuarantineFull or ErrNewer once all others are drained.
func Drain(ctx context.Context, store Store, tl scheduler.Mending, bucket int, age scheduler.Milli,
	timeout time.Duration, log zerolog.Logger) (drained, refused int, err error) {
	d := &drain{store: store, tl: tl, bucket: bucket, timeout: timeout, log: log}
	err = d.run(ctx, age)
	return d.drained, d.refused, err
}

// drain is one run through a bucket's outbox.
type drain struct {
	store   Store
	tl      scheduler.Mending
	bucket  int
	timeout time.Duration
	log     zerolog.Logger

	drained, refused, stay int
	newer                  error   // why an entry stays that a newer tarry wrote
	number                 uint64  // of the entries that are being committed
	aside                  []aside // for the end of the run
}

func (d *drain) run(ctx context.Context, age scheduler.Milli) error {
	for after := ""; ; {
		call, cancel := context.WithTimeout(ctx, d.timeout)
		entries, err := d.tl.Unwritten(call, d.bucket, after, age, drainEntries, commitBytes)
		cancel()
		if err != nil {
			return fmt.Errorf("read the outbox: %w", err)
		}
		if len(entries) == 0 {
			break
		}
		after = entries[len(entries)-1].ID
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
		return fmt.Errorf("%d entries stay that the journal cannot hold: %w", d.stay, scheduler.ErrQuarantineFull)
	}
	return nil
}

// together is how many entries, from the first, go into one commit. A damaged one
// goes alone.
func together(entries []scheduler.Entry) int {
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

// some commits a few entries, one by one where the journal refuses them together. A
// damaged one comes alone.
func (d *drain) some(ctx context.Context, entries []scheduler.Entry) error {
	var changes []scheduler.Change
	d.number = 0
	for i := range entries {
		changes = append(changes, entries[i].Changes...)
		d.number = max(d.number, entries[i].Number) // of the server that was read: it may have been replaced
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
	lost, why, err := d.salvage(ctx, changes)
	switch {
	case err != nil:
		return err
	case len(lost) > 0:
		d.setAside(&entries[0], "the journal refuses it: "+refusal(why), lost)
		return nil
	}
	d.refused++
	d.drained += len(changes)
	return d.written(ctx, entries)
}

// write commits changes of this bucket.
func (d *drain) write(ctx context.Context, changes []scheduler.Change) error {
	if len(changes) == 0 {
		return nil
	}
	fences := map[int]uint64{}
	if d.number > 0 {
		fences[d.bucket] = d.number
	}
	call, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	if err := d.store.Write(call, fences, changes); err != nil {
		return fmt.Errorf("write %d changes: %w", len(changes), err)
	}
	return nil
}

// written removes entries that are committed.
func (d *drain) written(ctx context.Context, entries []scheduler.Entry) error {
	call, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	if err := d.tl.Written(call, d.bucket, entries); err != nil {
		return fmt.Errorf("remove %d committed entries: %w", len(entries), err)
	}
	return nil
}

// refusedReason is what the history says of a change whose own words and content
// the journal refused.
const refusedReason = "the journal refused the content of this change"

// salvage commits what it can of changes that may be refused together: so one costs
// the others nothing. Of what is refused by itself it commits the bare state, without
// any text and content: what ends is known to have ended, and what was accepted so is
// not restored. It returns those that are refused even so, and why.
func (d *drain) salvage(ctx context.Context, changes []scheduler.Change) (lost []scheduler.Change, why, err error) {
	if err := d.write(ctx, changes); !refused(err) {
		return nil, nil, err
	} else if len(changes) == 1 {
		why = err
	}
	if half := len(changes) / 2; half > 0 {
		first, why1, err := d.salvage(ctx, changes[:half])
		if err != nil {
			return nil, nil, err
		}
		second, why2, err := d.salvage(ctx, changes[half:])
		if why1 == nil {
			why1 = why2
		}
		return append(first, second...), why1, err
	}
	c := changes[0]
	c.Message, c.Reason, c.Instance, c.Address, c.Stream, c.Sequence = nil, refusedReason, "", "", "", 0
	if err := d.write(ctx, []scheduler.Change{c}); refused(err) {
		return changes, err, nil
	} else if err != nil {
		return nil, nil, err
	}
	d.log.Error().Str("why", refusal(why)).Str("uid", string(c.UID)).Uint64("version", c.Version).
		Str("state", c.State.String()).Int("bucket", d.bucket).
		Msg("the journal refuses a change for good; it gets the bare state")
	return nil, nil, nil
}
