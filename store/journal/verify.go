package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
)

// Verifier compares the timeline with the journal, both ways: what lives in the
// journal, and what stands in the timeline. While traffic goes on the two differ
// by what is on its way, so a difference counts only when it is still there
// after the outbox has had time to drain, and no entry of the outbox will mend it.
type Verifier struct {
	Store    Store
	Timeline scheduler.Mending
	Buckets  int
	Clock    *scheduler.Clock
	// Instance and Address sign the changes of a repair.
	Instance string
	Address  func() string
	Timeout  time.Duration
	Log      zerolog.Logger
}

const (
	verifyPage = 1000
	// verifyLooks is how often a difference is looked at again, and verifyPause the
	// time between: together longer than an entry may take by way of the Drainer.
	verifyLooks = 5
	verifyPause = 600 * time.Millisecond
)

// Run compares everything; progress, which may be nil, is called now and then.
func (v *Verifier) Run(ctx context.Context, req scheduler.VerifyRequest,
	progress func(scheduler.VerifyReport)) (scheduler.VerifyReport, error) {
	c := &comparison{Verifier: v, repair: req.Repair, progress: progress, told: time.Now(),
		doubts: newDoubts(v.Timeline, v.Buckets, v.Timeout), report: scheduler.VerifyReport{Found: map[string]int{}}}
	if err := c.fromJournal(ctx); err != nil {
		return c.report, err
	}
	if err := c.fromStore(ctx); err != nil {
		return c.report, err
	}
	return c.report, c.refused(ctx)
}

// comparison is one run.
type comparison struct {
	*Verifier
	repair   bool
	progress func(scheduler.VerifyReport)
	told     time.Time
	doubts   *doubts
	report   scheduler.VerifyReport
}

// both is how one message stands on both sides; versions of 0 are unknown there.
type both struct {
	store, journal scheduler.Stand
}

// kind is the difference, empty when there is none. What ended on both sides, or
// ended in one and is forgotten by the other, is none; what is dead is not forgotten.
func (b both) kind() string {
	switch {
	case b.journal.Version == 0 && b.store.Version > 0:
		return scheduler.MissingInJournal
	case b.store.Version == 0 && b.journal.Version > 0 && stays(b.journal.State):
		return scheduler.MissingInStore
	case b.store.Version == 0:
		return ""
	case b.store.Version == b.journal.Version && b.store.State.Ended() == b.journal.State.Ended():
		return ""
	case b.store.Version == b.journal.Version && b.journal.State.Ended():
		return scheduler.StoreOlder // of one version an end wins
	case b.store.Version < b.journal.Version:
		return scheduler.StoreOlder
	}
	return scheduler.StoreNewer
}

// refused lists the transitions that the timeline did not make, and the entries that
// the journal could not hold.
func (c *comparison) refused(ctx context.Context) error {
	for bucket := range c.Buckets {
		call, cancel := context.WithTimeout(ctx, c.Timeout)
		some, err := c.Timeline.Refused(call, bucket)
		cancel()
		if err != nil {
			return fmt.Errorf("list what bucket %d refused: %w", bucket, ofStore(err))
		}
		c.report.Refused = append(c.report.Refused, some...)
		for q, err := range quarantined(ctx, c.Timeline, bucket, new(string), c.Timeout) {
			if err != nil {
				return ofStore(err)
			}
			c.report.Quarantined = append(c.report.Quarantined, *q)
		}
	}
	return nil
}

// fromJournal goes through what stays in the journal.
func (c *comparison) fromJournal(ctx context.Context) error {
	q := scheduler.RecordQuery{States: staying(), Limit: verifyPage}
	for {
		call, cancel := context.WithTimeout(ctx, c.Timeout)
		page, err := c.Store.List(call, q)
		cancel()
		if err != nil {
			return fmt.Errorf("read the journal: %w: %w", ErrNoDatabase, err)
		}
		if len(page) == 0 {
			return nil
		}
		last := page[len(page)-1]
		q.AfterDue, q.AfterUID = last.Due, last.UID
		c.report.InJournal += len(page)
		uids := make([]scheduler.UID, len(page))
		for i := range page {
			uids[i] = page[i].UID
		}
		if err := c.compare(ctx, uids); err != nil {
			return err
		}
	}
}

// fromStore goes through what stands in the timeline.
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
			for len(uids) > 0 {
				n := min(len(uids), verifyPage)
				if err := c.compare(ctx, uids[:n]); err != nil {
					return err
				}
				uids = uids[n:]
			}
			if next == "" {
				break
			}
			cursor = next
		}
	}
	return nil
}

// compare looks at some messages, again at those that differ, and counts and
// mends what stays different.
func (c *comparison) compare(ctx context.Context, uids []scheduler.UID) error {
	found, err := c.look(ctx, uids)
	if err != nil {
		return err
	}
	for look := 1; look < verifyLooks && len(found) > 0; look++ {
		pause(ctx, verifyPause)
		left := make([]scheduler.UID, 0, len(found))
		for uid := range found {
			left = append(left, uid)
		}
		if found, err = c.look(ctx, left); err != nil {
			return err
		}
	}
	if err := c.dropComing(ctx, found); err != nil {
		return err
	}
	for uid, b := range found {
		d := scheduler.Difference{UID: uid, Bucket: uid.Bucket(c.Buckets), Kind: b.kind(), Store: b.store,
			Journal: b.journal}
		if c.repair {
			// What SQL refuses for good stays different, and is counted so.
			if d.Repaired, err = c.mend(ctx, &d); err != nil && (Retryable(err) || ctx.Err() != nil) {
				return fmt.Errorf("repair %s: %w", uid, err)
			}
		}
		c.report.Found[d.Kind]++
		if d.Repaired {
			c.report.Repaired++
		}
		if len(c.report.Differences) < scheduler.MaxDifferences {
			c.report.Differences = append(c.report.Differences, d)
		}
	}
	if c.progress != nil && time.Since(c.told) >= tellPause {
		c.progress(c.report)
		c.told = time.Now()
	}
	return ctx.Err()
}

// dropComing drops the differences that the outbox explains: its entries hold changes
// that the journal does not have yet. It also drops messages that changed meanwhile,
// since the outbox was read before that. What has left the outbox by the second look
// is in the journal.
func (c *comparison) dropComing(ctx context.Context, found map[scheduler.UID]both) error {
	if len(found) == 0 {
		return nil
	}
	uids, stands := make([]scheduler.UID, 0, len(found)), make([]map[scheduler.UID]scheduler.Stand, c.Buckets)
	for uid, b := range found {
		uids = append(uids, uid)
		if kind := b.kind(); kind != scheduler.StoreNewer && kind != scheduler.MissingInJournal {
			continue
		}
		bucket := uid.Bucket(c.Buckets)
		if stands[bucket] == nil {
			stands[bucket] = map[scheduler.UID]scheduler.Stand{}
		}
		stands[bucket][uid] = b.store
	}
	for bucket, mine := range stands {
		if len(mine) == 0 {
			continue
		}
		coming, err := onTheWay(ctx, c.Timeline, bucket, c.Timeout, mine, nil)
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
	maps.DeleteFunc(found, func(uid scheduler.UID, b both) bool { return again[uid].store.Version != b.store.Version })
	return err
}

// look returns the messages that differ now. The journal is asked first: what
// changes between the two questions makes the store newer, not older.
func (c *comparison) look(ctx context.Context, uids []scheduler.UID) (map[scheduler.UID]both, error) {
	all := make(map[scheduler.UID]both, len(uids))
	call, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	records, err := c.Store.Versions(call, uids)
	if err != nil {
		return nil, fmt.Errorf("ask the journal for versions: %w: %w", ErrNoDatabase, err)
	}
	byBucket := make([][]scheduler.UID, c.Buckets)
	for _, uid := range uids {
		byBucket[uid.Bucket(c.Buckets)] = append(byBucket[uid.Bucket(c.Buckets)], uid)
	}
	for bucket, mine := range byBucket {
		if len(mine) == 0 {
			continue
		}
		stands, err := c.Timeline.Versions(call, bucket, mine)
		if err != nil {
			return nil, fmt.Errorf("ask bucket %d for versions: %w", bucket, ofStore(err))
		}
		for _, uid := range mine {
			if b := (both{store: stands[uid], journal: records[uid]}); b.kind() != "" {
				all[uid] = b
			}
		}
	}
	return all, nil
}

// mend brings both sides to the higher version.
func (c *comparison) mend(ctx context.Context, d *scheduler.Difference) (bool, error) {
	call, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	switch d.Kind {
	case scheduler.MissingInStore, scheduler.StoreOlder:
		read := c.Clock.Milli()
		records, err := c.Store.Records(call, []scheduler.UID{d.UID})
		if err != nil || len(records) == 0 {
			return false, err
		}
		report, err := restoreRecords(call, c.doubts, records, read, c.Clock)
		return report.Added+report.Raised > 0, ofStore(err)
	}
	found, err := c.Timeline.Find(call, scheduler.Ref{UID: d.UID})
	switch {
	case errors.Is(err, scheduler.ErrUnreadable):
		return false, nil // only its bytes in the store tell of it: it stays different
	case err != nil:
		return false, fmt.Errorf("look it up in the store: %w", ofStore(err))
	case len(found) == 0 || found[0].Version != d.Store.Version: // it moved, and the entry of that is on its way
		return false, nil
	}
	now := asItStands(&found[0])
	now.At, now.Bucket, now.Reason = c.Clock.Milli(), d.Bucket, "repaired from the store"
	now.Instance, now.Address = c.Instance, c.Address()
	if err := c.Store.Write(call, nil, []scheduler.Change{now}); err != nil {
		return false, fmt.Errorf("write to the journal: %w", err)
	}
	return true, nil
}

// ofStore marks an error as the store's and not the journal's, whatever it wraps.
func ofStore(err error) error {
	if err == nil || errors.Is(err, scheduler.ErrUnavailable) || errors.Is(err, scheduler.ErrOutcomeUnknown) {
		return err
	}
	return fmt.Errorf("%w: %w", scheduler.ErrUnavailable, err)
}
