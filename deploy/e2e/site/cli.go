package site

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Cli runs a client command against an instance.
func (s *Site) Cli(i *Instance, args ...string) (out string, code int) {
	s.T.Helper()
	return s.CliWithin(Patience, i, args...)
}

// CliWithin is Cli for a command that may take longer than Patience.
func (s *Site) CliWithin(limit time.Duration, i *Instance, args ...string) (out string, code int) {
	s.T.Helper()
	ctx, stop := context.WithTimeout(s.T.Context(), limit)
	defer stop()
	cmd := exec.CommandContext(ctx, s.Binary, append(args, "--server", "http://"+i.Addr)...)
	cmd.Env = append(os.Environ(), "TARRY_TOKEN="+HTTPToken, "GORACE=atexit_sleep_ms=0")
	text, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		s.T.Fatal(err)
	}
	s.T.Logf("tarry %s: exit code %d: %s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), text)
	return string(text), cmd.ProcessState.ExitCode()
}

// Says runs a command that must end with a code and say something. One that need only succeed may run twice: it is run
// again where the database was slow and left the outcome open.
func (s *Site) Says(i *Instance, code int, what string, args ...string) {
	s.T.Helper()
	out, got := s.Cli(i, args...)
	for begun := time.Now(); code == 0 && what == "" && time.Since(begun) < Patience; out, got = s.Cli(i, args...) {
		if !strings.Contains(out, "(outcome_unknown)") {
			break
		}
		Pause(s.T.Context(), 20*time.Millisecond)
	}
	if got != code || !strings.Contains(out, what) {
		s.T.Errorf("tarry %s: exit code %d, want %d and %q: %s", strings.Join(args, " "), got, code, what, out)
	}
}
