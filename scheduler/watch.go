package scheduler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// BucketError reports that one bucket does not answer while others do, for example because a node of a Redis Cluster is
// down. Nothing was written. It is ErrUnavailable too.
type BucketError struct {
	Bucket message.Bucket
}

// Error returns a text that names the bucket.
func (e *BucketError) Error() string {
	return fmt.Sprintf("bucket %d does not answer; messages whose key or id lies in another bucket, and those "+
		"without either, are accepted", e.Bucket)
}

// Unwrap makes it ErrUnavailable.
func (e *BucketError) Unwrap() error { return ErrUnavailable }

// Watch tracks which buckets do not answer. After a failed push it checks all buckets, and repeats that until all
// answer. Pushes then fail at once instead of after a time-out each. While no push fails it does nothing.
type Watch struct {
	cfg  *Config
	kick chan struct{} // capacity 1: a push failed
	done chan struct{} // closed when it looks no more

	mu     sync.Mutex
	away   []bool
	some   bool          // some are away and some are not
	began  time.Time     // of the last look that has ended
	looked chan struct{} // closed when a look ends, and replaced
}

// lookPause is the time between two checks while a bucket does not answer.
const lookPause = 250 * time.Millisecond

func newWatch(cfg *Config) *Watch {
	return &Watch{cfg: cfg, kick: make(chan struct{}, 1), done: make(chan struct{}),
		away: make([]bool, cfg.Timeline.Buckets()), looked: make(chan struct{})}
}

// Run checks the buckets when needed, until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	defer close(w.done)
	for {
		select {
		case <-w.kick:
		case <-ctx.Done():
			return
		}
		for w.look(ctx) && ctx.Err() == nil {
			_ = Sleep(ctx, lookPause)
		}
	}
}

// look asks every bucket and reports whether any of them does not answer.
func (w *Watch) look(ctx context.Context) bool {
	began := time.Now()
	call, cancel := context.WithTimeout(ctx, w.cfg.CallTimeout)
	heads, err := w.cfg.Timeline.Heads(call)
	cancel()
	away, n := make([]bool, len(w.away)), 0
	for b := range away {
		if away[b] = err != nil || heads[b].Err != nil; away[b] {
			n++
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for b := range away {
		if away[b] != w.away[b] {
			why := err
			if why == nil {
				why = heads[b].Err
			}
			if away[b] {
				w.cfg.Log.Warn().Err(why).Int("bucket", b).Msg("a bucket does not answer")
			} else {
				w.cfg.Log.Info().Int("bucket", b).Msg("a bucket answers again")
			}
		}
	}
	w.away, w.some, w.began = away, n > 0 && n < len(away), began
	close(w.looked)
	w.looked = make(chan struct{})
	return n > 0
}

// Suspect requests a check of every bucket.
func (w *Watch) Suspect() { Signal(w.kick) }

// Refuse returns why a push to a bucket cannot be stored although other buckets answer, or nil if it can. If no bucket
// Answers it returns nil: only a try shows whether one is back.
func (w *Watch) Refuse(bucket message.Bucket) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.some && w.away[bucket] {
		return &BucketError{Bucket: bucket}
	}
	return nil
}

// Answers reports whether a bucket accepts pushes, as far as is known.
func (w *Watch) Answers(bucket message.Bucket) bool { return w.Refuse(bucket) == nil }

// Verdict waits for a check that began at since or later, and returns the result of Refuse. It returns nil if no such
// check ends in time.
func (w *Watch) Verdict(bucket message.Bucket, since time.Time) error {
	late := time.NewTimer(2 * w.cfg.CallTimeout) // one look may be under way
	defer late.Stop()
	for {
		w.mu.Lock()
		began, looked := w.began, w.looked
		w.mu.Unlock()
		if !began.Before(since) {
			return w.Refuse(bucket)
		}
		w.Suspect()
		select {
		case <-looked:
		case <-w.done:
			return nil
		case <-late.C:
			return nil
		}
	}
}
