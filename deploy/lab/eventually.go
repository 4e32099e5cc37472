package lab

import (
	"testing"
	"time"
)

// Eventually calls check until it returns nil: every 3 ms at first, and the longer it waits the less often, down to
// every 20 ms, since a check may cost more than what it waits for. If check still fails after timeout, the test ends
// with its last error; that is why check returns an error and not a bool.
func Eventually(t testing.TB, timeout time.Duration, check func() error) {
	t.Helper()
	began := time.Now()
	next := time.NewTimer(timeout)
	defer next.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		waited := time.Since(began)
		if waited >= timeout {
			t.Fatalf("not so after %s: %v", timeout, err)
		}
		next.Reset(min(max(waited/16, pollEvery), 20*time.Millisecond))
		<-next.C
	}
}
