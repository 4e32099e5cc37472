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

// watch tracks which buckets do not answer. After a failed push it checks all buckets, and repeats that until all
// answer. Pushes then fail at once instead of after a time-out each. While no push fails it does nothing.
type watch struct {
	s    *Scheduler
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

func newWatch(s *Scheduler) *watch {
	return &watch{s: s, kick: make(chan struct{}, 1), done: make(chan struct{}),
		away: make([]bool, s.cfg.Timeline.Buckets()), looked: make(chan struct{})}
}

// run checks the buckets when needed, until ctx ends.
func (w *watch) run(ctx context.Context) {
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
func (w *watch) look(ctx context.Context) bool {
	began := time.Now()
	call, cancel := context.WithTimeout(ctx, w.s.cfg.CallTimeout)
	heads, err := w.s.cfg.Timeline.Heads(call)
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
				w.s.log.Warn().Err(why).Int("bucket", b).Msg("a bucket does not answer")
			} else {
				w.s.log.Info().Int("bucket", b).Msg("a bucket answers again")
			}
		}
	}
	w.away, w.some, w.began = away, n > 0 && n < len(away), began
	close(w.looked)
	w.looked = make(chan struct{})
	return n > 0
}

// suspect requests a check of every bucket.
func (w *watch) suspect() { Signal(w.kick) }

// refuse returns why a push to a bucket cannot be stored although other buckets answer, or nil if it can. If no bucket
// answers it returns nil: only a try shows whether one is back.
func (w *watch) refuse(bucket message.Bucket) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.some && w.away[bucket] {
		return &BucketError{Bucket: bucket}
	}
	return nil
}

// answers reports whether a bucket accepts pushes, as far as is known.
func (w *watch) answers(bucket message.Bucket) bool { return w.refuse(bucket) == nil }

// verdict waits for a check that began at since or later, and returns the result of refuse. It returns nil if no such
// check ends in time.
func (w *watch) verdict(bucket message.Bucket, since time.Time) error {
	late := time.NewTimer(2 * w.s.cfg.CallTimeout) // one look may be under way
	defer late.Stop()
	for {
		w.mu.Lock()
		began, looked := w.began, w.looked
		w.mu.Unlock()
		if !began.Before(since) {
			return w.refuse(bucket)
		}
		w.suspect()
		select {
		case <-looked:
		case <-w.done:
			return nil
		case <-late.C:
			return nil
		}
	}
}
