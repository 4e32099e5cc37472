package lab_test

import (
	"bufio"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// recorder is a testing.TB that is allowed to fail, for the tests of what lab does then.
type recorder struct {
	testing.TB

	mu      sync.Mutex
	text    strings.Builder
	failed  bool
	skipped string // the reason
	cleanup []func()
}

// failure runs act as a separate test, with its clean-up, and returns what was reported to that test.
func failure(t *testing.T, act func(t testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	var group sync.WaitGroup
	group.Go(func() { act(r) }) // of its own, since a fatal failure ends it
	group.Wait()
	for len(r.cleanup) > 0 {
		last := len(r.cleanup) - 1
		f := r.cleanup[last]
		r.cleanup = r.cleanup[:last]
		f()
	}
	if r.skipped != "" {
		t.Skip(r.skipped)
	}
	if !r.Failed() {
		t.Error("it did not fail")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func (r *recorder) Helper() {}

func (r *recorder) Cleanup(f func()) { r.cleanup = append(r.cleanup, f) }

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Log(args ...any) { r.note(false, fmt.Sprintln(args...)) }

func (r *recorder) Logf(format string, args ...any) { r.note(false, fmt.Sprintf(format, args...)) }

func (r *recorder) Error(args ...any) { r.note(true, fmt.Sprintln(args...)) }

func (r *recorder) Errorf(format string, args ...any) { r.note(true, fmt.Sprintf(format, args...)) }

func (r *recorder) Fatal(args ...any) { r.Error(args...); runtime.Goexit() }

func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }

func (r *recorder) Skipf(format string, args ...any) {
	r.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorder) note(failed bool, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || failed
	fmt.Fprintln(&r.text, text)
}

// lines reads until want accepts a line.
func lines(t *testing.T, from io.Reader, want func(line string) bool) {
	t.Helper()
	s := bufio.NewScanner(from)
	for s.Scan() {
		if want(s.Text()) {
			return
		}
	}
	t.Fatalf("the output ended before the line came: %v", s.Err())
}
