package ops

import (
	"sync"
	"sync/atomic"
)

// Together runs functions at once. A panic in one of them is the caller's, once all have ended, and not the process's
// end.
type Together struct {
	running sync.WaitGroup
	broken  atomic.Pointer[any]
}

// Go runs a function.
func (t *Together) Go(do func()) {
	t.running.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				t.broken.Store(&p)
			}
		}()
		do()
	})
}

// Wait waits for all of them.
func (t *Together) Wait() {
	t.running.Wait()
	if p := t.broken.Load(); p != nil {
		panic(*p)
	}
}
