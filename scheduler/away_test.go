package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// apart is a timeline whose buckets lie on several nodes, some of which are frozen or refuse connections.
type apart struct {
	scheduler.Timeline
	mu      sync.Mutex
	frozen  map[message.Bucket]bool // a call ends with its context
	refuses map[message.Bucket]bool // a call fails at once, and wrote nothing
	adds    map[message.Bucket]int
}

func (a *apart) set(frozen bool, buckets ...message.Bucket) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.frozen, a.refuses = map[message.Bucket]bool{}, map[message.Bucket]bool{}
	for _, b := range buckets {
		a.frozen[b], a.refuses[b] = frozen, !frozen
	}
}

func (a *apart) state(bucket message.Bucket) (frozen, refuses bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.frozen[bucket], a.refuses[bucket]
}

func (a *apart) reach(ctx context.Context, bucket message.Bucket) error {
	switch frozen, refuses := a.state(bucket); {
	case frozen:
		<-ctx.Done()
		return fmt.Errorf("%w: %w", scheduler.ErrOutcomeUnknown, ctx.Err())
	case refuses:
		return fmt.Errorf("%w: connection refused", scheduler.ErrUnavailable)
	}
	return nil
}

func (a *apart) Add(ctx context.Context, bucket message.Bucket, batch []*message.Message,
	now message.Milli) ([]scheduler.AddResult, []scheduler.Earlier, error) {
	a.mu.Lock()
	if a.adds == nil {
		a.adds = map[message.Bucket]int{}
	}
	a.adds[bucket]++
	a.mu.Unlock()
	if err := a.reach(ctx, bucket); err != nil {
		return nil, nil, err
	}
	return a.Timeline.Add(ctx, bucket, batch, now)
}

func (a *apart) Heads(ctx context.Context) ([]scheduler.Head, error) {
	heads, err := a.Timeline.Heads(ctx)
	answers := 0
	for b := range a.Buckets() {
		if failed := a.reach(ctx, b); failed != nil {
			heads[b] = scheduler.Head{Err: failed}
		} else {
			answers++
		}
	}
	if err == nil && answers == 0 {
		err = heads[0].Err
	}
	return heads, err
}

// keyIn is a key whose messages lie in a bucket.
func keyIn(bucket, buckets message.Bucket) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("k", i); message.BucketOf(key, buckets) == bucket {
			return key
		}
	}
}

// Two of four buckets lie on a node that froze.
func TestAccept_AFrozenNodeHoldsUpNoOtherBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &apart{}
		r := rig.New(t, 4, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		store.set(true, 0, 1)
		for bucket := range message.Bucket(2) {
			for range 200 {
				r.S.Accept(&scheduler.Push{Topic: "a", Delay: time.Hour, Key: keyIn(bucket, 4)},
					func(scheduler.Accepted) {})
			}
		}
		synctest.Wait()
		begun := time.Now()
		for range 50 {
			r.Push(scheduler.Push{Delay: time.Hour, Key: keyIn(2, 4)})
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("50 pushes to a bucket that answers took %s", took)
		}
		time.Sleep(10 * time.Second) // of the bubble
	})
}

// The journal makes one bucket wait.
func TestAccept_AWaitForTheJournalHoldsUpNoOtherBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowJournal{Journal: nil, slow: map[message.Bucket]bool{0: true, 1: true}}
		r := rig.New(t, 4, nil)
		r.Journal = slow
		r.S = r.Scheduler()
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- r.S.Serve(ctx) }()
		defer func() { cancel(); <-served }()
		for bucket := range message.Bucket(2) {
			r.S.Accept(&scheduler.Push{Topic: "a", Delay: time.Hour, Key: keyIn(bucket, 4)},
				func(scheduler.Accepted) {})
		}
		synctest.Wait()
		begun := time.Now()
		r.Push(scheduler.Push{Delay: time.Hour, Key: keyIn(2, 4)})
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("a push beside two that wait for the journal took %s", took)
		}
	})
}

// slowJournal does not answer for changes of some buckets.
type slowJournal struct {
	scheduler.Journal
	slow map[message.Bucket]bool
}

func (j *slowJournal) Ready() error { return nil }
func (j *slowJournal) Await(ctx context.Context, changes []scheduler.Recorded, held func(int, bool)) error {
	for i, c := range changes {
		if j.slow[c.Bucket] {
			<-ctx.Done()
			return ctx.Err()
		}
		held(i, false)
	}
	return nil
}

func TestAccept_OnlyTheBucketsOfANodeThatIsAwayRefuse(t *testing.T) {
	for name, frozen := range map[string]bool{"frozen": true, "refuses connections": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &apart{}
				r := rig.New(t, 4, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
				store.set(frozen, 1)
				push := func(key string) error {
					return r.S.AcceptAll(t.Context(),
						[]*scheduler.Push{{Topic: "a", Delay: time.Hour, Key: key}})[0].Err
				}
				_ = push(keyIn(1, 4)) // it may have been stored by a node that froze
				begun := time.Now()
				var away *scheduler.BucketError
				if err := push(keyIn(1, 4)); !errors.As(err, &away) || away.Bucket != 1 ||
					!errors.Is(err, scheduler.ErrUnavailable) {
					t.Errorf("a push to the bucket: %v", err)
				}
				if took := time.Since(begun); took > 10*time.Millisecond {
					t.Errorf("it took %s to refuse what cannot be stored", took)
				}
				for range 20 { // they choose a bucket that answers
					if err := push(""); err != nil {
						t.Fatalf("a push without key or id: %v", err)
					}
				}
				store.set(false)
				time.Sleep(3 * time.Second) // of the bubble
				if err := push(keyIn(1, 4)); err != nil {
					t.Errorf("when the node is back: %v", err)
				}
			})
		})
	}
}

// A store that lies on one server is away as a whole.
func TestAccept_AllBucketsAwayAreNoMatterOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &apart{}
		r := rig.New(t, 4, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		store.set(false, 0, 1, 2, 3)
		for range 3 {
			err := r.S.AcceptAll(t.Context(), []*scheduler.Push{{Topic: "a", Delay: time.Hour, Key: "k"}})[0].Err
			if away := (*scheduler.BucketError)(nil); !errors.Is(err, scheduler.ErrUnavailable) ||
				errors.As(err, &away) {
				t.Errorf("got %v, want that the store is unavailable", err)
			}
		}
		store.set(false)
		r.Push(scheduler.Push{Delay: time.Hour, Key: "k"})
	})
}
