package lab

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// Process is a started command as one test sees it. Every server of this package is a Process.
type Process struct {
	t testing.TB
	c *child
}

// Start runs any command and returns at once; use WaitLog or a request of your own to wait until it is ready. Its
// working directory is new and empty, env is added to the test's environment, and stdout and stderr go to Log. The
// command must not fork and leave its first process, as a daemon does (nginx: "daemon off;").
//
// A data race that a binary built with -race reports fails the test.
func Start(t testing.TB, name string, env []string, bin string, args ...string) *Process {
	t.Helper()
	switch bin {
	case "nginx", "redis-server":
		Needs(t, bin)
	}
	path, err := program(bin)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{name: name, dir: t.TempDir(), bin: path, args: args, env: env}
	if err := c.launch(); err != nil {
		t.Fatal(err)
	}
	return own(t, c)
}

// own ties a child to the test that started it: the end of the test stops the child.
func own(t testing.TB, c *child) *Process {
	p := &Process{t: t, c: c}
	t.Cleanup(func() {
		if !c.stop() {
			t.Errorf("stop %s: SIGTERM was not obeyed in %s", c.name, stopPatience)
		}
		if c.release != nil {
			c.release()
		}
		if c.said("WARNING: DATA RACE") {
			t.Errorf("%s reported a data race", c.name)
		}
		p.dump()
	})
	return p
}

// use gives a test access to a shared child. Only the end of the process stops the child.
func use(t testing.TB, c *child, err error) *Process {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if !c.running() {
		t.Fatalf("the shared %s is gone (%s); a test that stops a server must take its own. Output:\n%s", c.name,
			c.exit(), c.tail())
	}
	p := &Process{t: t, c: c}
	t.Cleanup(p.dump)
	return p
}

func (p *Process) dump() {
	if p.t.Failed() {
		p.t.Logf("end of the output of %s:\n%s", p.c.name, p.c.tail())
	}
}

// Pid returns the process id of the current run.
func (p *Process) Pid() int {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return p.c.pid
}

// Dir returns the working directory, which also holds the data.
func (p *Process) Dir() string { return p.c.dir }

// Running reports whether the process exists. A paused process exists.
func (p *Process) Running() bool { return p.c.running() }

// Exited returns a channel that is closed when the current run is over, however it ended.
func (p *Process) Exited() <-chan struct{} { return p.c.exited() }

// Pause freezes the process and its children (SIGSTOP) and returns when it has stopped: its ports accept connections,
// but nothing answers.
func (p *Process) Pause() { p.t.Helper(); p.check(p.c.pause()) }

// Resume continues a paused process (SIGCONT), with everything that it held when it was paused.
func (p *Process) Resume() { p.t.Helper(); p.check(p.c.signal(syscall.SIGCONT, true)) }

// Signal sends sig to the process alone.
func (p *Process) Signal(sig syscall.Signal) { p.t.Helper(); p.check(p.c.signal(sig, false)) }

func (p *Process) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Error(err)
	}
}

// Kill ends the process and its children at once (SIGKILL) and returns when they are gone.
func (p *Process) Kill() { p.c.kill() }

// Stop ends the process in order (SIGTERM) and returns when it is gone. If the process does not obey, Stop kills it and
// fails the test. Stop resumes a paused process first.
func (p *Process) Stop() {
	p.t.Helper()
	if !p.c.stop() {
		p.t.Errorf("stop %s: SIGTERM was not obeyed in %s", p.c.name, stopPatience)
	}
}

// Restart runs the same command again, with the same ports and data, and returns when it is ready. It stops a process
// that is still running first.
func (p *Process) Restart() {
	p.t.Helper()
	p.Stop()
	if err := p.c.start(); err != nil {
		p.t.Fatal(err)
	}
}

// Wait waits until the process has ended by itself and returns its exit code, or -1 if a signal ended it. If the
// process is still running after timeout, Wait ends the test.
func (p *Process) Wait(timeout time.Duration) int {
	p.t.Helper()
	late := time.NewTimer(timeout)
	defer late.Stop()
	select {
	case <-p.c.exited():
	case <-late.C:
		if p.Running() {
			p.t.Fatalf("%s still runs after %s; output:\n%s", p.c.name, timeout, p.c.tail())
		}
	}
	return p.c.exit().ExitCode()
}

// Log returns the output of the current run, stdout and stderr in the order of arrival.
func (p *Process) Log() string { return string(p.c.since()) }

// WaitLog returns when the output of the current run contains substr. If the process ends without printing it, or does
// not print it in time, WaitLog ends the test.
func (p *Process) WaitLog(substr string) {
	p.t.Helper()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	late := time.NewTimer(startPatience)
	defer late.Stop()
	for exited := p.c.exited(); ; {
		over := false
		select {
		case <-exited:
			over = true // look once more: it may be in the last output
		default:
		}
		if strings.Contains(p.Log(), substr) {
			return
		}
		if over {
			p.t.Fatalf("%s ended (%s) and never said %q; output:\n%s", p.c.name, p.c.exit(), substr, p.c.tail())
		}
		select {
		case <-tick.C:
		case <-exited:
		case <-late.C:
			p.t.Fatalf("%s did not say %q in %s; output:\n%s", p.c.name, substr, startPatience, p.c.tail())
		}
	}
}
