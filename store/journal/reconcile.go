package journal

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Reconciler reconciles the timeline and the journal while traffic continues: Drain commits the entries of the outbox,
// Restore restores what the timeline lacks, Verify compares the two, and Redeliver publishes again what a broker lost.
type Reconciler struct {
	Store    Store
	Timeline record.Mending
	Buckets  message.Bucket
	Clock    *scheduler.Clock
	// Instance and Address sign the changes that it writes to the journal.
	Instance string
	Address  string
	Timeout  time.Duration // of one call
	Log      zerolog.Logger
	// LookPause is the time between two looks of a Verify at a difference, verifyPause by default.
	LookPause time.Duration
	// At, which may be nil, is called after each page of a restore.
	At func(point string)
}

// within calls do with a context that ends after timeout.
func within(ctx context.Context, timeout time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return do(ctx)
}

// pages yields the pages that next reads, until a page is empty.
func pages[T any](ctx context.Context, timeout time.Duration,
	next func(context.Context) ([]T, error)) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		for {
			call, cancel := context.WithTimeout(ctx, timeout)
			page, err := next(call)
			cancel()
			if err != nil {
				yield(nil, err)
				return
			}
			if len(page) == 0 || !yield(page, nil) {
				return
			}
		}
	}
}

// unwritten yields the entries of a bucket's outbox that are at least age old.
func (r *Reconciler) unwritten(ctx context.Context, bucket message.Bucket,
	age message.Milli) iter.Seq2[[]record.Entry, error] {
	after := ""
	return pages(ctx, r.Timeout, func(ctx context.Context) ([]record.Entry, error) {
		page, err := r.Timeline.Unwritten(ctx, bucket, after, age, drainEntries, commitBytes)
		if err != nil {
			return nil, fmt.Errorf("read the outbox: %w", err)
		}
		if len(page) > 0 {
			after = page[len(page)-1].ID
		}
		return page, nil
	})
}

// quarantined yields a bucket's quarantined entries after the place after, which it moves to the last one.
func (r *Reconciler) quarantined(ctx context.Context, bucket message.Bucket,
	after *string) iter.Seq2[[]record.Quarantined, error] {
	return pages(ctx, r.Timeout, func(ctx context.Context) ([]record.Quarantined, error) {
		page, next, err := r.Timeline.Quarantined(ctx, bucket, *after)
		if err != nil {
			return nil, fmt.Errorf("list what bucket %d has quarantined: %w", bucket, err)
		}
		if len(page) > 0 {
			*after = next
		}
		return page, nil
	})
}

// list yields the records that a query selects.
func (r *Reconciler) list(ctx context.Context, q record.RecordQuery) iter.Seq2[[]record.Record, error] {
	return pages(ctx, r.Timeout, func(ctx context.Context) ([]record.Record, error) {
		page, err := r.Store.List(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("read the journal: %w: %w", ErrNoDatabase, err)
		}
		if len(page) > 0 {
			last := &page[len(page)-1]
			q.AfterDue, q.AfterUID = last.Due, last.UID
		}
		return page, nil
	})
}

// changes yields the changes that a query selects.
func (r *Reconciler) changes(ctx context.Context, q record.ChangeQuery) iter.Seq2[[]record.Change, error] {
	return pages(ctx, r.Timeout, func(ctx context.Context) ([]record.Change, error) {
		page, err := r.Store.Changes(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("read what changed: %w: %w", ErrNoDatabase, err)
		}
		if len(page) > 0 {
			last := &page[len(page)-1]
			q.AfterAt, q.AfterUID, q.AfterVersion = last.At, last.UID, last.Version
		}
		return page, nil
	})
}

// records returns whole messages of the journal.
func (r *Reconciler) records(ctx context.Context, uids []message.UID) ([]record.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	found, err := r.Store.Records(ctx, uids)
	if err != nil {
		return nil, fmt.Errorf("read messages: %w: %w", ErrNoDatabase, err)
	}
	return found, nil
}

// versions returns the states and versions of messages in the timeline.
func (r *Reconciler) versions(ctx context.Context, bucket message.Bucket,
	uids []message.UID) (map[message.UID]record.Stand, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	stands, err := r.Timeline.Versions(ctx, bucket, uids)
	return stands, wrap(err, "ask bucket %d for versions", bucket)
}

// mapped returns what to makes of each value.
func mapped[T, U any](all []T, to func(*T) U) []U {
	made := make([]U, len(all))
	for i := range all {
		made[i] = to(&all[i])
	}
	return made
}

func recordUID(r *record.Record) message.UID { return r.UID }

func changeUID(c *record.Change) message.UID { return c.UID }

// byBucket divides values by the bucket of their uid.
func byBucket[T any](all []T, buckets message.Bucket, uid func(*T) message.UID) [][]T {
	parts := make([][]T, buckets)
	for i := range all {
		b := uid(&all[i]).Bucket(buckets)
		parts[b] = append(parts[b], all[i])
	}
	return parts
}

// reportPause is how often progress is reported.
const reportPause = time.Second

// nowAndThen calls progress, which may be nil, at most once in reportPause.
func nowAndThen[T any](progress func(T)) func(T) {
	last := time.Now()
	return func(report T) {
		if progress != nil && time.Since(last) >= reportPause {
			progress(report)
			last = time.Now()
		}
	}
}
