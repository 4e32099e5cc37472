package election

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// errLocked is the error of the system's lock call if another process holds the lock.
var errLocked = errors.New("locked")

// maxHolder limits how much of a lock file is read back, since anybody may have written it.
const maxHolder = 200

// LockFile locks a file and writes the holder into it, for the error that the next caller gets, which Is ErrHeld. The
// system releases the lock when the process ends, however it dies, so a leftover file has no meaning. The file is not
// removed, because its name must remain one inode for everybody. Do not use LockFile on network file systems that do
// not share locks between hosts.
func LockFile(path string) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	return LockOpen(f)
}

// LockOpen is LockFile for an open file, which it closes.
func LockOpen(f *os.File) (release func(), err error) {
	if err := lock(f); err != nil {
		defer f.Close()
		if errors.Is(err, errLocked) {
			return nil, fmt.Errorf("%w: %s is locked by %s", ErrHeld, f.Name(), holderOf(f))
		}
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	if err := writeHolder(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("write %s: %w", f.Name(), err)
	}
	return func() {
		_ = f.Truncate(0) // only for tidiness: Close releases the lock, whatever the file says
		_ = unlock(f)
		_ = f.Close()
	}, nil
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

// holderOf reads the holder of the lock. The holder may just be starting, and the file may have any content.
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
