package app

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
)

// mender makes buckets whole for the leader of one term: all of them when it begins, and later those whose server
// changed. Buckets that wait at the same time are made whole together, so that the journal is read once; a bucket that
// does not answer is retried and delays no other.
type mender struct {
	a         *App
	term      uint64
	kick      chan struct{} // capacity 1: a bucket waits
	recovered chan struct{} // capacity 1: some bucket was not whole

	mu      sync.Mutex
	waiting map[message.Bucket]chan struct{} // closed when the bucket is whole
}

// gatherPause gathers the buckets of a server that changed.
const gatherPause = 20 * time.Millisecond

// whole implements Whole of scheduler.Config.
func (a *App) whole(ctx context.Context, term uint64, bucket message.Bucket) error {
	m := a.mending.Load()
	if m == nil || m.term != term {
		return fmt.Errorf("%w: nobody makes buckets whole under term %d", scheduler.ErrStaleTerm, term)
	}
	return m.wait(ctx, bucket)
}

// wait returns when the bucket is whole, or ctx ends.
func (m *mender) wait(ctx context.Context, bucket message.Bucket) error {
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
func (m *mender) release(bucket message.Bucket) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ready := m.waiting[bucket]; ready != nil {
		close(ready)
		delete(m.waiting, bucket)
	}
}

func (m *mender) list() []message.Bucket {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.waiting))
}

// run makes waiting buckets whole until ctx ends, or another instance leads.
func (m *mender) run(ctx context.Context) error {
	for first := true; ; first = false {
		for more := true; more; more = first && len(m.list()) < int(m.a.store.Buckets()) {
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
func (m *mender) mend(ctx context.Context) error {
	last := ""
	for buckets := m.list(); len(buckets) > 0; buckets = m.list() {
		result, err := m.a.recovery.Mend(ctx, m.term, buckets, m.release)
		switch {
		case errors.Is(err, scheduler.ErrStaleTerm):
			return err
		case ctx.Err() != nil:
			return nil
		case err == nil && len(result.Away) > 0:
			err = fmt.Errorf("%w: buckets %v do not answer", scheduler.ErrUnavailable, result.Away)
		}
		if result.Buckets > 0 {
			scheduler.Signal(m.recovered)
			m.a.roster.regained(result.Restored.Added + result.Restored.Raised)
		}
		if err == nil {
			continue
		}
		if err.Error() != last { // once per reason
			m.a.log.Warn().Err(err).Uint64("term", m.term).Msg("the store cannot be certified yet")
			last = err.Error()
		}
		if scheduler.Sleep(ctx, recoverPause) != nil {
			return nil
		}
	}
	return nil
}
