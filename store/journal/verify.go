package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

const (
	verifyPage = 1000
	// verifyLooks is how often a difference is checked, and verifyPause the time between checks: together longer than
	// an entry may take through the Drainer.
	verifyLooks = 5
	verifyPause = 600 * time.Millisecond
)

// Verify compares the timeline with the journal in both directions: the live messages of the journal, and the messages
// of the timeline. Under traffic the two differ by the changes on their way. So a difference counts only if it is still
// there after the outbox has had time to drain, and no entry of the outbox will resolve it. progress, which may be nil,
// is called now and then.
//
// A message that a whole store lacks has ended if the journal changed it after the store was certified, or if an audit
// has restored since what the store lacked then: the store had it, and the journal has lost its end, as a replica does
// that lacks the last commits. A repair notes that in the journal, so that no restore takes the message up. It comes
// back only if a request says so.
func (r *Reconciler) Verify(ctx context.Context, req record.VerifyRequest,
	progress func(record.VerifyReport)) (record.VerifyReport, error) {
	c := &comparison{Reconciler: r, req: req, lacking: map[message.Bucket]bool{}, progress: nowAndThen(progress),
		restoring: restoring{Reconciler: r, doubts: make([]doubt, r.Buckets)},
		report:    record.VerifyReport{Found: map[string]int{}}}
	err := within(ctx, r.Timeout, func(ctx context.Context) (err error) {
		c.standings, err = r.Timeline.Standings(ctx)
		return err
	})
	if err != nil {
		return c.report, fmt.Errorf("ask since when the store is whole: %w", ofStore(err))
	}
	if req.Revive {
		if err := c.unnote(ctx); err != nil {
			return c.report, err
		}
	}
	if err := c.fromJournal(ctx); err != nil {
		return c.report, err
	}
	if err := c.fromStore(ctx); err != nil {
		return c.report, err
	}
	if err := c.audited(ctx); err != nil {
		return c.report, err
	}
	return c.report, c.refused(ctx)
}

// audited notes in the certifications that this audit has restored what whole buckets lacked.
func (c *comparison) audited(ctx context.Context) error {
	for bucket, s := range c.standings {
		if !c.req.Repair || !s.Whole() || s.Audited || c.lacking[message.Bucket(bucket)] {
			continue
		}
		err := within(ctx, c.Timeout, func(ctx context.Context) error {
			return c.Timeline.Audited(ctx, message.Bucket(bucket), s.Number)
		})
		if err != nil {
			return fmt.Errorf("note the audit of bucket %d: %w", bucket, ofStore(err))
		}
	}
	return nil
}

// comparison is one run.
type comparison struct {
	*Reconciler
	req       record.VerifyRequest
	standings []record.Standing // before the journal was read
	progress  func(record.VerifyReport)
	restoring restoring               // for repairs
	lacking   map[message.Bucket]bool // buckets that lack messages still: what they lack next has not ended therefore
	report    record.VerifyReport
}

// both is the state of one message on both sides; version 0 means unknown.
type both struct {
	store, journal record.Stand
}

// kind returns the kind of difference, or "" if there is none. At equal versions, the two sides differ only if the
// message has ended on one of them. The timeline may have forgotten a message that ended, unless it is dead.
func (b both) kind() string {
	switch {
	case b.journal.Version == 0 && b.store.Version > 0:
		return record.MissingInJournal
	case b.store.Version == 0 && b.journal.Version > 0 && stays(b.journal.State):
		return record.MissingInStore
	case b.store.Version == 0:
		return ""
	case b.store.Version == b.journal.Version && b.store.State.Ended() == b.journal.State.Ended():
		return ""
	case b.store.Version == b.journal.Version && b.journal.State.Ended():
		return record.StoreOlder // at equal versions an end wins
	case b.store.Version < b.journal.Version:
		return record.StoreOlder
	}
	return record.StoreNewer
}

// refused lists the transitions that the timeline refused, and the entries that the journal could not hold.
func (c *comparison) refused(ctx context.Context) error {
	for bucket := range c.Buckets {
		call, cancel := context.WithTimeout(ctx, c.Timeout)
		some, err := c.Timeline.Refused(call, bucket)
		cancel()
		if err != nil {
			return fmt.Errorf("list what bucket %d refused: %w", bucket, ofStore(err))
		}
		c.report.Refused = append(c.report.Refused, some...)
		for entries, err := range c.quarantined(ctx, bucket, new(string)) {
			if err != nil {
				return ofStore(err)
			}
			c.report.Quarantined = append(c.report.Quarantined, entries...)
		}
	}
	return nil
}

// fromJournal compares the staying messages of the journal.
func (c *comparison) fromJournal(ctx context.Context) error {
	for page, err := range c.list(ctx, record.RecordQuery{States: staying(), Limit: verifyPage}) {
		if err != nil {
			return err
		}
		c.report.InJournal += len(page)
		if err := c.compare(ctx, mapped(page, recordUID)); err != nil {
			return err
		}
	}
	return nil
}

// fromStore compares the messages of the timeline.
func (c *comparison) fromStore(ctx context.Context) error {
	for bucket := range c.Buckets {
		for cursor := ""; ; {
			call, cancel := context.WithTimeout(ctx, c.Timeout)
			uids, next, err := c.Timeline.Walk(call, bucket, cursor, verifyPage)
			cancel()
			if err != nil {
				return fmt.Errorf("walk through bucket %d: %w", bucket, ofStore(err))
			}
			c.report.InStore += len(uids)
			for part := range slices.Chunk(uids, verifyPage) {
				if err := c.compare(ctx, part); err != nil {
					return err
				}
			}
			if next == "" {
				break
			}
			cursor = next
		}
	}
	return nil
}

// compare checks some messages, repeatedly those that differ, and counts and repairs the lasting differences.
func (c *comparison) compare(ctx context.Context, uids []message.UID) error {
	found, err := c.look(ctx, uids)
	if err != nil {
		return err
	}
	for look := 1; look < verifyLooks && len(found) > 0; look++ {
		_ = scheduler.Sleep(ctx, cmp.Or(c.LookPause, verifyPause))
		if found, err = c.look(ctx, slices.Collect(maps.Keys(found))); err != nil {
			return err
		}
	}
	if err := c.dropComing(ctx, found); err != nil {
		return err
	}
	for uid, b := range found {
		if b.kind() == record.MissingInStore && c.standings[uid.Bucket(c.Buckets)].Filling {
			continue // the recovery brings it
		}
		d := record.Difference{UID: uid, Bucket: uid.Bucket(c.Buckets), Kind: b.kind(), Store: b.store,
			Journal: b.journal}
		mend := c.mend
		if ended, err := c.ended(ctx, &d); err != nil {
			return err
		} else if ended {
			if d.Kind = record.EndedInStore; !c.req.Revive {
				mend = c.note
			}
		}
		if c.req.Repair || c.req.Revive && d.Kind == record.EndedInStore {
			// A message that SQL refuses for good stays different, and is counted as such.
			if d.Repaired, err = mend(ctx, &d); err != nil && (Retryable(err) || ctx.Err() != nil) {
				return fmt.Errorf("repair %s: %w", uid, err)
			}
		}
		c.report.Found[d.Kind]++
		if d.Kind == record.MissingInStore && !d.Repaired {
			c.lacking[d.Bucket] = true
		}
		if d.Repaired {
			c.report.Repaired++
		}
		if len(c.report.Differences) < record.MaxDifferences {
			c.report.Differences = append(c.report.Differences, d)
		}
	}
	c.progress(c.report)
	return ctx.Err()
}

// dropComing drops the differences that the outbox explains: its entries hold changes that the journal does not have
// yet. It also drops messages that have changed meanwhile, since the outbox was read before that change. Changes that
// left the outbox before the last look are in the journal.
func (c *comparison) dropComing(ctx context.Context, found map[message.UID]both) error {
	if len(found) == 0 {
		return nil
	}
	uids, stands := slices.Collect(maps.Keys(found)), make([]map[message.UID]record.Stand, c.Buckets)
	for uid, b := range found {
		if kind := b.kind(); kind != record.StoreNewer && kind != record.MissingInJournal {
			continue
		}
		bucket := uid.Bucket(c.Buckets)
		if stands[bucket] == nil {
			stands[bucket] = map[message.UID]record.Stand{}
		}
		stands[bucket][uid] = b.store
	}
	for i, mine := range stands {
		if len(mine) == 0 {
			continue
		}
		coming, err := c.onTheWay(ctx, message.Bucket(i), mine, nil)
		if err != nil {
			return ofStore(err)
		}
		for uid, stand := range mine {
			if coming[change{uid, stand.Version}] {
				delete(found, uid)
			}
		}
	}
	again, err := c.look(ctx, uids)
	maps.DeleteFunc(found, func(uid message.UID, b both) bool { return again[uid].store.Version != b.store.Version })
	return err
}

// look returns the messages that differ now. It asks the journal first: a change between the two questions makes the
// store newer, not older.
func (c *comparison) look(ctx context.Context, uids []message.UID) (map[message.UID]both, error) {
	all := make(map[message.UID]both, len(uids))
	call, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	records, err := c.Store.Versions(call, uids)
	if err != nil {
		return nil, fmt.Errorf("ask the journal for versions: %w: %w", ErrNoDatabase, err)
	}
	for i, mine := range byBucket(uids, c.Buckets, func(uid *message.UID) message.UID { return *uid }) {
		if len(mine) == 0 {
			continue
		}
		stands, err := c.versions(ctx, message.Bucket(i), mine)
		if err != nil {
			return nil, ofStore(err)
		}
		for _, uid := range mine {
			if b := (both{store: stands[uid], journal: records[uid]}); b.kind() != "" {
				all[uid] = b
			}
		}
	}
	return all, nil
}

// ended reports whether a message that is missing in the store has ended. A record that is there and cannot be read is
// not missing.
func (c *comparison) ended(ctx context.Context, d *record.Difference) (bool, error) {
	s := c.standings[d.Bucket]
	if d.Kind != record.MissingInStore || !s.Whole() || d.Journal.At <= s.DoubtUntil && !s.Audited {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	found, err := c.Timeline.Find(ctx, scheduler.Ref{UID: d.UID})
	if errors.Is(err, scheduler.ErrUnreadable) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look %s up in the store: %w", d.UID, ofStore(err))
	}
	return len(found) == 0, nil
}

// mend raises the older side to the higher version.
func (c *comparison) mend(ctx context.Context, d *record.Difference) (bool, error) {
	call, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if d.Kind != record.MissingInJournal && d.Kind != record.StoreNewer {
		read := c.Clock.Milli()
		records, err := c.records(call, []message.UID{d.UID})
		if err != nil {
			return false, err
		}
		for i := range records {
			r := &records[i]
			r.Doubt = d.Kind != record.StoreOlder
			r.Mark.Uncertain = r.Mark.Uncertain || r.Doubt && r.State == message.StateDead
		}
		c.restoring.report = record.RestoreReport{}
		err = c.restoring.bring(call, records, read) // it repeats a lost call until the time is over
		return c.restoring.report.Added+c.restoring.report.Raised > 0, err
	}
	found, err := c.Timeline.Find(call, scheduler.Ref{UID: d.UID})
	switch {
	case errors.Is(err, scheduler.ErrUnreadable):
		return false, nil // the store's record is unreadable: the difference stays
	case err != nil:
		return false, fmt.Errorf("look it up in the store: %w", ofStore(err))
	case len(found) == 0 || found[0].Version != d.Store.Version: // it changed, and that change's entry is on its way
		return false, nil
	}
	now := asItStands(&found[0])
	now.Reason = "repaired from the store"
	return c.write(call, now)
}

// write makes a change of the journal alone.
func (c *comparison) write(ctx context.Context, now record.Change) (done bool, err error) {
	bucket := now.UID.Bucket(c.Buckets)
	now.At, now.Bucket, now.Instance, now.Address = c.Clock.Milli(), bucket, c.Instance, c.Address
	// The store may have been replaced since the audit began: what it says then is no longer true.
	fences := map[message.Bucket]uint64{bucket: c.standings[bucket].Number}
	if err := c.Store.Write(ctx, fences, []record.Change{now}); err != nil {
		return false, fmt.Errorf("write to the journal: %w", err)
	}
	return true, nil
}

// note notes that a message has ended and that the journal has lost how.
func (c *comparison) note(ctx context.Context, d *record.Difference) (bool, error) {
	records, err := c.records(ctx, []message.UID{d.UID})
	if err != nil || len(records) == 0 || records[0].Version != d.Journal.Version {
		return false, err
	}
	m := &records[0]
	end := record.Change{UID: d.UID, Version: m.Version + 1, State: message.StateCanceled, Due: m.Due,
		Uncertain: m.State != message.StateDead || m.Mark.Uncertain, Refusals: m.Mark.Refusals, Kind: message.KindEndLost}
	end.Reason = end.Kind.Words("", end.Uncertain)
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return c.write(ctx, end)
}

// unnote lets the journal have as waiting or dead, as before, what was noted and the store does not know.
func (c *comparison) unnote(ctx context.Context) error {
	q := record.RecordQuery{States: []message.State{message.StateCanceled}, Limit: verifyPage}
	for page, err := range c.list(ctx, q) {
		if err != nil {
			return err
		}
		page = slices.DeleteFunc(page, func(r record.Record) bool { return r.Kind != message.KindEndLost })
		for i := range page {
			if err := c.revive(ctx, &page[i]); err != nil {
				return fmt.Errorf("revive %s: %w", page[i].UID, err)
			}
		}
	}
	return nil
}

func (c *comparison) revive(ctx context.Context, r *record.Record) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	stands, err := c.versions(ctx, r.UID.Bucket(c.Buckets), []message.UID{r.UID})
	if err != nil || stands[r.UID].Version > 0 {
		return ofStore(err)
	}
	history, err := c.Store.History(ctx, r.UID, record.MaxChanges)
	if err != nil {
		return fmt.Errorf("read what it was: %w: %w", ErrNoDatabase, err)
	}
	was := slices.IndexFunc(history, func(c record.Change) bool { return c.Version == r.Version-1 })
	if was < 0 {
		return nil // its changes are no longer kept
	}
	_, err = c.write(ctx, record.Change{UID: r.UID, Version: r.Version + 1, State: history[was].State, Due: r.Due,
		Uncertain: true, Refusals: r.Mark.Refusals, Kind: message.KindRestored,
		Reason: message.KindRestored.Words("", true)})
	return err
}

// ofStore marks an error as the store's and not the journal's, whatever it wraps.
func ofStore(err error) error {
	if err == nil || errors.Is(err, scheduler.ErrUnavailable) || errors.Is(err, scheduler.ErrOutcomeUnknown) {
		return err
	}
	return fmt.Errorf("%w: %w", scheduler.ErrUnavailable, err)
}
