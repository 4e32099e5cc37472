package ops

import (
	"context"
	"sync"
	"time"
)

// keptMost is how many readings are kept. A further one makes all others be read anew.
const keptMost = 64

// kept shares readings that cost the store something: all who ask for the same get one reading for as long as it is
// kept. A reading does not end with the caller who began it.
type kept[T any] struct {
	mu  sync.Mutex
	all map[any]*reading[T]
}

type reading[T any] struct {
	turn chan struct{} // has room for the caller that reads, or looks at the rest
	at   time.Time     // when it was read; zero until then, and after a failure
	has  T
}

// get returns the reading of a key, which may be as old as age.
func (k *kept[T]) get(ctx context.Context, key any, age, timeout time.Duration,
	read func(ctx context.Context) (T, error)) (has T, err error) {
	r := k.of(key)
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return has, ctx.Err()
	}
	if time.Since(r.at) <= age {
		return r.has, nil
	}
	call, stop := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer stop()
	has, err = read(call)
	if r.at = (time.Time{}); err == nil {
		r.at, r.has = time.Now(), has
	}
	return has, err
}

// of returns the place of a key's reading.
func (k *kept[T]) of(key any) *reading[T] {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.all[key]; r != nil {
		return r
	}
	if k.all == nil {
		k.all = map[any]*reading[T]{}
	}
	if len(k.all) >= keptMost {
		clear(k.all) // callers that wait for one still get it
	}
	r := &reading[T]{turn: make(chan struct{}, 1)}
	k.all[key] = r
	return r
}
