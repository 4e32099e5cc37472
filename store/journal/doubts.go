package journal

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
)

// quarantined are a bucket's entries that are quarantined, read page by page, but for
// those up to after; after becomes the place of the last one.
func quarantined(ctx context.Context, tl scheduler.Outbox, bucket int, after *string,
	timeout time.Duration) iter.Seq2[*scheduler.Quarantined, error] {
	return func(yield func(*scheduler.Quarantined, error) bool) {
		for {
			call, cancel := context.WithTimeout(ctx, timeout)
			list, next, err := tl.Quarantined(call, bucket, *after)
			cancel()
			if err != nil {
				yield(nil, fmt.Errorf("list what bucket %d has quarantined: %w", bucket, err))
				return
			}
			if len(list) == 0 {
				return
			}
			for i := range list {
				if !yield(&list[i], nil) {
					return
				}
			}
			*after = next
		}
	}
}

// doubts are what a restore must not bring back because the journal says so alone: of
// each bucket the messages that a quarantined entry names, and whose states since the
// journal does not know. They grow with the quarantine, so that a restore which lasts
// reads each entry once. A bucket is asked for by one goroutine at a time.
type doubts struct {
	tl      scheduler.Mending
	timeout time.Duration
	buckets []doubt
}

type doubt struct {
	after string // the place of the last entry that was read
	uids  map[scheduler.UID]bool
}

func newDoubts(tl scheduler.Mending, buckets int, timeout time.Duration) *doubts {
	return &doubts{tl: tl, timeout: timeout, buckets: make([]doubt, buckets)}
}

// sure leaves out records that the journal has as waiting or dead, that the timeline
// does not know, and that a quarantined entry names: the change that the journal lacks
// may be their end. It returns how many it left out.
func (d *doubts) sure(ctx context.Context, bucket int, records []scheduler.Record) (kept []scheduler.Record, left int,
	err error) {
	b := &d.buckets[bucket]
	for q, err := range quarantined(ctx, d.tl, bucket, &b.after, d.timeout) {
		if err != nil {
			return nil, 0, err
		}
		for _, uid := range q.UIDs {
			if !q.Known {
				if b.uids == nil {
					b.uids = map[scheduler.UID]bool{}
				}
				b.uids[uid] = true
			}
		}
	}
	var unsure []scheduler.UID
	for i := range records {
		if stays(records[i].State) && b.uids[records[i].UID] {
			unsure = append(unsure, records[i].UID)
		}
	}
	if len(unsure) == 0 {
		return records, 0, nil
	}
	call, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	stands, err := d.tl.Versions(call, bucket, unsure)
	if err != nil {
		return nil, 0, fmt.Errorf("ask for versions in bucket %d: %w", bucket, err)
	}
	kept = slices.DeleteFunc(slices.Clone(records), func(r scheduler.Record) bool {
		return slices.Contains(unsure, r.UID) && stands[r.UID].Version == 0
	})
	return kept, len(records) - len(kept), nil
}
