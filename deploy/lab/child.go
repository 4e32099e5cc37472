package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	startPatience = 60 * time.Second // many test binaries may share two cores
	stopPatience  = 10 * time.Second
	pollEvery     = 3 * time.Millisecond
	tailBytes     = 16 << 10
)

// child is one command with one output file, which may be started repeatedly. It knows nothing of tests, so many tests
// can use a shared server.
type child struct {
	name    string
	addr    string
	dir     string // working directory, data and output
	bin     string
	args    []string
	env     []string     // added to the test's environment
	ready   func() error // one try of the protocol; nil: ready once started
	release func()       // releases the ports; may be nil

	mu    sync.Mutex
	pid   int           // 0 until the first start
	done  chan struct{} // closed when the current run has been reaped
	gone  bool          // the current run has been reaped: its pid may belong to another process
	state *os.ProcessState
	from  int64 // where the output of the current run begins
}

func (c *child) output() string { return filepath.Join(c.dir, c.name+".log") }

// start runs the command and waits until it is ready. It kills a child that is not ready in time.
func (c *child) start() error {
	if err := c.launch(); err != nil {
		return err
	}
	return c.await()
}

func (c *child) launch() error {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.pid != 0 && !c.gone {
		return fmt.Errorf("start %s: it runs already, pid %d", c.name, c.pid)
	}
	out, err := os.OpenFile(c.output(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	defer out.Close()
	if info, err := out.Stat(); err == nil {
		c.from = info.Size()
	}
	cmd := exec.Command(c.bin, c.args...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := machine.spawner.start(cmd); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	c.pid, c.gone, c.state, c.done = cmd.Process.Pid, false, nil, make(chan struct{})
	go c.reap(cmd, c.done) // ends with the command; stop and kill wait for it
	return nil
}

// reap collects the run when it ends. It first waits without collecting, so that the pid cannot be reused before gone
// is set. Then it kills the rest of the child's process group.
func (c *child) reap(cmd *exec.Cmd, done chan struct{}) {
	pid := cmd.Process.Pid
	waitid(pid, syscall.WEXITED)
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	_ = cmd.Wait() // a bad exit is in ProcessState
	c.state, c.gone = cmd.ProcessState, true
	close(done)
}

// waitid returns when the child is in one of the states, without collecting it.
func waitid(pid, states int) {
	const byPid = 1 // P_PID
	for {
		_, _, e := syscall.Syscall6(syscall.SYS_WAITID, byPid, uintptr(pid), 0, uintptr(states|syscall.WNOWAIT), 0, 0)
		if e != syscall.EINTR {
			return
		}
	}
}

// pause stops the child and its process group, and returns when every thread of the child has stopped: the signal is
// only a request, and a JVM has been seen to answer after it.
func (c *child) pause() error {
	if err := c.signal(syscall.SIGSTOP, true); err != nil {
		return err
	}
	c.mu.Lock()
	pid := c.pid
	c.mu.Unlock()
	waitid(pid, syscall.WSTOPPED|syscall.WEXITED)
	return nil
}

func (c *child) await() error {
	if c.ready == nil {
		return nil
	}
	return c.awaitFor(c.ready)
}

// awaitFor polls ready until it succeeds, the child ends, or patience does.
func (c *child) awaitFor(ready func() error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	giveUp := time.NewTimer(startPatience)
	defer giveUp.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-c.exited():
			return fmt.Errorf("start %s: it ended (%s) before it was ready; output:\n%s", c.name, c.exit(), c.tail())
		case <-giveUp.C:
			c.kill()
			return fmt.Errorf("start %s: not ready in %s: %w; output:\n%s", c.name, startPatience, err, c.tail())
		}
	}
}

// exited returns a channel that is closed when the current run ends. Before the first start it is nil and never fires.
func (c *child) exited() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

func (c *child) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pid != 0 && !c.gone
}

func (c *child) exit() *os.ProcessState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

var errNotRunning = errors.New("it is not running")

// signal signals the child alone, or its whole process group. The lock keeps the pid from being collected meanwhile.
func (c *child) signal(sig syscall.Signal, group bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pid == 0 || c.gone {
		return fmt.Errorf("send %s to %s: %w", sig, c.name, errNotRunning)
	}
	to := c.pid
	if group {
		to = -c.pid
	}
	if err := syscall.Kill(to, sig); err != nil {
		return fmt.Errorf("send %s to %s: %w", sig, c.name, err)
	}
	return nil
}

// stop sends SIGTERM, even to a paused child, and kills the child when patience ends. It reports whether the child
// obeyed.
func (c *child) stop() bool {
	if c.signal(syscall.SIGTERM, false) != nil {
		return true
	}
	_ = c.signal(syscall.SIGCONT, true)
	t := time.NewTimer(stopPatience)
	defer t.Stop()
	select {
	case <-c.exited():
		return true
	case <-t.C:
		c.kill()
		return false
	}
}

// kill sends SIGKILL and waits until the child is gone. It does nothing if the child is not running.
func (c *child) kill() {
	if c.signal(syscall.SIGKILL, true) == nil {
		<-c.exited()
	}
}

// since returns the output of the current run from its first byte.
func (c *child) since() []byte {
	c.mu.Lock()
	from := c.from
	c.mu.Unlock()
	f, err := os.Open(c.output())
	if err != nil {
		return nil
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil
	}
	b, _ := io.ReadAll(f) // on an error, show what could be read
	return b
}

// tail returns the end of all output, whole lines only.
func (c *child) tail() string {
	b, err := os.ReadFile(c.output())
	if err != nil {
		return ""
	}
	if len(b) > tailBytes {
		b = b[len(b)-tailBytes:]
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			b = b[i+1:]
		}
	}
	return string(b)
}

// said reports whether any run printed text.
func (c *child) said(text string) bool {
	b, err := os.ReadFile(c.output())
	return err == nil && bytes.Contains(b, []byte(text))
}

// portTaken reports whether the child failed because another process took its port: the only failure that is worth
// another try.
func (c *child) portTaken() bool {
	return strings.Contains(strings.ToLower(string(c.since())), "address already in use")
}
