package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Mender makes buckets whole for the leader of one term: all of them when it begins, and later those whose server
// changed. Buckets that wait at the same time are made whole together, so that the journal is read once; a bucket that
// does not answer is retried and delays no other.
type Mender struct {
	recovery *Recovery
	term     uint64
	buckets  int
	mended   func(restored record.RestoreReport)
	kick     chan struct{} // capacity 1: a bucket waits

	mu      sync.Mutex
	waiting map[message.Bucket]chan struct{} // closed when the bucket is whole
}

// NewMender builds the Mender of a term. Run must be running for buckets to become whole. It calls mended when it has
// made buckets whole that were not.
func NewMender(r *Recovery, term uint64, buckets message.Bucket, mended func(record.RestoreReport)) *Mender {
	return &Mender{recovery: r, term: term, buckets: int(buckets), mended: mended, kick: make(chan struct{}, 1),
		waiting: map[message.Bucket]chan struct{}{}}
}

// Term is that of the leadership.
func (m *Mender) Term() uint64 { return m.term }

const (
	// gatherPause gathers the buckets of a server that changed.
	gatherPause = 20 * time.Millisecond
	mendPause   = 200 * time.Millisecond
)

// Whole returns when the bucket is whole, or ctx ends.
func (m *Mender) Whole(ctx context.Context, bucket message.Bucket) error {
	ready := make(chan struct{})
	m.mu.Lock()
	m.waiting[bucket] = ready
	m.mu.Unlock()
	scheduler.Signal(m.kick)
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// release releases the waiters of a bucket that is whole.
func (m *Mender) release(bucket message.Bucket) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ready := m.waiting[bucket]; ready != nil {
		close(ready)
		delete(m.waiting, bucket)
	}
}

func (m *Mender) list() []message.Bucket {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.waiting))
}

// Run makes waiting buckets whole until ctx ends, or another instance leads.
func (m *Mender) Run(ctx context.Context) error {
	for first := true; ; first = false {
		for more := true; more; more = first && len(m.list()) < m.buckets {
			select {
			case <-m.kick:
			case <-ctx.Done():
				return nil
			}
		}
		if !first && scheduler.Sleep(ctx, gatherPause) != nil {
			return nil
		}
		if err := m.mend(ctx); err != nil {
			return err
		}
	}
}

// mend continues until no bucket waits, ctx ends, or another instance leads.
func (m *Mender) mend(ctx context.Context) error {
	last := ""
	for buckets := m.list(); len(buckets) > 0; buckets = m.list() {
		result, err := m.recovery.Mend(ctx, m.term, buckets, m.release)
		switch {
		case errors.Is(err, scheduler.ErrStaleTerm):
			return err
		case ctx.Err() != nil:
			return nil
		case err == nil && len(result.Away) > 0:
			err = fmt.Errorf("%w: buckets %v do not answer", scheduler.ErrUnavailable, result.Away)
		}
		if result.Buckets > 0 {
			m.mended(result.Restored)
		}
		if err == nil {
			continue
		}
		if err.Error() != last { // once per reason
			m.recovery.log.Warn().Err(err).Uint64("term", m.term).Msg("the store cannot be certified yet")
			last = err.Error()
		}
		if scheduler.Sleep(ctx, mendPause) != nil {
			return nil
		}
	}
	return nil
}
