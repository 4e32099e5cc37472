package lab

import (
	_ "embed" // embeds the clock
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// clockSource is the source of the clock that is preloaded into a server. It is compiled for each test that uses it:
// the race detector needs a C compiler anyway.
//
//go:embed clock/clock.c
var clockSource []byte

// SteppedRedis is a Redis whose wall clock a test can step.
type SteppedRedis struct {
	*Redis
	clock string // file with the clock's offset
}

// NewSteppedRedis starts a redis-server for this test alone, with a clock that Step sets and args as for NewRedis. Its
// monotonic clock stays correct.
func NewSteppedRedis(t testing.TB, args ...string) *SteppedRedis {
	t.Helper()
	Needs(t, "redis-server and a C compiler")
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

// Step sets the server's wall clock to the machine's plus by.
func (s *SteppedRedis) Step(t testing.TB, by time.Duration) {
	t.Helper()
	f, err := os.OpenFile(s.clock, os.O_CREATE|os.O_WRONLY, 0o600) // keep the file: the server has it mapped
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
