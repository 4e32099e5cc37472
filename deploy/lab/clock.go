package lab

import (
	_ "embed" // of the clock
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// clockSource is the clock that is preloaded under a server. It is compiled for each
// test that wants it: the race detector needs a C compiler anyway.
//
//go:embed clock/clock.c
var clockSource []byte

// SteppedRedis is a Redis whose wall clock a test can step.
type SteppedRedis struct {
	*Redis
	clock string // file that tells how far the clock is off
}

// NewSteppedRedis starts a redis-server of this test's own under a clock that Step
// sets, with args as for NewRedis. Its monotonic clock stays true.
func NewSteppedRedis(t testing.TB, args ...string) *SteppedRedis {
	t.Helper()
	dir := t.TempDir()
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(
		t.Context(), "cc", "-shared", "-fPIC", "-O2", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("compile the clock: %v (a C compiler is needed, as for go test -race): %s", err, out)
	}
	s := &SteppedRedis{clock: filepath.Join(dir, "off")}
	s.Step(t, 0)
	c, err := startRedis(dir, args, "LD_PRELOAD="+library, "TARRY_LAB_CLOCK="+s.clock)
	if err != nil {
		t.Fatal(err)
	}
	s.Redis = &Redis{own(t, c), c.addr}
	return s
}

// Step sets the server's wall clock that far from the machine's.
func (s *SteppedRedis) Step(t testing.TB, by time.Duration) {
	t.Helper()
	f, err := os.OpenFile(s.clock, os.O_CREATE|os.O_WRONLY, 0o600) // the server has it mapped: it stays the same file
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(by.Milliseconds())), 0)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		t.Fatal(fmt.Errorf("step the clock: %w", err))
	}
}
