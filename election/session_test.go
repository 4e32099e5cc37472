package election

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A call may see a living session and begin only after the session has closed.
func TestSession_CloseAwaitsEveryCall(t *testing.T) {
	var late atomic.Int32
	for range 300 {
		s, err := openSession(newFakeEnsemble().opener(&faults{}, time.Second), timing(time.Second), 64, func() {})
		if err != nil {
			t.Fatal(err)
		}
		var closed atomic.Bool
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				for s.reason() == nil {
					_, _ = call(t.Context(), s, time.Second, func(client) (bool, error) {
						if closed.Load() {
							late.Add(1)
						}
						return true, nil
					})
				}
			})
		}
		s.close()
		closed.Store(true)
		callers.Wait()
	}
	if n := late.Load(); n > 0 {
		t.Errorf("%d calls ran after close had returned", n)
	}
}
