package lab

import (
	"crypto/sha256"
	"testing"
	"time"
)

// Eventually calls check until it returns nil: every 3 ms at first, and the longer it waits the less often, down to
// every 20 ms, since a check may cost more than what it waits for. If check still fails after timeout, the test ends
// with its last error; that is why check returns an error and not a bool. The timeout is that of a fast machine with
// nothing else to do: where this process gets a tenth of that, Eventually waits ten times as long.
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
		if waited >= timeout && waited >= time.Duration(Slowness()*float64(timeout)) {
			t.Fatalf("not so after %s: %v", waited, err)
		}
		next.Reset(min(max(waited/16, pollEvery), 20*time.Millisecond))
		<-next.C
	}
}

// Slowness returns how many times longer than a fast machine this one takes now, at least 1.
func Slowness() float64 {
	const fast = 3 * time.Millisecond // with the processor's own instructions; 9 ms without
	began := time.Now()
	sha256.Sum256(make([]byte, 4<<20))
	return max(1, float64(time.Since(began))/float64(fast))
}
