//go:build failpoints

package app

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// failpoint returns the function to call at named points. FAILPOINT names one of them, as point or point:n; the n-th
// call at that point kills this process. Only test binaries have it. (The variable does not begin with TARRY_, because
// variables with that prefix must be settings.)
func failpoint() func(point string) {
	name, text, _ := strings.Cut(os.Getenv("FAILPOINT"), ":")
	nth, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		nth = 1
	}
	var passed atomic.Int64
	return func(point string) {
		if point == name && passed.Add(1) == nth {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // do nothing more until the signal arrives
		}
	}
}
