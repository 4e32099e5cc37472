// Package stage gives each test of the benchmark its own servers and says what they cost.
//
// The servers are those of deploy/lab, which wants a testing.TB; a Scope is one outside of go test. It lives as long as
// one test of one system: everything that was started in it is stopped and removed at its end.
package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Scope is the life of one test's servers. Fatal, Fatalf and FailNow end the goroutine that Run has started, as in a
// test; what they say becomes Run's Failure.
type Scope struct {
	testing.TB // nil: it is here for the method that keeps others from being a TB

	ctx context.Context

	mu       sync.Mutex
	cleanups []func()
	errs     []error
	said     []string // what servers that failed had printed
	versions map[string]string
}

// Failure is what went wrong in a Scope, and the end of what its servers had printed.
type Failure struct {
	Reasons []error
	Output  string
}

// Error names the reasons alone.
func (f *Failure) Error() string { return errors.Join(f.Reasons...).Error() }

// Run calls body with a Scope and returns what went wrong in it, or nil. The servers are gone when it returns.
func Run(ctx context.Context, body func(*Scope)) *Failure {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &Scope{ctx: ctx, versions: make(map[string]string)}
	protect := func(f func()) {
		done := make(chan struct{})
		go func() {
			defer close(done) // also when Fatal has ended the goroutine
			f()
		}()
		<-done
	}
	protect(func() { body(s) })
	cancel()
	for f := s.lastCleanup(); f != nil; f = s.lastCleanup() {
		protect(f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.errs) == 0 {
		return nil
	}
	return &Failure{Reasons: s.errs, Output: strings.Join(s.said, "\n")}
}

func (s *Scope) lastCleanup() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.cleanups) == 0 {
		return nil
	}
	last := len(s.cleanups) - 1
	f := s.cleanups[last]
	s.cleanups = s.cleanups[:last]
	return f
}

// Cleanup registers what is to be done at the end, the last first.
func (s *Scope) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

// Context ends before the clean-up begins.
func (s *Scope) Context() context.Context { return s.ctx }

// Name is for messages.
func (s *Scope) Name() string { return "bench" }

// Helper has nothing to mark: errors here carry no line numbers.
func (s *Scope) Helper() {}

// TempDir is a new directory, removed at the end.
func (s *Scope) TempDir() string {
	dir, err := os.MkdirTemp("", "tarry-bench-")
	if err != nil {
		s.Fatal(fmt.Errorf("make a directory: %w", err))
	}
	s.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			s.Error(fmt.Errorf("remove a directory: %w", err))
		}
	})
	return dir
}

// Failed reports whether anything went wrong so far.
func (s *Scope) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.errs) > 0
}

// Logf keeps what lab says about servers of a failed test.
func (s *Scope) Logf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

func (s *Scope) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, err)
}

// Error records a failure and continues. Errors stay what they are.
func (s *Scope) Error(args ...any) {
	if err, ok := args[0].(error); ok && len(args) == 1 {
		s.fail(err)
		return
	}
	s.fail(errors.New(fmt.Sprint(args...)))
}

// Errorf records a failure and continues.
func (s *Scope) Errorf(format string, args ...any) { s.fail(fmt.Errorf(format, args...)) }

// Fatal notes a failure and ends the test.
func (s *Scope) Fatal(args ...any) {
	s.Error(args...)
	runtime.Goexit()
}

// Fatalf notes a failure and ends the test.
func (s *Scope) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	runtime.Goexit()
}
