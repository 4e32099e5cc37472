package lab

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// machine holds what the tests of one binary share. It is the only package variable: the testing package offers no
// other place that lives as long as the test binary.
var machine host

type host struct {
	spawner spawner
	scratch scratch
	builds  builds

	redis     once[*child]
	nats      once[*child]
	zookeeper once[*child]
	mariadb   once[*child]

	mariadbData once[string]
}

// once is a value that the first caller makes. A failure is kept too, so that a missing server fails every test at once
// instead of costing each the same wait.
type once[T any] struct {
	do    sync.Once
	value T
	err   error
}

func (o *once[T]) get(build func() (T, error)) (T, error) {
	o.do.Do(func() { o.value, o.err = build() })
	return o.value, o.err
}

// spawner starts every child from one thread that never ends. PR_SET_PDEATHSIG is tied to the thread that forked, not
// to the process: a child started from an ordinary goroutine would be killed whenever the Go runtime retires a thread.
// The process owns the goroutine, which ends with it.
type spawner struct {
	do    sync.Once
	calls chan func()
}

func (s *spawner) start(cmd *exec.Cmd) error {
	s.do.Do(func() {
		s.calls = make(chan func())
		go func() {
			runtime.LockOSThread()
			for call := range s.calls {
				call()
			}
		}()
	})
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	result := make(chan error)
	s.calls <- func() { result <- cmd.Start() }
	return <-result
}

// scratch is a directory for the shared servers and the built binaries of this process.
type scratch struct {
	made once[string]
	hold *os.File // the janitor's stdin; the kernel closes it when this process ends, however it ends
}

// janitor waits for its stdin to end, then removes the directory. It retries because the servers in it are dying at the
// same moment.
const janitor = `cat >/dev/null; n=0; until rm -rf -- "$1" || [ $n -ge 100 ]; do n=$((n+1)); sleep 0.1; done`

func (s *scratch) dir() (string, error) {
	return s.made.get(func() (string, error) {
		dir, err := os.MkdirTemp("", "tarry-lab-")
		if err != nil {
			return "", fmt.Errorf("make the shared directory: %w", err)
		}
		r, w, err := os.Pipe()
		if err != nil {
			return "", fmt.Errorf("make the janitor's pipe: %w", err)
		}
		defer r.Close()
		cmd := exec.Command("/bin/sh", "-c", janitor, "janitor", dir)
		cmd.Stdin = r
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt at the terminal must not reach it
		if err := cmd.Start(); err != nil {
			w.Close()
			return "", fmt.Errorf("start the janitor: %w", err)
		}
		s.hold = w
		return dir, nil
	})
}

// sub makes a new directory in the scratch directory.
func (s *scratch) sub(name string) (string, error) {
	dir, err := s.dir()
	if err != nil {
		return "", err
	}
	return os.MkdirTemp(dir, name+"-")
}
