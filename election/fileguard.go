package election

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// errLocked is what the system's lock call says when another process has the lock.
var errLocked = errors.New("locked")

// maxHolder bounds what is read back from a lock file, which anybody may have written.
const maxHolder = 200

// FileGuard guards a data directory by a lock on a file in it. The system drops the lock with the process, however that
// dies, so a file left behind means nothing. The file is not removed: the name must stay one inode for everybody.
// Not for network file systems that do not share locks between hosts.
func FileGuard(path string) Guard { return fileGuard{path} }

type fileGuard struct{ path string }

// Acquire locks the file and writes the holder into it, for the refusal that the next one gets.
func (g fileGuard) Acquire(context.Context) (release func(), lost <-chan struct{}, err error) {
	f, err := os.OpenFile(g.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open lock file: %w", err)
	}
	if err := lockFile(f); err != nil {
		defer f.Close()
		if errors.Is(err, errLocked) {
			return nil, nil, fmt.Errorf("%w: %s is locked by %s", ErrHeld, g.path, holderOf(f))
		}
		return nil, nil, fmt.Errorf("lock %s: %w", g.path, err)
	}
	if err := writeHolder(f); err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("write %s: %w", g.path, err)
	}
	return func() {
		_ = f.Truncate(0) // only tidiness: the lock goes with Close, whatever the file says
		_ = unlockFile(f)
		_ = f.Close()
	}, nil, nil
}

func writeHolder(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	text := fmt.Sprintf("process %d on %s since %s\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
	_, err = f.WriteAt([]byte(text), 0)
	return err
}

// holderOf reads who has the lock. It may just be starting, or have been written by anything.
func holderOf(f *os.File) string {
	b, err := io.ReadAll(io.LimitReader(f, maxHolder))
	line, _, _ := strings.Cut(string(b), "\n")
	if err != nil || line == "" {
		return "a process that has not said who it is"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, line)
}
