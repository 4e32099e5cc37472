package steer

import (
	"context"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

const (
	// BurialShare is how many tombstones of a bucket one caller may leave within burialTime: a quarter of what it keeps.
	// NATS does not say who calls, so its callers share one bucket's room with all.
	BurialShare = 2500
	burialTime  = 10 * time.Minute
)

// burials counts the tombstones that callers left through this instance.
type burials struct {
	mu    sync.Mutex
	since time.Time
	by    map[burial]int
}

type burial struct {
	who    string
	bucket message.Bucket
}

// take counts a tombstone of a name, unless the caller has had its share. Without a key one lies in every bucket.
func (b *burials) take(ctx context.Context, ref *scheduler.Ref, buckets message.Bucket) bool {
	who, from, to := scheduler.Caller(ctx), message.Bucket(0), buckets
	if who == "" || who == scheduler.ByNATS {
		return true
	}
	if ref.Keyed {
		from = message.BucketOf(message.HashedName(ref.ID, ref.Key), buckets)
		to = from + 1
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.since) >= burialTime {
		b.since, b.by = time.Now(), map[burial]int{}
	}
	for bucket := from; bucket < to; bucket++ {
		if b.by[burial{who, bucket}] >= BurialShare {
			return false
		}
	}
	for bucket := from; bucket < to; bucket++ {
		b.by[burial{who, bucket}]++
	}
	return true
}
