package ops

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestKept_SharesOneReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var k kept[int]
		reads, fails := 0, errors.New("away")
		var err error
		get := func(ctx context.Context, key any) (int, error) {
			return k.get(ctx, key, time.Second, time.Minute, func(ctx context.Context) (int, error) {
				reads++
				time.Sleep(100 * time.Millisecond)
				if ctx.Err() != nil {
					return 0, ctx.Err()
				}
				return reads, err
			})
		}
		want := func(key any, value int, wrong error) {
			t.Helper()
			if got, err := get(t.Context(), key); got != value || !errors.Is(err, wrong) {
				t.Errorf("got %d, %v; want %d, %v", got, err, value, wrong)
			}
		}
		// The first goes away; the others still get what it began.
		first, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for n := range 10 {
			all.Go(func() {
				ctx := t.Context()
				if n == 0 {
					ctx = first
				} else {
					time.Sleep(10 * time.Millisecond)
				}
				if got, err := get(ctx, "a"); got != 1 || err != nil {
					t.Errorf("caller %d: %d, %v", n, got, err)
				}
			})
		}
		time.Sleep(50 * time.Millisecond)
		leave()
		all.Wait()
		want("b", 2, nil)
		time.Sleep(800 * time.Millisecond)
		want("a", 1, nil) // it is of 0.9 s ago
		time.Sleep(200 * time.Millisecond)
		want("a", 3, nil)
		// What fails is read again.
		time.Sleep(2 * time.Second)
		err = fails
		want("a", 4, fails)
		err = nil
		want("a", 5, nil)
		// Who goes away while another one reads does not wait for that.
		time.Sleep(2 * time.Second)
		gone, leave := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer leave()
		all.Go(func() { want("a", 6, nil) })
		time.Sleep(time.Millisecond)
		if _, err := get(gone, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		all.Wait()
		for n := range 2 * keptMost {
			want(n, 7+n, nil)
			if len(k.all) > keptMost {
				t.Fatalf("%d are kept", len(k.all))
			}
		}
	})
}
