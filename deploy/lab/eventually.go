package lab

import (
	"testing"
	"time"
)

// Eventually calls check every few milliseconds until it returns nil. If check still fails after timeout, the test ends
// with its last error; that is why check returns an error and not a bool.
func Eventually(t testing.TB, timeout time.Duration, check func() error) {
	t.Helper()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	late := time.NewTimer(timeout)
	defer late.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-late.C:
			t.Fatalf("not so after %s: %v", timeout, err)
		case <-tick.C:
		}
	}
}
